package approval_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestRequestRoundTrip: a request is read as it was written, whatever its texts are.
func TestRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		r := &approval.Request{
			Deployment: text("deployment"), Audience: rapid.SampledFrom([]trust.Audience{trust.Dev, trust.Prod}).Draw(t, "audience"), Namespace: text("namespace"),
			Workflow: text("workflow"), Origin: text("origin"), Barrier: text("barrier"), Name: text("name"), Plan: text("plan"), PlanName: text("plan name"),
			Agent: text("agent"), Requester: text("requester"), Rule: ruleOf(t, "rule"), Text: text("text"), Renderer: rapid.Int().Draw(t, "renderer"), Checkpoint: text("checkpoint"),
			Opened: ledger.At(time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "opened"))),
		}
		r.Expires = ledger.At(r.Opened.Time().Add(time.Duration(rapid.Int64Range(1, 1<<42).Draw(t, "open for")) * time.Millisecond))
		r.Rule.Groups = groupsOf(t, "groups", 1)
		for i := range rapid.IntRange(1, 4).Draw(t, "actions") {
			r.Actions = append(r.Actions, approval.Action{
				Node: text("node"), Path: text("path"), Operation: text("operation"), Effect: plan.Committing, Invocation: fmt.Sprintf("%d %s", i, text("invocation")),
				Action: text("action"), Amount: text("amount"), Currency: text("currency"), Decision: text("decision"), Policy: text("policy"), Evidence: text("evidence"),
				Hold: text("hold"), Lifts: rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "lifts"),
			})
			for u := range rapid.IntRange(0, 2).Draw(t, "undo") {
				r.Actions[i].Undo = append(r.Actions[i].Undo, approval.Undo{Node: text("node"), Operation: text("operation"), Invocation: fmt.Sprintf("%d/%d", i, u)})
			}
		}
		raw, err := r.Encode()
		require.NoError(t, err)
		require.Equal(t, approval.RequestFormat, r.Format)
		again, digest, err := approval.ParseRequest(raw)
		require.NoError(t, err)
		require.Equal(t, plan.DigestOf(raw), digest)
		require.Equal(t, *r, *again)
		twice, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(twice))
		digests := again.Digests()
		require.Len(t, digests, len(r.Actions))
		for i, a := range r.Actions {
			require.Equal(t, a.Action, digests[i])
			for _, u := range a.Undo {
				require.Equal(t, &again.Actions[i], again.Covers(u.Invocation))
			}
		}
		require.Nil(t, again.Covers("none"))
	})
}

func TestRequestRefused(t *testing.T) {
	w := newWorld(t, trust.Dev)
	r, _ := w.request()
	raw, err := r.Encode()
	require.NoError(t, err)
	replace := func(old, now string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, now, 1) }
	}
	for _, c := range []struct {
		name, says string
		edit       func(string) string
	}{
		{"nothing", "", func(string) string { return "" }},
		{"null", "", func(string) string { return "null" }},
		{"an empty object", "", func(string) string { return "{}" }},
		{"data after it", "data after", func(s string) string { return s + s }},
		{"not UTF-8", "", replace("bookkeeper", "book\xffkeeper")},
		{"unknown field", "unknown field", replace(`{`, `{"also":1,`)},
		{"unknown field of an action", "unknown field", replace(`"node":`, `"also":1,"node":`)},
		{"a field twice", "agent", replace(`"agent":"bookkeeper"`, `"agent":"auditor","agent":"bookkeeper"`)},
		{"a field in another spelling", "a field is missing", replace(`"agent"`, `"Agent"`)},
		{"no agent", "a field is missing", replace(`"agent":"bookkeeper",`, ``)},
		{"an empty checkpoint", "a field is missing, empty", func(s string) string { return strings.Replace(s, r.Checkpoint, "", 1) }},
		{"an empty hold", "a field is missing, empty", replace(`"hold":"hold-1"`, `"hold":""`)},
		{"no lifts, listed", "a field is missing, empty", replace(`"lifts":["budget_exceeded"]`, `"lifts":[]`)},
		{"undone by nothing, listed", "a field is missing, empty", replace(`"lifts":["budget_exceeded"]`, `"lifts":["budget_exceeded"],"undo":[]`)},
		{"undone twice by the same", "are not sorted, or not different", replace(`"lifts":["budget_exceeded"]`,
			`"lifts":["budget_exceeded"],"undo":[{"invocation":"u","node":"n","operation":"o"},{"invocation":"u","node":"n","operation":"o"}]`)},
		{"alone: false", "a field is missing, empty", replace(`"excluded"`, `"alone":false,"excluded"`)},
		{"a fraction of a person", "", replace(`"min":2`, `"min":2.0`)},
		{"a person in powers of ten", "", replace(`"min":2`, `"min":2e0`)},
		{"an instant in another form", "is not an instant", replace(`T13:00:00.000Z`, `T13:00:00Z`)},
		{"another format", "the format", replace(`request/v1`, `request/v2`)},
		{"an approval's format", "the format", replace(approval.RequestFormat, approval.Format)},
		{"a group of nobody", "a group of 0 persons", replace(`"min":2`, `"min":0`)},
		{"a group of less than nobody", "a group of -1 persons", replace(`"min":1`, `"min":-1`)},
		{"a group without a role", `the role ""`, replace(`"role":"finance"`, `"role":""`)},
		{"a group of too many", "a group of 101 persons", replace(`"min":2`, `"min":101`)},
		{"a group of more than there is room for", "a group of 1099511627776 persons", replace(`"min":2`, `"min":1099511627776`)},
		{"a group of more than there are numbers for", "", replace(`"min":2`, `"min":99999999999999999999`)},
		{"a role in two groups", "the groups are not sorted, or not different", replace(`"role":"legal"`, `"role":"finance"`)},
		{"another audience than there is", `the audience is "test"`, replace(`"audience":"dev"`, `"audience":"test"`)},
		{"no audience", `the audience is ""`, replace(`"audience":"dev"`, `"audience":""`)},
		{"never open", "it expires before it is opened", replace(r.Expires.String(), r.Opened.String())},
		{"an invocation twice", "the actions are not sorted, or not different", replace(`"invocation":"inv-2"`, `"invocation":"inv-1"`)},
		{"excluded persons not sorted", "the excluded persons are not sorted", replace(`["owen","rae"]`, `["rae","owen"]`)},
		{"an excluded person twice", "the excluded persons are not sorted, or not different", replace(`["owen","rae"]`, `["rae","rae"]`)},
		{"null for excluded persons", "who is excluded", replace(`["owen","rae"]`, `null`)},
		{"a line end", "not canonical", func(s string) string { return s + "\n" }},
		{"a space", "not canonical", replace(`:`, `: `)},
		{"an escape", "not canonical", replace("bookkeeper", `book\u006beeper`)},
		{"a slash escaped", "not canonical", replace("bank/transfer", `bank\/transfer`)},
		{"fields in another order", "not canonical", func(s string) string {
			return strings.Replace(strings.Replace(s, `"agent":"bookkeeper",`, ``, 1), `"audience":"dev",`, `"audience":"dev","agent":"bookkeeper",`, 1)
		}},
		{"groups not sorted", "the groups are not sorted", replace(`"role":"finance"`, `"role":"risk"`)},
		{"actions not sorted", "the actions are not sorted", replace(`"invocation":"inv-1"`, `"invocation":"inv-9"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.edit(string(raw))
			require.NotEqual(t, string(raw), text)
			have, digest, err := approval.ParseRequest([]byte(text))
			require.ErrorIs(t, err, approval.ErrInvalid)
			require.ErrorContains(t, err, c.says)
			require.Nil(t, have)
			require.Empty(t, digest)
		})
	}
	for _, c := range []struct {
		name, says string
		edit       func(*approval.Request)
	}{
		{"nobody is asked", "nobody is asked", func(r *approval.Request) { r.Rule.Groups = nil }},
		{"nobody is asked, by an empty list", "nobody is asked", func(r *approval.Request) { r.Rule.Groups = []plan.Group{} }},
		{"for nothing", "0 actions", func(r *approval.Request) { r.Actions = nil }},
		{"for too much", "257 actions", func(r *approval.Request) { r.Actions = make([]approval.Action, ledger.MaxAwaited+1) }},
		{"groups not sorted", "not sorted", func(r *approval.Request) { slices.Reverse(r.Rule.Groups) }},
		{"actions not sorted", "not sorted", func(r *approval.Request) { slices.Reverse(r.Actions) }},
		{"a group of nobody", "a group of 0 persons", func(r *approval.Request) { r.Rule.Groups[0].Min = 0 }},
		{"a group of too many", "a group of 101 persons", func(r *approval.Request) { r.Rule.Groups[0].Min = 101 }},
		{"a text that is not UTF-8", "not UTF-8", func(r *approval.Request) { r.Agent = "book\xffkeeper" }},
		{"a text of an action that is not UTF-8", "not UTF-8", func(r *approval.Request) { r.Actions[1].Node = "\xff" }},
		{"a reason that is not UTF-8", "not UTF-8", func(r *approval.Request) { r.Actions[0].Lifts[0] = "\xff" }},
		{"an instant that cannot be written", "", func(r *approval.Request) { r.Expires = ledger.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) }},
	} {
		t.Run("encode: "+c.name, func(t *testing.T) {
			r, _ := w.request()
			c.edit(r)
			_, err := r.Encode()
			require.Error(t, err)
			require.ErrorContains(t, err, c.says)
			again, err := trust.Encode(r)
			if err != nil {
				return
			}
			_, _, err = approval.ParseRequest(again)
			require.ErrorIs(t, err, approval.ErrInvalid)
		})
	}
	many, _ := w.request(func(r *approval.Request) {
		r.Actions, r.Text = make([]approval.Action, ledger.MaxAwaited), "x"
		for i := range r.Actions {
			r.Actions[i].Invocation = fmt.Sprintf("%04d", i)
		}
		r.Rule.Groups[0].Min = 100
	})
	require.Len(t, many.Digests(), ledger.MaxAwaited)
}

// TestPayload: what a signer signs repeats what the request says, of this and no other.
func TestPayload(t *testing.T) {
	w := newWorld(t, trust.Prod)
	r, d := w.request()
	for _, decision := range []approval.Decision{approval.Approve, approval.Reject} {
		require.Equal(t, approval.Payload{
			Format: approval.Format, Request: d, Deployment: r.Deployment, Audience: trust.Prod, Namespace: "default", Workflow: "run-7f3a", Barrier: "barrier-1",
			Plan: r.Plan, Actions: []string{digest("action 1"), digest("action 2")}, Text: r.Text, Decision: decision,
		}, r.Payload(d, decision))
	}
	// The payload of another request, with nothing of the other but its digest, is about
	// neither.
	other, otherDigest := w.request(func(r *approval.Request) { r.Barrier = "barrier-2" })
	p := payload(r, otherDigest, "ada", "finance")
	raw := w.seal(p, "ada")
	v, err := approval.Verify(w.state, r, d, raw, noon)
	refused(t, approval.Foreign, "another request", v, err)
	v, err = approval.Verify(w.state, other, otherDigest, raw, noon)
	refused(t, approval.Foreign, "the barrier", v, err)
	// In JSON it has the fields of the format.
	text, err := json.Marshal(p)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	require.Equal(t, []string{
		"actions", "audience", "barrier", "decision", "deployment", "expires", "format", "issued", "namespace", "nonce", "not_before", "plan", "request", "role",
		"signer", "text", "workflow",
	}, names)
}
