package postgres_test

import (
	"context"
	"encoding/json"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// wire is the way to a server, whose connections can fall silent without notice, as
// when a machine loses power or a firewall forgets them.
type wire struct {
	mu     sync.Mutex
	silent chan struct{}
	// asked counts the connections on which something was sent after they fell silent.
	asked atomic.Int32
}

// through returns the address of a server by way of a wire.
func through(t *testing.T, address string) (*wire, string) {
	t.Helper()
	at, err := url.Parse(address)
	require.NoError(t, err)
	to := at.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	w := &wire{silent: make(chan struct{})}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			t.Cleanup(func() { _, _ = near.Close(), far.Close() })
			w.mu.Lock()
			silent := w.silent
			w.mu.Unlock()
			go carry(near, far, silent)
			go func() {
				if n := carry(far, near, silent); n > 0 {
					w.asked.Add(1)
				}
			}()
		}
	}()
	at.Host = l.Addr().String()
	return w, at.String()
}

// carry copies until the connection falls silent, and then closes nothing, and returns how
// much it has read since.
func carry(to, from net.Conn, silent <-chan struct{}) int {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		select {
		case <-silent:
			return n
		default:
		}
		if _, wrong := to.Write(b[:n]); err != nil || wrong != nil {
			_, _ = to.Close(), from.Close()
			return 0
		}
	}
}

// cut makes all present connections fall silent; new ones work.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.silent)
	w.silent = make(chan struct{})
}

func draft(chain, key string) ledger.Draft {
	return ledger.Draft{Chain: ledger.SnapshotsChain(chain), Key: key, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)}
}

// waiting waits until so many transactions wait for the lock of a chain.
func waiting(t *testing.T, conn *pgx.Conn, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
			WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()`).Scan(&n))
		return n == want
	}, 5*time.Minute, 10*time.Millisecond)
}

// Connections that fell silent while idle cost one operation some seconds, and not
// all the time that it has: it asks a few of them.
func TestConnectionsThatFellSilent(t *testing.T) {
	t.Parallel()
	o, _ := database(t)
	conn := connect(t, o)
	w, address := through(t, o.URL)
	s, err := postgres.Open(t.Context(), postgres.Options{URL: address, Origin: ledgertest.Origin})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()

	// All connections are used at once, and are idle then.
	const all = 16
	_, err = conn.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('snapshots/c', 7))")
	require.NoError(t, err)
	var used sync.WaitGroup
	for range all {
		used.Go(func() {
			_, err := s.Append(t.Context(), draft("c", "k"))
			require.NoError(t, err)
		})
	}
	waiting(t, conn, all)
	_, err = conn.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	used.Wait()
	idle := time.Now().Add(time.Second)
	require.Eventually(t, func() bool { return time.Now().After(idle) }, 5*time.Minute, 10*time.Millisecond)

	w.cut()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	_, err = s.Append(ctx, draft("c", "k2"))
	require.NoError(t, err)
	require.LessOrEqual(t, w.asked.Load(), int32(3))
	require.Positive(t, w.asked.Load())
}

// A process that stops during a transaction does not hold its locks for long.
func TestATransactionThatFellSilent(t *testing.T) {
	t.Parallel()
	o, other := database(t)
	conn := connect(t, o)
	w, address := through(t, o.URL)
	s, err := postgres.Open(t.Context(), postgres.Options{URL: address, Origin: ledgertest.Origin})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = conn.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('snapshots/c', 7))")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, draft("a", "k"), draft("c", "k"))
		given <- err
	}()
	waiting(t, conn, 1) // it has a, and waits for c
	w.cut()
	_, err = conn.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)

	soon, end := context.WithTimeout(t.Context(), 5*time.Minute)
	defer end()
	_, err = other.Append(soon, draft("a", "k"))
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-given, ledger.ErrUnavailable)
}

// A sequencer whose connections are silent goes on, as the leader or by leading again; its other
// work goes with that.
func TestASequencerWhoseConnectionFellSilent(t *testing.T) {
	t.Parallel()
	o, other := database(t)
	conn := connect(t, o)
	w, address := through(t, o.URL)
	s, err := postgres.Open(t.Context(), postgres.Options{URL: address, Origin: ledgertest.Origin})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var leading, led atomic.Int32
	q := ledger.Sequencer{Store: s, Key: ledgertest.Key(t), Within: 2 * time.Second, Leading: func(ctx context.Context) {
		leading.Add(1)
		<-ctx.Done()
		led.Add(1)
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	placed := func(key string, want int) {
		_, err := other.Append(t.Context(), draft("c", key))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			all, err := other.Records(t.Context(), 0, 10)
			return err == nil && len(all) == want
		}, 5*time.Minute, 10*time.Millisecond)
	}
	placed("a", 1)
	w.cut()
	// The server notices it, too: the lock was that of a session.
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
	require.NoError(t, err)
	placed("b", 2)
	stop()
	require.NoError(t, <-ended)
	require.Positive(t, leading.Load())
	require.Equal(t, leading.Load(), led.Load())
}
