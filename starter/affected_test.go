package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

// failing has a store whose blobs cannot be read.
type failing struct{ ledger.Store }

func (failing) GetBlob(context.Context, string) ([]byte, error) { return nil, ledger.ErrUnavailable }

// TestAffected: a source that is not there is skipped, one that cannot be read is not; and plans that
// nobody has looked at are counted.
func TestAffected(t *testing.T) {
	dir := t.TempDir()
	at := &place{store: store.Options{Dir: dir, Path: filepath.Join(dir, "ledger.db")}}
	s, err := store.Open(t.Context(), at.store)
	require.NoError(t, err)
	const more = 3
	for i := range maxAffected + more {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Append(nil, i)))
		_, err := s.Ledger.PublishPlan(t.Context(), ledger.Plan{Name: fmt.Sprint("plan", i), Version: "1", Digest: digest, SourceDigest: digest, Author: "dev"})
		require.NoError(t, err)
	}
	require.NoError(t, using(t.Context(), s.Ledger, []string{"plan0"}, nil))
	var f *failure
	require.ErrorAs(t, using(t.Context(), failing{s.Ledger}, []string{"plan0"}, nil), &f)
	require.Equal(t, exitUnanswered, f.code)
	require.NoError(t, s.Close())
	left, err := at.affected(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, more, left)
}
