package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// TestTheOwnerRepairsTheLog: what the engine's user has put into the log's tables beyond what the
// log's key has signed, the owner removes as docs/operate.md says, and the log goes on.
func TestTheOwnerRepairsTheLog(t *testing.T) {
	raw, err := os.ReadFile("../../docs/operate.md")
	require.NoError(t, err)
	_, repair, found := strings.Cut(string(raw), "<!-- repair -->\n```sql\n")
	require.True(t, found)
	repair, _, found = strings.Cut(repair, "\n```\n")
	require.True(t, found)

	s, o, _ := granted(t)
	key := ledgertest.Key(t)
	say := func(what string) {
		require.NoError(t, s.TakeSnapshot(t.Context(), ledger.Snapshot{Server: "s", Fingerprint: ledger.BodyDigest([]byte(what)), Digest: ledger.BodyDigest(nil)}))
	}
	say("first")
	say("second")
	ledgertest.Drain(t, s, key)
	say("third")
	engine := connect(t, o)
	_, err = engine.Exec(t.Context(), "SET ROLE "+postgres.DefaultRoles.Engine)
	require.NoError(t, err)
	_, err = engine.Exec(t.Context(), `BEGIN;
		INSERT INTO log_index SELECT 2, max(serial) FROM entries;
		INSERT INTO log_tiles SELECT 0, 0, 3, data || decode(repeat('00', 32), 'hex') FROM log_tiles WHERE width = 2;
		INSERT INTO log_batches (n, size, grown, checkpoint) SELECT max(n) + 1, 2, 3, convert_to(E'x\n3\n', 'UTF8') FROM log_batches;
		COMMIT`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	q := ledger.Sequencer{Store: s, Key: key}
	_, err = q.Integrate(t.Context())
	require.Error(t, err)

	owner := connect(t, o)
	_, err = owner.Exec(t.Context(), strings.ReplaceAll(repair, "18240", "2"), pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	ledgertest.Drain(t, s, key)
	ok, problems, warnings := audited(s)(t, key)
	require.True(t, ok, "%v", problems)
	require.Empty(t, warnings)
	all, err := s.Records(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 3)
	for _, table := range []string{"log_index", "log_tiles", "log_batches"} {
		_, err := owner.Exec(t.Context(), "DELETE FROM "+table)
		require.ErrorContains(t, err, "of the ledger takes no", table)
	}
}
