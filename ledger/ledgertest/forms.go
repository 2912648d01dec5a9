package ledgertest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// Forms inserts rows that are larger than what a store writes, or of another form. The database
// refuses them, so that no reader has to hold them.
func Forms(t *testing.T, fresh func(t testing.TB) *Database) {
	d := fresh(t)
	_, err := d.Store.Append(t.Context(), ledger.Draft{Chain: intruded, Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s"}`)})
	require.NoError(t, err)
	Drain(t, d.Store, Key(t))
	x := func(n int) string { return strings.Repeat("x", n) }
	body := func(raw string) func() error {
		return func() error {
			return d.Exec("INSERT INTO bodies (digest, chain, class, at, bytes) VALUES ($1, 'x', 'evidence', 0, $2)", ledger.BodyDigest([]byte(raw)), []byte(raw))
		}
	}
	cosignature := func(size int64, n int) func() error {
		return func() error {
			return d.Exec("INSERT INTO log_cosignatures (size, checkpoint) VALUES ($1, $2)", size, []byte(x(n)))
		}
	}
	evidence := func(n int) func() error {
		return func() error { return d.Exec("INSERT INTO evidence (digest, doc) VALUES ($1, $2)", x(7), x(n)) }
	}
	signer := func(n int) func() error {
		return func() error { return d.Exec("INSERT INTO signers (id, doc) VALUES ($1, $2)", "s", x(n)) }
	}
	subject := func(id, lookup, generation string, n int) func() error {
		return func() error {
			return d.Exec("INSERT INTO subject_keys (id, lookup, generation, wrapped) VALUES ($1, $2, $3, $4)", id, lookup, generation, []byte(x(n)))
		}
	}
	a := func(n int) string { return strings.Repeat("a", n) }
	generation := "00000001-" + a(16)
	for what, c := range map[string]struct{ good, bad func() error }{
		"a large body":                       {body(x(2 * ledger.MaxBodyBytes)), body(x(2*ledger.MaxBodyBytes + 1))},
		"a body of two lines":                {body("a b"), body("a\nb")},
		"a cosignature of no checkpoint":     {cosignature(1, 1), cosignature(2, 1)},
		"a large cosignature":                {cosignature(1, ledger.MaxCheckpointBytes), cosignature(1, ledger.MaxCheckpointBytes+1)},
		"a large packet":                     {evidence(2 * ledger.MaxPacketBytes), evidence(2*ledger.MaxPacketBytes + 1)},
		"a large signer":                     {signer(4 << 20), signer(4<<20 + 1)},
		"a long id of a key":                 {subject(a(32), a(64), generation, 60), subject(a(33), strings.Repeat("b", 64), generation, 60)},
		"another id of a key":                {subject(strings.Repeat("1", 32), strings.Repeat("1", 64), generation, 60), subject(x(32), strings.Repeat("b", 64), generation, 60)},
		"another lookup":                     {subject(strings.Repeat("2", 32), strings.Repeat("2", 64), generation, 60), subject(strings.Repeat("c", 32), x(64), generation, 60)},
		"another generation":                 {subject(strings.Repeat("3", 32), strings.Repeat("3", 64), generation, 60), subject(strings.Repeat("d", 32), strings.Repeat("d", 64), "../"+generation[3:], 60)},
		"a key that is wrapped in much more": {subject(strings.Repeat("4", 32), strings.Repeat("4", 64), generation, 4096), subject(strings.Repeat("e", 32), strings.Repeat("e", 64), generation, 4097)},
	} {
		require.Error(t, c.bad(), what)
		require.NoError(t, c.good(), what)
	}
}
