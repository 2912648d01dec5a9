package approval_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestReplayed: what was signed for something else counts here for nothing.
func TestReplayed(t *testing.T) {
	// other seals an approval of another request, and sends it to this one. What people are
	// shown has the same digest for both, as if the renderer left out what differs.
	other := func(edit func(*approval.Request)) func(*attempt) {
		return func(a *attempt) {
			r, d := a.world.request(func(r *approval.Request) {
				r.Text = a.request.Text
				edit(r)
			})
			require.NotEqual(a.t, a.digest, d)
			a.envelope = a.seal(payload(r, d, "ada", "finance"), "ada")
		}
	}
	fail(t, []attack{
		{"another run", approval.Foreign, `the workflow "run-8", not "run-7f3a"`, other(func(r *approval.Request) { r.Workflow = "run-8" })},
		{"the run after a reset", approval.Foreign, "another request", other(func(r *approval.Request) { r.Origin = "origin-2" })},
		{"another namespace", approval.Foreign, "the namespace", other(func(r *approval.Request) { r.Namespace = "staging" })},
		{"another deployment", approval.Foreign, `the deployment "rival", not "acme"`, other(func(r *approval.Request) { r.Deployment = "rival" })},
		{"another audience", approval.Foreign, "the audience", other(func(r *approval.Request) {
			r.Audience = map[trust.Audience]trust.Audience{trust.Dev: trust.Prod, trust.Prod: trust.Dev}[r.Audience]
		})},
		{"another barrier", approval.Foreign, `the barrier "barrier-2"`, other(func(r *approval.Request) { r.Barrier = "barrier-2" })},
		{"a barrier of another name", approval.Foreign, "another request", other(func(r *approval.Request) { r.Name = "refund" })},
		{"another plan", approval.Foreign, "the plan", other(func(r *approval.Request) { r.Plan = digest("plan 2") })},
		{"another agent", approval.Foreign, "another request", other(func(r *approval.Request) { r.Agent = "auditor" })},
		{"another requester", approval.Foreign, "another request", other(func(r *approval.Request) { r.Requester = "sue" })},
		{"another node", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Node = "refund" })},
		{"another visit", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Path = "/transfer/2" })},
		{"another invocation", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Invocation = "inv-0" })},
		{"another operation", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Operation = "bank/refund" })},
		{"another effect", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Effect = plan.Staged })},
		{"another action", approval.Foreign, "other actions", other(func(r *approval.Request) { r.Actions[0].Action = digest("action 9") })},
		{"fewer actions", approval.Foreign, "other actions", other(func(r *approval.Request) { r.Actions = r.Actions[:1] })},
		{"more actions", approval.Foreign, "other actions", other(func(r *approval.Request) {
			more := r.Actions[1]
			more.Invocation, more.Action = "inv-3", digest("action 3")
			r.Actions = append(r.Actions, more)
		})},
		{"actions exchanged", approval.Foreign, "other actions", other(func(r *approval.Request) {
			r.Actions[0].Action, r.Actions[1].Action = r.Actions[1].Action, r.Actions[0].Action
		})},
		{"altered amount", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Amount = "12500.00" })},
		{"altered amount, and shown", approval.Foreign, "the text", other(func(r *approval.Request) { r.Actions[0].Amount, r.Text = "12500.00", "" })},
		{"the amount left out", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Amount, r.Actions[0].Currency = "", "" })},
		{"altered currency", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Currency = "USD" })},
		{"other display text", approval.Foreign, "the text", other(func(r *approval.Request) { r.Text = digest("harmless") })},
		{"another renderer", approval.Foreign, "another request", other(func(r *approval.Request) { r.Renderer++ })},
		{"a weaker rule", approval.Foreign, "another request", other(func(r *approval.Request) { r.Rule.Groups = r.Rule.Groups[:1] })},
		{"an excluded person let in", approval.Foreign, "another request", other(func(r *approval.Request) { r.Rule.Excluded = r.Rule.Excluded[:1] })},
		{"a decision made again", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Decision = "dec-9" })},
		{"another policy", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Policy = digest("policy 2") })},
		{"other evidence", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Evidence = digest("evidence 3") })},
		{"another hold", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Hold = "" })},
		{"more lifted", approval.Foreign, "another request", other(func(r *approval.Request) { r.Actions[0].Lifts = append(r.Actions[0].Lifts, "hours") })},
		{"another checkpoint", approval.Foreign, "another request", other(func(r *approval.Request) { r.Checkpoint = "" })},
		{"the same barrier opened later", approval.Foreign, "another request", other(func(r *approval.Request) { r.Opened = minutes(-59) })},
		{"the digest of another request alone", approval.Foreign, "another request", func(a *attempt) { a.payload.Request = digest("request") }},
		{"no digest of a request", approval.Foreign, "another request", func(a *attempt) { a.payload.Request = "" }},
		{"no actions", approval.Foreign, "other actions", func(a *attempt) { a.payload.Actions = nil }},
		{"actions in another order", approval.Foreign, "other actions", func(a *attempt) { slices.Reverse(a.payload.Actions) }},
		{"an action twice", approval.Foreign, "other actions", func(a *attempt) { a.payload.Actions[1] = a.payload.Actions[0] }},
	})
}

// TestEveryFieldIsSigned: whatever of a request is altered after somebody has signed it, in
// the store or on the way, the signature counts no more. Fields are found by reflection, so
// that one that is new is tested too.
func TestEveryFieldIsSigned(t *testing.T) {
	w := newWorld(t, trust.Dev)
	count := 0
	escalates := func(r *approval.Request) {
		r.Rule.FollowUp = plan.FollowUp{RemindEveryMS: 60_000, EscalateAfterMS: 90 * 60_000, To: []plan.Group{{Role: "risk", Min: 1}}}
	}
	r, d := w.request(escalates)
	signed := w.seal(payload(r, d, "ada", "finance"), "ada")
	for i := 0; ; i++ {
		altered, _ := w.request(escalates)
		field := alter(reflect.ValueOf(altered).Elem(), "request", i)
		if field == "" {
			break
		}
		count++
		t.Run(field, func(t *testing.T) {
			raw, err := trust.Encode(altered)
			require.NoError(t, err)
			after, digest, err := approval.ParseRequest(raw)
			if err != nil {
				require.ErrorIs(t, err, approval.ErrInvalid)
				require.Contains(t, []string{"request.Format", "request.Kind", "request.Audience", "request.Actions[0].Permitted", "request.Actions[1].Permitted"}, field, "others have many values: %s", err)
				return
			}
			require.NotEqual(t, d, digest)
			v, err := approval.Verify(w.state, after, digest, signed, noon)
			refused(t, approval.Foreign, "", v, err)
			// And what is signed for the altered one does not count for the first.
			v, err = approval.Verify(w.state, r, d, w.seal(payload(after, digest, "ada", "finance"), "ada"), noon)
			refused(t, approval.Foreign, "", v, err)
		})
	}
	require.Greater(t, count, 35)
}

// TestStateOfAnother: the signers of one deployment, or of development, approve nothing of
// another, or of production.
func TestStateOfAnother(t *testing.T) {
	for name, edit := range map[string]func(*approval.Request){
		"another audience": func(r *approval.Request) {
			r.Audience = map[trust.Audience]trust.Audience{trust.Dev: trust.Prod, trust.Prod: trust.Dev}[r.Audience]
		},
		"another deployment": func(r *approval.Request) { r.Deployment = "rival" },
	} {
		t.Run(name, func(t *testing.T) {
			audiences(t, func(t *testing.T, w *world) {
				r, d := w.request(edit)
				for _, at := range []time.Time{noon, {}} {
					v, err := approval.Verify(w.state, r, d, w.seal(payload(r, d, "ada", "finance"), "ada"), at)
					refused(t, approval.Foreign, "the request is of the deployment", v, err)
				}
			})
		})
	}
}

// alter changes the field with a number, in the order of all fields that hold no others,
// and returns its name, or "".
func alter(v reflect.Value, name string, number int) string {
	var walk func(v reflect.Value, name string) string
	walk = func(v reflect.Value, name string) string {
		switch v.Kind() {
		case reflect.Struct:
			if at, ok := v.Addr().Interface().(*ledger.Time); ok {
				if number--; number < 0 {
					*at = ledger.At(at.Time().Add(time.Millisecond))
					return name
				}
				return ""
			}
			for i := range v.NumField() {
				if v.Type().Field(i).Tag.Get("json") == "-" {
					continue // which the ledger tells
				}
				if found := walk(v.Field(i), name+"."+v.Type().Field(i).Name); found != "" {
					return found
				}
			}
			return ""
		case reflect.Slice:
			for i := range v.Len() {
				if found := walk(v.Index(i), fmt.Sprintf("%s[%d]", name, i)); found != "" {
					return found
				}
			}
			return ""
		}
		if number--; number >= 0 {
			return ""
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "_")
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Bool:
			v.SetBool(!v.Bool())
		default:
			panic(v.Kind())
		}
		return name
	}
	return walk(v, name)
}
