package contract_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// TestReadOrder: the argument of an order is a reason, or an envelope, and nothing else.
func TestReadOrder(t *testing.T) {
	long := strings.Repeat("x", contract.MaxOrderReason)
	fill := func(total int) string { // an envelope of so many bytes
		const rest = `{"payload":""}`
		return `{"payload":"` + strings.Repeat("x", total-len(rest)) + `"}`
	}
	for name, c := range map[string]struct {
		raw        string
		asked      contract.Asked
		signed, ok bool
	}{
		"nothing said":           {raw: `{}`, ok: true},
		"with blanks":            {raw: " {\n} ", ok: true},
		"who and why":            {raw: `{"by":"bob","reason":"look"}`, asked: contract.Asked{By: "bob", Reason: "look"}, ok: true},
		"the longest reason":     {raw: `{"reason":"` + long + `"}`, asked: contract.Asked{Reason: long}, ok: true},
		"a longer reason":        {raw: `{"reason":"` + long + `x"}`},
		"the longest name":       {raw: `{"by":"` + long[:contract.MaxOrderBy] + `"}`, asked: contract.Asked{By: long[:contract.MaxOrderBy]}, ok: true},
		"a longer name":          {raw: `{"by":"` + long[:contract.MaxOrderBy+1] + `"}`},
		"an envelope":            {raw: `{"payloadType":"t","payload":"p","signatures":[]}`, signed: true, ok: true},
		"an envelope by its key": {raw: `{"payload":null,"by":"bob"}`, signed: true, ok: true},
		"the largest envelope":   {raw: fill(contract.MaxOrderBytes), signed: true, ok: true},
		"a larger envelope":      {raw: fill(contract.MaxOrderBytes + 1)},
		"another field":          {raw: `{"why":"x"}`},
		"a payload in capitals":  {raw: `{"Payload":"p"}`},
		"a number for a name":    {raw: `{"by":7}`},
		"nothing":                {raw: ``},
		"null":                   {raw: `null`},
		"a number":               {raw: `7`},
		"a list":                 {raw: `[]`},
		"a text":                 {raw: `"pause"`},
		"two values":             {raw: `{}{}`},
		"an open object":         {raw: `{"by":"bob"`},
		"bad UTF-8":              {raw: "{\"by\":\"\xff\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			asked, signed, ok := contract.ReadOrder(json.RawMessage(c.raw))
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.signed, signed)
			require.Equal(t, c.asked, asked)
		})
	}
}

// FuzzReadOrder: what is read is within its bounds, and is read again as it is written.
func FuzzReadOrder(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `{"by":"bob","reason":"look"}`, `{"payload":"p"}`, `{"by":"\ud800"}`, `{"by":"a","BY":"b"}`, `{}{}`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		asked, signed, ok := contract.ReadOrder(raw)
		if (!ok || signed) && asked != (contract.Asked{}) {
			t.Fatalf("somebody is said to have given it: %+v", asked)
		}
		if !ok {
			if signed {
				t.Fatal("it is signed, and is no order")
			}
			return
		}
		if len(raw) > contract.MaxOrderBytes || len(asked.By) > contract.MaxOrderBy || len(asked.Reason) > contract.MaxOrderReason {
			t.Fatalf("beyond its bounds: %d bytes, %+v", len(raw), asked)
		}
		if signed {
			return
		}
		written, err := json.Marshal(asked)
		if err != nil {
			t.Fatal(err)
		}
		if again, signed, ok := contract.ReadOrder(written); !ok || signed || again != asked {
			t.Fatalf("%s is read as %+v, and again as %+v", raw, asked, again)
		}
	})
}
