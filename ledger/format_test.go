package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/schemas"
)

var kinds = []ledger.Kind{ledger.RunOpened, ledger.NodeFailed, ledger.HoldPosted, ledger.LegalHoldLifted, ledger.DecisionMade}

func entries() *rapid.Generator[*ledger.Entry] {
	name := rapid.StringOfN(rapid.RuneFrom([]rune("aZ09-/é漢\u2028\u2029\ufffd\"\\<>&'\u0080 ")), 1, 12, -1)
	maybe := rapid.OneOf(rapid.Just(""), name)
	return rapid.Custom(func(t *rapid.T) *ledger.Entry {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		e := &ledger.Entry{
			Format: ledger.EntryFormat, Origin: name.Draw(t, "origin"), Chain: name.Draw(t, "chain"), Key: name.Draw(t, "key"), Kind: kind, Class: kind.Class(),
			N:  rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Min(0)).Draw(t, "n"),
			At: ledger.At(time.UnixMilli(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "at"))), Agent: maybe.Draw(t, "agent"), Plan: maybe.Draw(t, "plan"), Run: maybe.Draw(t, "run"),
			Node: maybe.Draw(t, "node"), Visit: rapid.IntRange(0, 3).Draw(t, "visit"), Element: rapid.IntRange(0, 3).Draw(t, "element"), Task: maybe.Draw(t, "task"),
		}
		if e.N > 0 {
			e.Prev = ledger.LeafHash([]byte(e.Key))
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "refs") {
			e.Refs = append(e.Refs, ledger.Ref{Name: fmt.Sprint(i, e.Key), Digest: ledger.BodyDigest([]byte{byte(i)})})
		}
		if rapid.Bool().Draw(t, "body") {
			e.Body = ledger.BodyDigest([]byte(e.Key))
		}
		return e
	})
}

// What is written by hand is what encoding/json would write, and is read back as
// the same entry; the hash is that of RFC 6962.
func TestEntryBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := entries().Draw(t, "entry")
		raw, err := e.Encode()
		require.NoError(t, err)
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(e))
		require.Equal(t, buf.String(), string(raw)+"\n")
		require.NotContains(t, string(raw), "\n")
		back, err := ledger.DecodeEntry(raw)
		require.NoError(t, err)
		require.Equal(t, e, back)
		fast, ok := ledger.ScanEntry(raw)
		require.Equal(t, !strings.Contains(string(raw), `\`) && e.N < 1e18, ok, "only what has escapes or long numbers takes the slow way: %s", raw)
		if ok {
			require.Equal(t, e, fast)
		}
		h, err := e.Hash()
		require.NoError(t, err)
		sum := sha256.Sum256(append([]byte{0}, raw...))
		require.Equal(t, hex.EncodeToString(sum[:]), h.String())
		origin, again, err := ledger.ParseReference(ledger.Reference(e.Origin, h))
		require.NoError(t, err)
		require.Equal(t, e.Origin, origin)
		require.Equal(t, h, again)
	})
}

// Another spelling of an entry is not an entry.
func TestEntryHasOneForm(t *testing.T) {
	e := &ledger.Entry{Format: ledger.EntryFormat, Origin: "o", Chain: "c", Key: "k", Kind: ledger.NodeFailed, Class: ledger.Operational, At: ledger.At(time.Unix(1, 0)), Node: "<é>"}
	good, err := e.Encode()
	require.NoError(t, err)
	require.Equal(t, `{"format":"chimera.ai/ledger/entry/v1","origin":"o","chain":"c","n":0,"prev":"","key":"k","kind":"node.failed","at":"1970-01-01T00:00:01.000Z","class":"operational","node":"<é>"}`, string(good))
	for _, change := range [][2]string{
		{`{"format"`, `{ "format"`}, {`"n":0`, `"n":0.0`}, {`"n":0`, `"n":-1`}, {`"n":0`, `"n":1`}, {`"key"`, `"Key"`}, {`"key":"k"`, `"key":""`}, {`}`, `,"visit":0}`}, {`}`, `,"x":1}`},
		{`"node":"<é>"`, `"node":"\u003cé>"`}, {`"node":"<é>"`, `"node":"a","node":"<é>"`}, {`node.failed`, `node.fell`}, {`operational`, `other`}, {`01.000Z`, `01Z`},
		{`01.000Z`, `01.000+00:00`}, {`"prev":""`, `"prev":null`}, {`"key":"k"`, `"key":"a\u0000"`}, {`"key":"k"`, "\"key\":\"\xff\""}, {`}`, `}{}`}, {`}`, "}\n"}, {`}`, ``},
		{`"o"`, `"` + strings.Repeat("o", 1025) + `"`}, {`}`, `,"refs":[]}`}, {`}`, `,"body":"sha256:"}`},
	} {
		raw := strings.Replace(string(good), change[0], change[1], 1)
		require.NotEqual(t, string(good), raw)
		_, err := ledger.DecodeEntry([]byte(raw))
		require.Error(t, err, raw)
	}
}

func FuzzEntry(f *testing.F) {
	for i := range 8 {
		raw, err := entries().Example(i).Encode()
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Add([]byte(`{"format":"chimera.ai/ledger/entry/v1","origin":"o","chain":"c","n":00,"prev":"","key":"k","kind":"node.failed","at":"1970-01-01T00:00:01.000Z","class":"operational"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := ledger.DecodeEntry(raw)
		if len(raw) <= ledger.MaxEntryBytes {
			any, other := ledger.DecodeAnyEntry(raw)
			require.Equal(t, other == nil, err == nil, "both decoders take the same: %v, %v", err, other)
			if err == nil {
				require.Equal(t, any, e)
			}
		}
		if err != nil {
			return
		}
		again, err := e.Encode()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again))
		require.NotContains(t, string(raw), "\n")
	})
}

func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"b": 1.50, "a": "<\u0000\u2028>"}`), []byte("0123456789abcdef"))
	f.Add([]byte(`{"data":{},"salt":"00"}`), []byte("x"))
	for _, data := range []string{
		`{"data": {"a":1} ,"salt":"00112233445566778899aabbccddeeff"}`, `{"data":{"a":1},"salt":"00112233445566778899AABBCCDDEEFF"}`,
		`{"data":1,"x":2,"salt":"00112233445566778899aabbccddeeff"}`, `{"data":null,"salt":"00112233445566778899aabbccddeeff"}`,
		`{"data":{},"sealed":1,"salt":"00112233445566778899aabbccddeeff"}`, `{"data":,"salt":"00112233445566778899aabbccddeeff"}`,
		`{"data":"\\","salt":"00112233445566778899aabbccddeeff"}`, `{"data":"\\"a,"salt":"00112233445566778899aabbccddeeff"}`,
		"{\"data\":{\"a\":\n1},\"salt\":\"00112233445566778899aabbccddeeff\"}",
		`{"data":1,"data":2,"salt":"00112233445566778899aabbccddeeff"}`, `{"data":1,"salt":"","salt":"00112233445566778899aabbccddeeff"}`,
	} {
		f.Add([]byte(data), []byte("x"))
	}
	f.Fuzz(func(t *testing.T, data, salt []byte) {
		var b ledger.Body
		b.Data = data
		copy(b.Salt[:], salt)
		_, _ = ledger.Sealed(data)
		if have, err := ledger.DecodeBody(data); len(data) <= ledger.MaxBodyBytes {
			_, wrong := schemas.Decode(data)
			any, other := ledger.DecodeAnyBody(data)
			require.Equal(t, wrong == nil && other == nil, err == nil, "both decoders take the same: %v, %v", err, other)
			if err == nil {
				require.Equal(t, any, have)
				require.NotContains(t, string(data), "\n", "a body is a line")
			}
		}
		raw, err := b.Encode()
		if err != nil {
			require.ErrorIs(t, err, ledger.ErrInvalid)
			return
		}
		back, err := ledger.DecodeBody(raw)
		require.NoError(t, err)
		require.Equal(t, b.Salt, back.Salt)
		again, err := back.Encode()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again), "one body has one form")

		key := bytes.Repeat([]byte{7}, ledger.KeyBytes)
		sealed, err := ledger.Seal("id", key, raw)
		require.NoError(t, err)
		id, ok := ledger.Sealed(sealed)
		require.True(t, ok)
		require.Equal(t, "id", id)
		_, err = ledger.DecodeBody(sealed)
		require.ErrorIs(t, err, ledger.ErrSealed)
		opened, err := ledger.Unseal(key, sealed)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(opened))
		_, err = ledger.Unseal(bytes.Repeat([]byte{8}, ledger.KeyBytes), sealed)
		require.Error(t, err)
		_, err = ledger.Unseal(key, bytes.Replace(sealed, []byte(`"id"`), []byte(`"ie"`), 1))
		require.Error(t, err, "what is sealed is bound to its key's name")
	})
}

// Money is exact: sums are those of rationals, or refused.
func TestMoneyAgainstRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom([]ledger.Currency{"JPY", "USD", "KWD"}).Draw(t, "currency")
		places, ok := c.Exponent()
		require.True(t, ok)
		unit := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil))
		value := func(m ledger.Money) *big.Rat { return new(big.Rat).Mul(unit, new(big.Rat).SetInt64(m.Minor())) }
		fits := func(r *big.Rat) bool {
			n := new(big.Rat).Quo(r, unit)
			return n.IsInt() && n.Num().IsInt64()
		}
		draw := func(name string) ledger.Money {
			m, err := ledger.Minor(rapid.Int64().Draw(t, name), c)
			require.NoError(t, err)
			return m
		}
		a, b := draw("a"), draw("b")
		for name, op := range map[string]struct {
			f    func(ledger.Money) (ledger.Money, error)
			want *big.Rat
		}{"add": {a.Add, new(big.Rat).Add(value(a), value(b))}, "sub": {a.Sub, new(big.Rat).Sub(value(a), value(b))}} {
			got, err := op.f(b)
			require.Equal(t, fits(op.want), err == nil, "%s %s %s", a, name, b)
			if err == nil {
				require.Zero(t, op.want.Cmp(value(got)), "%s %s %s", a, name, b)
			} else {
				require.ErrorIs(t, err, ledger.ErrAmount)
			}
		}
		cmp, err := a.Cmp(b)
		require.NoError(t, err)
		require.Equal(t, value(a).Cmp(value(b)), cmp)
		again, err := ledger.ParseMoney(a.Amount(), c)
		require.NoError(t, err)
		require.Equal(t, a, again)
		raw, err := json.Marshal(a)
		require.NoError(t, err)
		var back ledger.Money
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, a, back)
		other, err := ledger.Minor(1, "EUR")
		require.NoError(t, err)
		_, err = a.Add(other)
		require.ErrorIs(t, err, ledger.ErrCurrency)
	})
}

func TestMoneyHasOneForm(t *testing.T) {
	var m ledger.Money
	require.NoError(t, json.Unmarshal([]byte(` {"currency": "USD", "amount": "-0.50"}`), &m))
	require.Equal(t, int64(-50), m.Minor())
	for _, raw := range []string{
		`{"amount":"1.5","currency":"USD"}`, `{"amount":"1.500","currency":"USD"}`, `{"amount":"-0.00","currency":"USD"}`, `{"amount":"01.00","currency":"USD"}`,
		`{"amount":"1e2","currency":"USD"}`, `{"amount":1.00,"currency":"USD"}`, `{"amount":"1.00","currency":"usd"}`, `{"amount":"1.00","currency":"XXX"}`,
		`{"amount":"1.00","currency":"USD","x":1}`, `{"Amount":"1.00","currency":"USD"}`, `{"amount":"1.00","AMOUNT":"2.00","currency":"USD"}`,
		`{"amount":"2.00","amount":"1.00","currency":"USD"}`, `{"amount":"1.00"}`, `null`, `"1.00 USD"`, `[]`, `{"amount":"92233720368547758.08","currency":"USD"}`,
		`{"amount":" 1.00","currency":"USD"}`, `{"amount":"1.00","currency":"USD "}`,
	} {
		require.Error(t, json.Unmarshal([]byte(raw), &m), raw)
		require.Equal(t, int64(-50), m.Minor(), "what is refused changes nothing")
	}
	_, err := json.Marshal(ledger.Money{})
	require.Error(t, err)
}

func FuzzMoney(f *testing.F) {
	f.Add("12.50", "USD")
	f.Add("1e99", "JPY")
	f.Add("-0.001", "KWD")
	f.Add("9223372036854775807", "JPY")
	f.Fuzz(func(t *testing.T, amount, currency string) {
		m, err := ledger.ParseMoney(amount, ledger.Currency(currency))
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(amount)
		require.True(t, ok)
		have, ok := new(big.Rat).SetString(m.Amount())
		require.True(t, ok)
		require.Zero(t, want.Cmp(have))
		again, err := ledger.ParseMoney(m.Amount(), m.Currency())
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func FuzzReference(f *testing.F) {
	f.Add("ledger://log.example.com/a/" + strings.Repeat("0a", 32))
	f.Add("ledger:///" + strings.Repeat("00", 32))
	f.Fuzz(func(t *testing.T, s string) {
		origin, h, err := ledger.ParseReference(s)
		if err != nil {
			return
		}
		require.NotEmpty(t, origin)
		require.Equal(t, s, ledger.Reference(origin, h), "a reference has one form")
	})
}

// What can be written can be read: bodies are one level deeper than their data.
func TestDeepBodies(t *testing.T) {
	for depth := schemas.MaxDepth - 3; depth <= schemas.MaxDepth; depth++ {
		raw, err := ledger.Body{Data: []byte(`{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`)}.Encode()
		if depth == schemas.MaxDepth {
			require.ErrorIs(t, err, ledger.ErrInvalid)
			return
		}
		require.NoError(t, err)
		_, err = ledger.DecodeBody(raw)
		require.NoError(t, err)
	}
}
