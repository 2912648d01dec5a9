package approval_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/approval/display"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestText: who has the request and what is shown has the text, and its digest stands in the
// request.
func TestText(t *testing.T) {
	w := newWorld(t, trust.Prod)
	r, _ := w.request()
	text, d, err := approval.Text(r, shown)
	require.NoError(t, err)
	require.Equal(t, r.Text, d)
	require.Equal(t, digest(text), d)
	for range 3 {
		// Read anew, as a program does that computes the text on its own.
		raw, err := r.Encode()
		require.NoError(t, err)
		again, _, err := approval.ParseRequest(raw)
		require.NoError(t, err)
		same, sameDigest, err := approval.Text(again, slices.Clone(shown))
		require.NoError(t, err)
		require.Equal(t, text, same)
		require.Equal(t, d, sameDigest)
	}
	for _, said := range []string{
		deployment, "prod", "default", "run-7f3a", "barrier-1", "invoices@1.2.0", r.Plan, "bookkeeper", "rae", "owen", "2 of \"finance\"", "1 of \"legal\"",
		r.Opened.String(), r.Expires.String(), "transfer", "bank/transfer", "irreversible", "1250.00", "EUR", digest("action 1"), digest("evidence 1"), "inv-1", "dec-1",
		"mail/send", digest("action 2"), "pay the invoice", "account:1", "12.5", "budget_exceeded", digest("tool"),
	} {
		require.Contains(t, text, said)
	}
	require.Equal(t, display.Version, approval.Renderer)
	// Inputs that are the same value are shown the same.
	other := slices.Clone(shown)
	other[0].Inputs = json.RawMessage(" { \"to\" : \"zoe\", \"amount\":12.5 }\n")
	_, same, err := approval.Text(r, other)
	require.NoError(t, err)
	require.Equal(t, d, same)
}

// TestTextTells: of two requests that ask for different things the texts differ. What is not
// shown is named here, and signed by the digest of the request all the same.
func TestTextTells(t *testing.T) {
	silent := []string{"Format", "Origin", "Name", "Rule.Alone", "Rule.FollowUp.RemindEveryMS", "Text", "Renderer", "Policy", "Hold", "Lifts[0]"}
	w := newWorld(t, trust.Prod)
	escalates := func(r *approval.Request) {
		r.Rule.FollowUp = plan.FollowUp{RemindEveryMS: 60_000, EscalateAfterMS: 60_000, To: []plan.Group{{Role: "risk", Min: 1}}}
	}
	r, _ := w.request(escalates)
	_, d, err := approval.Text(r, shown)
	require.NoError(t, err)
	for i := 0; ; i++ {
		altered, _ := w.request(escalates)
		field := alter(reflect.ValueOf(altered).Elem(), "request", i)
		if field == "" {
			break
		}
		name := strings.TrimPrefix(field, "request.")
		if strings.HasPrefix(name, "Actions[") {
			name = name[strings.Index(name, ".")+1:]
		}
		_, other, err := approval.Text(altered, shown)
		require.NoError(t, err, field)
		require.Equal(t, slices.Contains(silent, name), d == other, field)
	}
	for i := 0; ; i++ {
		altered := []approval.Shown{shown[0], shown[1]}
		altered[0].Resources, altered[0].Tainted, altered[0].Objections = slices.Clone(altered[0].Resources), slices.Clone(altered[0].Tainted), slices.Clone(altered[0].Objections)
		altered[0].Prechecks = slices.Clone(altered[0].Prechecks)
		// The inputs are bytes of JSON, and altered below.
		altered[0].Inputs = nil
		field := alter(reflect.ValueOf(&altered[0]).Elem(), "shown", i)
		if field == "" {
			break
		}
		altered[0].Inputs = shown[0].Inputs
		_, other, err := approval.Text(r, altered)
		require.NoError(t, err, field)
		require.NotEqual(t, d, other, field)
	}
	altered := slices.Clone(shown)
	altered[0].Inputs = json.RawMessage(`{"amount":12.50,"to":"zoe"}`)
	_, other, err := approval.Text(r, altered)
	require.NoError(t, err)
	require.NotEqual(t, d, other)
}

func TestTextRefused(t *testing.T) {
	w := newWorld(t, trust.Prod)
	r, _ := w.request()
	for name, c := range map[string]struct {
		shown []approval.Shown
		says  string
	}{
		"nothing shown":     {nil, "2 actions, and 0 are shown"},
		"one too few":       {shown[:1], "2 actions, and 1 are shown"},
		"one too many":      {append(slices.Clone(shown), shown[0]), "2 actions, and 3 are shown"},
		"inputs not JSON":   {[]approval.Shown{shown[0], {Inputs: json.RawMessage("{")}}, "action 2"},
		"no inputs":         {[]approval.Shown{{}, shown[1]}, "action 1"},
		"too many reasons":  {[]approval.Shown{shown[0], {Inputs: shown[1].Inputs, Objections: make([]string, display.MaxList+1)}}, "a list of 65 strings"},
		"a tale for a name": {[]approval.Shown{{Inputs: shown[1].Inputs, Fingerprint: strings.Repeat("x", display.MaxName+1)}, shown[1]}, "a string of 1025 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			text, d, err := approval.Text(r, c.shown)
			require.ErrorContains(t, err, c.says)
			require.Empty(t, text)
			require.Empty(t, d)
		})
	}
}

// TestTextNamesWhatIsApprovedWithIt: an effect that is approved with the one that it undoes
// has a line.
func TestTextNamesWhatIsApprovedWithIt(t *testing.T) {
	w := newWorld(t, trust.Dev)
	r, _ := w.request()
	before, _, err := approval.Text(r, shown)
	require.NoError(t, err)
	require.NotContains(t, before, "approved undo")
	r.Actions[1].Undo = []approval.Undo{{Node: "back", Operation: "bank/recall", Invocation: "u"}}
	text, _, err := approval.Text(r, shown)
	require.NoError(t, err)
	require.Contains(t, text, `  approved undo:  "bank/recall (back)" if the run fails later, with`)
}

// TestShownOf: what the plan says of a node is shown, and so is how each of its ways back
// undoes it.
func TestShownOf(t *testing.T) {
	p := &plan.Plan{
		Nodes: []plan.Node{
			{ID: "pay", Description: "pay the invoice", Resources: []string{"account:1"}},
			{ID: "refund", Provider: "bank", Operation: "refund"},
			{ID: "tell", Provider: "mail", Operation: "send", Commit: &plan.Commit{Waived: "what is read stays read"}},
			{ID: "log", Provider: "file", Operation: "write"},
		},
		Edges: []plan.Edge{
			{From: 0, FromPort: "out", To: 2, ToPort: "in"},
			{From: 0, FromPort: plan.CompensatePort, To: 1, ToPort: "payment", Transform: json.RawMessage(`"${output}"`)},
			{From: 0, FromPort: plan.CompensatePort, To: 2, ToPort: "text", Transform: json.RawMessage(`"sorry for text; bank/keep (x)"`)},
			{From: 2, FromPort: "out", To: 3, ToPort: "in"},
		},
	}
	for i, want := range []approval.Shown{
		{Description: "pay the invoice", Resources: []string{"account:1"}, Undo: `bank/refund (refund) with ${output} for payment; mail/send (tell) with "sorry for text; bank/keep (x)" for text`},
		{},
		{Undo: "nothing undoes it: what is read stays read"},
		{},
	} {
		var s approval.Shown
		s.Of(p, i)
		require.Equal(t, want, s, p.Nodes[i].ID)
	}
}

// TestTemplates: templates of edges look as simple as they may, and each unlike all others.
func TestTemplates(t *testing.T) {
	shown := func(template string) string {
		var s approval.Shown
		s.Of(&plan.Plan{
			Nodes: []plan.Node{{ID: "pay"}, {ID: "refund", Provider: "bank", Operation: "refund"}},
			Edges: []plan.Edge{{From: 0, FromPort: plan.CompensatePort, To: 1, ToPort: "in", Transform: json.RawMessage(template)}},
		}, 0)
		text, ok := strings.CutPrefix(s.Undo, "bank/refund (refund) with ")
		require.True(t, ok)
		text, ok = strings.CutSuffix(text, " for in")
		require.True(t, ok)
		return text
	}
	for _, c := range [][2]string{
		{`"${args.path}"`, `${args.path}`}, {`"a/${args.list[0]}-b.txt"`, `a/${args.list[0]}-b.txt`}, {`"\u0061"`, `a`},
		{`12`, `12`}, {`"12"`, `"12"`}, {`true`, `true`}, {`"true"`, `"true"`}, {`null`, `null`}, {`"null"`, `"null"`}, {`{}`, `{}`}, {`"{}"`, `"{}"`}, {`"[]"`, `"[]"`},
		{`""`, `""`}, {`" "`, `" "`}, {`"a b"`, `"a b"`}, {`"\""`, `"\""`}, {`"\\"`, `"\\"`}, {`"a\n"`, `"a\n"`}, {`"a;b"`, `"a;b"`}, {`"\u00e9"`, `"\u00e9"`}, {`["${output}"]`, `["${output}"]`},
	} {
		require.Equal(t, c[1], shown(c[0]), c[0])
	}
	rapid.Check(t, func(r *rapid.T) {
		some := rapid.SliceOfN(rapid.SampledFrom([]string{`"`, `\`, "$", "{", "}", "[", "]", "1", "a", " ", ";", ",", "for", "null", "\n"}), 0, 4)
		var all [2]string
		for i := range all {
			v := strings.Join(some.Draw(r, "value"), "")
			if all[i] = v; rapid.Bool().Draw(r, "a string") || !json.Valid([]byte(v)) {
				raw, err := json.Marshal(v)
				require.NoError(r, err)
				all[i] = string(raw)
			}
		}
		require.Equal(r, all[0] == all[1], shown(all[0]) == shown(all[1]), "%s and %s", all[0], all[1])
	})
}

func TestCheckpoint(t *testing.T) {
	note := fmt.Sprintf("%s\n4711\nq1Zrqd7gMXr0Q5ksM4nYxVYcJ0F6jJ9cQy7m3pB2x1A=\n\n— %s AAAA\n", logName, logName)
	want := logName + " 4711 q1Zrqd7gMXr0Q5ksM4nYxVYcJ0F6jJ9cQy7m3pB2x1A="
	require.Equal(t, want, approval.Checkpoint([]byte(note)))
	require.Equal(t, want, approval.Checkpoint([]byte(note+"— witness.example BBBB\n")), "signatures are left out")
	for _, none := range []string{"", "x", "a\n1\nroot"} {
		require.Empty(t, approval.Checkpoint([]byte(none)))
	}
}
