package stage

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

// Replayed replays the whole log, which must be sequenced, signed and possible.
func Replayed(t testing.TB, s *store.Opened) (*model.State, ledger.Checkpoint) {
	t.Helper()
	ctx := t.Context()
	Until(t, "all is sequenced", func() bool {
		pending, err := s.Ledger.Pending(ctx, 1)
		return err == nil && len(pending) == 0
	})
	raw, err := s.Ledger.Checkpoint(ctx)
	require.NoError(t, err)
	signed, err := ledger.Signers{Log: s.Key.Public()}.Open(raw)
	require.NoError(t, err)
	state := model.New()
	tree := ledger.OpenTree(ctx, ledger.Checkpoint{Origin: signed.Origin, Root: ledger.EmptyRoot()}, s.Ledger)
	for from := int64(0); from < signed.Size; {
		records, err := s.Ledger.Records(ctx, from, 500)
		require.NoError(t, err)
		require.NotEmpty(t, records)
		for _, r := range records {
			e, err := ledger.DecodeEntry(r.Bytes)
			require.NoError(t, err)
			require.NoError(t, tree.Add(ledger.LeafHash(r.Bytes)))
			var data json.RawMessage
			if e.Body != "" {
				raw, err := s.Ledger.Body(ctx, e.Body)
				require.NoError(t, err)
				body, err := ledger.DecodeBody(raw)
				require.NoError(t, err)
				data = body.Data
			}
			require.NoError(t, state.Apply(e, r.Hash, data))
		}
		from += int64(len(records))
	}
	root, err := tree.Root()
	require.NoError(t, err)
	require.Equal(t, signed.Root, root, "the tree is what was signed")
	return state, signed.Checkpoint
}

// Told is the run that the log tells of.
func Told(t testing.TB, s *store.Opened, run client.WorkflowRun) *model.Run {
	t.Helper()
	state, _ := Replayed(t, s)
	for _, r := range state.Runs {
		if r.Workflow == run.GetID() {
			return r
		}
	}
	require.Fail(t, "the log does not know the run")
	return nil
}

// Log is a log that may be read while it is written.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is what was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Publish publishes a plan of the built-in skills, as chimera publish does, and
// gives its name@version.
func Publish(t testing.TB, h *host.Host, text string) string {
	t.Helper()
	_, catalog, err := host.Catalog(nil, nil)
	require.NoError(t, err)
	p, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(text)}, catalog, nil)
	require.False(t, ds.HasErrors(), "%v", ds)
	raw, err := p.Encode()
	require.NoError(t, err)
	store := h.Store().Ledger
	blob, err := store.PutBlob(t.Context(), []byte(text))
	require.NoError(t, err)
	_, err = store.PublishPlan(t.Context(), ledger.Plan{
		Name: p.Name, Version: p.Version, Digest: plan.DigestOf(raw), SourceDigest: blob, Author: "alice", Agent: p.Agent,
	})
	require.NoError(t, err)
	return p.Name + "@" + p.Version
}
