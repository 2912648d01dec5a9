package ledgertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// packets: an evidence packet stays as long as a body that it stands behind, and
// goes with the last of them: pruned, or erased.
func packets(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	put := func(text string) string {
		d, err := s.PutPacket(ctx, ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: json.RawMessage(`{"to":"` + text + `"}`)}}})
		require.NoError(t, err)
		return d
	}
	say := func(chain, key, packet string, class ledger.Class) {
		_, err := s.Append(ctx, ledger.Draft{
			Chain: chain, Key: key, Kind: ledger.SnapshotTaken, Class: class, Data: json.RawMessage(`{"server":"s"}`),
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
	loose, old, shared, held := put("nobody"), put("old"), put("shared"), put("held")
	say("a", "old", old, ledger.Operational)
	say("a", "shared", shared, ledger.Operational)
	say("b", "shared", shared, ledger.Evidence)
	say("c", "held", held, ledger.Operational)
	require.NoError(t, s.PlaceLegalHold(ctx, "c", "case"))
	n, err := s.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	require.Equal(t, 2, n, "bodies are counted")
	there(old, false, "its body is gone")
	there(shared, true, "another body needs it")
	there(held, true, "its body is under legal hold")
	there(loose, true, "no entry refers to it yet")
	_, err = s.Prune(ctx, ledger.Evidence, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	there(shared, false, "the last body is gone")

	about := run()
	about.Subject = "erika"
	require.NoError(t, s.OpenRun(ctx, about))
	personal := put("Erika")
	say(about.Chain(), "k", personal, "")
	there(personal, true, "")
	require.NoError(t, s.EraseSubject(ctx, "erika", "asked"))
	there(personal, false, "the person is erased")
	personal = put("Erika, later")
	say(about.Chain(), "later", personal, "")
	there(personal, false, "what such a run states later nobody reads")
	there(held, true, "of others nothing goes")
}
