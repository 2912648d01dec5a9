package compiler

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// What is proved ahead is taken only where the proof would do the same work.
func TestProveAhead(t *testing.T) {
	ask := func(prepare func(u *unit)) (containment.Result, int) {
		u := newUnit(Source{Name: "f"}, nil, nil)
		pooled := func(text string) *schema {
			v, err := schemas.Decode(json.RawMessage(text))
			require.NoError(t, err)
			s, err := u.pool.add(v)
			require.NoError(t, err)
			return s
		}
		left, right := pooled(`{"type":"integer","minimum":3}`), pooled(`{"type":"number","minimum":3.5}`)
		key := proofKey{"contained", false, left, right}
		u.proveAhead([]proofKey{key, key, {"contained", false, left, left}})
		require.Len(t, u.ahead, 1)
		require.Equal(t, containment.Prove(left.compiled, right.compiled, containment.Options{}), u.ahead[key].result)
		require.Zero(t, u.proofSteps)
		u.ahead[key] = foreseen{u.ahead[key].steps, containment.Result{Verdict: containment.Proved, Steps: 7}} // to tell it by
		prepare(u)
		return u.prove(left, right), u.proofSteps
	}
	r, steps := ask(func(*unit) {})
	require.Equal(t, containment.Proved, r.Verdict)
	require.Equal(t, 7, steps, "the work counts all the same")
	for name, prepare := range map[string]func(u *unit){
		"errors":    func(u *unit) { u.errors = manyErrors },
		"few steps": func(u *unit) { u.proofSteps = u.proofLimit() - containment.DefaultSteps + 1 },
		"brief":     func(u *unit) { u.brief = true },
	} {
		r, _ := ask(prepare)
		require.Equal(t, containment.Refuted, r.Verdict, name)
	}
	u := newUnit(Source{Name: "f"}, nil, nil)
	u.proofSteps = u.proofLimit()
	u.proveAhead([]proofKey{{"contained", false, &schema{}, &schema{}}})
	require.Empty(t, u.ahead, "nothing is left")
}
