package host

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

// TestStopAsks: a host that ends signs what was stated, unless a witness contradicts the log.
func TestStopAsks(t *testing.T) {
	for name, contradicted := range map[string]error{"a witness contradicts": ledger.ErrProof, "none does": nil} {
		t.Run(name, func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			placed, asked := make(chan []byte, 1), 0
			q := &sequencer{logger: slog.New(slog.DiscardHandler), done: make(chan struct{}), asked: make(chan struct{})}
			q.Sequencer = ledger.Sequencer{
				Store: s, Key: ledgertest.Key(t), Idle: time.Hour, Failed: q.warn,
				Integrated: func(b []byte) { placed <- b },
				Begin: func(ctx context.Context) error {
					if asked++; asked == 1 {
						return nil
					}
					return contradicted
				},
			}
			q.start()
			<-placed // that of nothing
			_, err = s.Append(t.Context(), ledger.Draft{Chain: "snapshots/s", Key: "k", Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s"}`)})
			require.NoError(t, err)
			q.stop()
			require.Equal(t, 2, asked)
			pending, err := s.Pending(t.Context(), 10)
			require.NoError(t, err)
			require.Equal(t, contradicted != nil, len(pending) == 1)
		})
	}
}
