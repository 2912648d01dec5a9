package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// FuzzQuestion: every line of a batch has an answer of one line, with the line's
// id, and a counterexample is one.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"lhs":true,"rhs":true}`, `{"id":"a","lhs":{"type":"integer"},"rhs":{"minimum":0},"dialect":"draft4"}`, `{"id":{"x":[1e400]},"lhs":{"minimum":3},"rhs":false,"dialect":null}`,
		`{"lhs":true}`, `null`, `[]`, `{"id":1,"id":2,"lhs":true,"rhs":true}`, `{"ID":1,"LHS":true,"lhs":{},"rhs":{"not":{}}}`, `{"lhs":{"$ref":"file:///etc/passwd"},"rhs":true}`,
		`{"id":"\ud800","lhs":1,"rhs":2}`, `{"lhs":{"enum":["\u2028"]},"rhs":{"type":"null"},"dialect":"https://json-schema.org/draft/2020-12/schema"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		out := answer(line, nil, "")
		raw, err := json.Marshal(out)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "\n")
		require.Contains(t, []string{containment.Proved.String(), containment.Refuted.String(), containment.Unknown.String()}, out.Verdict)
		q, err := parseQuestion(line)
		require.Equal(t, string(q.id), string(out.ID))
		if err != nil {
			require.Equal(t, containment.Unknown.String(), out.Verdict)
			require.NotEmpty(t, out.Reason)
			return
		}
		if out.Verdict != containment.Refuted.String() {
			return
		}
		lhs, err := compileDraft(q.lhs, q.dialect)
		require.NoError(t, err)
		rhs, err := compileDraft(q.rhs, q.dialect)
		require.NoError(t, err)
		v, err := schemas.Decode(out.Witness)
		require.NoError(t, err)
		require.NoError(t, lhs.Validate(v))
		require.Error(t, rhs.Validate(v))
		require.NotEmpty(t, out.Reason)
	})
}
