package sqlstore

import (
	"context"
	"math"

	"chimera.ai/engine/ledger"
)

// Status implements [ledger.Log].
func (s *Store) Status(ctx context.Context) (st ledger.Status, err error) {
	const what = "count what the log has"
	for _, q := range []struct {
		query string
		args  []any
		into  *int64
	}{
		{s.d.Waiting, nil, &st.Waiting},
		{"SELECT count(*) FROM (" + s.d.Lost + ") AS l", []any{int64(math.MinInt64), int64(math.MaxInt64)}, &st.Lost},
		{"SELECT count(*) FROM aside", nil, &st.Aside},
		{"SELECT count(*) FROM runs WHERE state = 'running'", nil, &st.OpenRuns},
		{"SELECT count(DISTINCT subject_key) FROM runs WHERE subject_key IS NOT NULL", nil, &st.Subjects},
		{"SELECT count(*) FROM entries WHERE chain = $1 AND kind = $2", []any{ledger.LedgerChain, string(ledger.SubjectErased)}, &st.Erased},
		{"SELECT count(*) FROM legal_holds", nil, &st.LegalHolds},
	} {
		if err := s.one(ctx, what, q.query, q.args, q.into); err != nil {
			return st, err
		}
	}
	if s.ring != nil {
		if err := s.Keyring(ctx); err != nil {
			st.Keyring = err.Error()
		}
	}
	first, err := s.Candidates(ctx, 1)
	if err != nil || len(first) == 0 {
		return st, err
	}
	if e, err := ledger.DecodeEntry(first[0].Bytes); err == nil {
		st.Since = &e.At
	}
	return st, nil
}
