package ledgertest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// packets: an evidence packet stays as long as a body that it stands behind, and
// goes with the last of them: pruned, or erased.
func packets(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	count := 0
	// put has a decision made on evidence that says that.
	put := func(r ledger.Run, text string) string {
		count++
		p := ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: json.RawMessage(`{"to":"` + text + `"}`)}}}
		_, err := s.Authorize(ctx, r, Ask(fmt.Sprint("i-", count), text), func(st ledger.Standing) (ledger.Ruling, error) {
			ruling, err := Rule("REJECT")(st)
			ruling.Evidence = p
			return ruling, err
		})
		require.NoError(t, err)
		raw, err := p.Encode()
		require.NoError(t, err)
		return plan.DigestOf(raw)
	}
	say := func(chain, key, packet string, class ledger.Class) {
		_, err := s.Append(ctx, ledger.Draft{
			Chain: ledger.RunChain(chain, "r"), Run: chain, Node: key, Key: "node/" + key + "/0/0", Kind: ledger.NodeSucceeded, Class: class, Data: json.RawMessage(`{"server":"s"}`),
			Refs: []ledger.Ref{{Name: ledger.EvidenceRef, Digest: packet}},
		})
		require.NoError(t, err)
	}
	there := func(packet string, want bool, why string) {
		t.Helper()
		_, err := s.Packet(ctx, packet)
		if want {
			require.NoError(t, err, why)
			return
		}
		require.ErrorIs(t, err, ledger.ErrNotFound, why)
	}
	old, shared, held := put(run(), "old"), put(run(), "shared"), put(run(), "held")
	say("a", "shared", shared, ledger.Operational)
	say("c", "held", held, ledger.Operational)
	require.NoError(t, s.PlaceLegalHold(ctx, ledger.RunChain("c", "r"), "case"))
	n, err := s.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	require.Equal(t, 2, n, "the run, and an entry of the shared one")
	there(old, true, "its body is of another class")
	there(shared, true, "another body needs it")
	_, err = s.Prune(ctx, ledger.Evidence, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	there(old, false, "its body is gone")
	there(shared, false, "the last body is gone")
	there(held, true, "a body of it is under legal hold")

	about := run()
	about.Workflow, about.Subject = "about", "erika"
	require.NoError(t, s.OpenRun(ctx, about))
	personal := put(about, "Erika")
	there(personal, true, "")
	require.NoError(t, s.EraseSubject(ctx, "erika", "asked"))
	there(personal, false, "the person is erased")
	there(held, true, "of others nothing goes")
}
