package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// What somebody wrote into the log by hand is a problem until the auditor has looked into it, and a
// warning from then on, unless its form or its body is wrong.
func TestKnown(t *testing.T) {
	w := newWorld(t)
	of := w.tale(t)
	run := of[slices.IndexFunc(of, func(x *scene) bool { return x.Kind == ledger.RunOpened })].Chain
	lie := of.new(t, run, ledger.RunResumed, "9", ledger.Order{})
	lie.Run = strings.Split(run, "/")[1]
	w.tell(t, append(of, lie))
	r := w.verify(t, nil)
	require.False(t, r.OK)
	require.NotEmpty(t, r.Problems)
	raw, err := os.ReadFile(filepath.Join(w.dir, audit.EntriesFile))
	require.NoError(t, err)
	lines := bytes.Split(raw, []byte("\n"))
	for _, p := range r.Problems {
		require.Equal(t, audit.BadStory, p.Kind, p.Message)
		w.trust.Known = append(w.trust.Known, audit.KnownEntry{Entry: ledger.LeafHash(lines[p.Index]), Why: "incident 17"})
	}
	r = w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.True(t, slices.ContainsFunc(r.Warnings, func(p audit.Problem) bool {
		return p.Kind == audit.BadStory && strings.HasPrefix(p.Message, `known, "incident 17": `)
	}), "%v", r.Warnings)

	// One that is not there is told; and a body that is missing is not excused.
	w.trust.Known = append(w.trust.Known, audit.KnownEntry{Entry: ledger.LeafHash([]byte("x")), Why: "w"})
	r = w.verify(t, nil)
	require.True(t, r.OK)
	require.True(t, slices.ContainsFunc(r.Warnings, func(p audit.Problem) bool {
		return p.Message == "1 entry that the trust file knows is not in what was read of the log"
	}), "%v", r.Warnings)
	lie.body = nil
	w.tell(t, append(of, lie))
	raw, err = os.ReadFile(filepath.Join(w.dir, audit.EntriesFile))
	require.NoError(t, err)
	lines = bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	w.trust.Known = []audit.KnownEntry{{Entry: ledger.LeafHash(lines[len(lines)-1]), Why: "w"}}
	r = w.verify(t, nil)
	require.False(t, r.OK)
}
