// Package crash is a test of the ledger's stores: writers and a sequencer work in
// processes of their own, and are killed, and the database with them.
//
// A store's tests call [Main] first of all in TestMain, and [Run] in a test.
package crash

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
)

var crashes = flag.Int("crashes", 4, "how many processes the crash test kills")

// The environment of a child: what it is, which store it opens, its name, and
// the log's key.
const (
	childRole    = "CRASH_CHILD"
	childAddress = "CRASH_ADDRESS"
	childName    = "CRASH_NAME"
	childKey     = "CRASH_KEY"
)

// Main is what TestMain of a store calls first: where the process is a child of
// [Run], it does what the child is for, and ends.
func Main(open func(address string) (ledger.Store, error)) {
	role := os.Getenv(childRole)
	if role == "" {
		return
	}
	// It ends with its parent.
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
		os.Exit(0)
	}()
	if err := child(ctx, role, open); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(ctx context.Context, role string, open func(address string) (ledger.Store, error)) error {
	var s ledger.Store
	for {
		var err error
		if s, err = open(os.Getenv(childAddress)); err == nil {
			break
		}
		if !errors.Is(err, ledger.ErrUnavailable) {
			return err
		}
		rest(ctx)
	}
	if role == "sequencer" {
		key, err := ledger.ParseKey(os.Getenv(childKey))
		if err != nil {
			return err
		}
		q := ledger.Sequencer{Store: s, Key: key, Batch: 5, Idle: time.Millisecond, Integrated: func(c []byte) {
			fmt.Println("checkpoint", base64.StdEncoding.EncodeToString(c))
		}}
		return q.Run(ctx)
	}
	name := os.Getenv(childName)
	for i := 0; ; i++ {
		said := write(ctx, s, name, i)
		for {
			keys, err := said()
			if err == nil {
				fmt.Println("acknowledged", strings.Join(keys, " "))
				break
			}
			// What became of it is not known: it is done again.
			if !errors.Is(err, ledger.ErrUnavailable) {
				return err
			}
			rest(ctx)
		}
	}
}

// rest leaves the machine to a server that starts again.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
}

// write gives the i-th thing that a writer does: entries of two chains at once,
// a hold, or an effect from its decision to its end. It may be done again.
func write(ctx context.Context, s ledger.Store, name string, i int) func() ([]string, error) {
	switch i % 4 {
	case 1:
		return func() ([]string, error) { return effect(ctx, s, fmt.Sprintf("%s/%d", name, i)) }
	case 3:
		return func() ([]string, error) {
			amount, err := ledger.Minor(1, "USD")
			if err != nil {
				return nil, err
			}
			h, err := s.OpenHold(ctx, ledger.Hold{ID: fmt.Sprintf("%s/%d", name, i), Agent: "a", Amount: amount, ExpiresAt: ledger.At(time.Unix(1<<33, 0))})
			return []string{"hold.opened/" + h.ID}, err
		}
	}
	var drafts []ledger.Draft
	for k := range 1 + i%5 {
		drafts = append(drafts, ledger.Draft{
			Chain: fmt.Sprintf("snapshots/crash-%d", k%2), Key: fmt.Sprintf("%s/%d/%d", name, i, k), Kind: ledger.SnapshotTaken,
			Data: json.RawMessage(fmt.Sprintf(`{"server":"%d"}`, i)),
		})
	}
	return func() ([]string, error) {
		records, err := s.Append(ctx, drafts...)
		var keys []string
		for i := range records {
			keys = append(keys, drafts[i].Key)
		}
		return keys, err
	}
}

// effect does an effect that costs something, once, however often it is asked for.
func effect(ctx context.Context, s ledger.Store, id string) ([]string, error) {
	cost, err := ledger.Minor(2, "USD")
	if err != nil {
		return nil, err
	}
	a := ledgertest.Ask(id, "action")
	a.Agent, a.Cost = "a", &cost
	got, err := s.Authorize(ctx, effects, a, ledgertest.Rule(ledger.Approve))
	if err != nil {
		return nil, err
	}
	i := got.Invocation
	if i.State != ledger.Settled {
		if i, err = s.Claim(ctx, id, i.DecisionID, id, time.Hour); err != nil {
			return nil, err
		}
		spent, err := ledger.Minor(1, "USD")
		if err != nil {
			return nil, err
		}
		if i, err = s.Settle(ctx, id, ledger.Effect{Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Settled}, Token: id, Output: []byte(id), Spent: &spent}); err != nil {
			return nil, err
		}
	}
	if i.Attempt != 1 || string(i.Output) != id {
		return nil, fmt.Errorf("%s was called %d times, and answered %q", id, i.Attempt, i.Output)
	}
	return []string{
		"decision.made/" + i.DecisionID, "hold.opened/" + i.HoldID, "invocation.permitted/" + i.DecisionID, "invocation.calling/" + id + "/1",
		"invocation.settled/" + id + "/1", "hold.posted/" + i.HoldID, "task.executed/" + i.DecisionID,
	}, nil
}

// effects is the run whose effects writers do.
var effects = ledger.Run{
	Workflow: "effects", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest([]byte("plan")), InputDigest: ledger.BodyDigest([]byte("input")), Agent: "a",
}

// Config is what the test works on.
type Config struct {
	// Address is what children open; Open opens the same store here.
	Address string
	Open    ledgertest.Open
	// KillServer ends the database at once and starts it again; nil where there
	// is none.
	KillServer func()
}

// process is a running child.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// nursery has the children, and what they have said.
type nursery struct {
	t       *testing.T
	c       Config
	secret  string
	mu      sync.Mutex
	more    *sync.Cond
	acked   map[string]bool
	points  [][]byte
	failed  error
	born    int
	killing map[*process]bool
}

func (n *nursery) start(role string) *process {
	n.born++
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childRole+"="+role, childAddress+"="+n.c.Address, childKey+"="+n.secret, fmt.Sprintf("%s=w%d", childName, n.born))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(n.t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(n.t, err)
	require.NoError(n.t, cmd.Start())
	p := &process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			n.hear(lines.Text())
		}
		err := cmd.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.killing[p] && n.failed == nil {
			n.failed = fmt.Errorf("a %s has ended by itself: %w", role, err)
		}
		n.more.Broadcast()
	}()
	return p
}

// hear takes a whole line: what was cut off was not said.
func (n *nursery) hear(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.more.Broadcast()
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "acknowledged":
		for _, k := range strings.Fields(rest) {
			n.acked[k] = true
		}
	case "checkpoint":
		c, err := base64.StdEncoding.DecodeString(rest)
		if err == nil {
			n.points = append(n.points, c)
		}
	case "failed":
		n.failed = errors.New(rest)
	}
}

func (n *nursery) kill(p *process) {
	n.mu.Lock()
	n.killing[p] = true
	n.mu.Unlock()
	require.NoError(n.t, p.cmd.Process.Kill())
	<-p.ended
	_ = p.stdin.Close()
}

// heard waits until so many more entries were acknowledged and so many more
// checkpoints made.
func (n *nursery) heard(entries, points int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	entries += len(n.acked)
	points += len(n.points)
	for n.failed == nil && (len(n.acked) < entries || len(n.points) < points) {
		n.more.Wait()
	}
	require.NoError(n.t, n.failed)
}

// Run lets writers and a sequencer work, each in a process of its own, and
// kills now one of them, now another, now the database, in the midst of it.
// Then: what was acknowledged is there once, the log verifies, and no checkpoint
// was taken back.
func Run(t *testing.T, c Config) {
	secret, _, err := ledger.NewKey(ledgertest.Origin)
	require.NoError(t, err)
	key, err := ledger.ParseKey(secret)
	require.NoError(t, err)
	signers := ledger.Signers{Log: key.Public()}
	s := c.Open(t)
	limit, err := ledger.Minor(1<<40, "USD")
	require.NoError(t, err)
	require.NoError(t, s.SetBudget(t.Context(), ledger.Budget{Agent: "a", Currency: "USD", Every: ledger.Forever, Limit: limit}))
	require.NoError(t, s.OpenRun(t.Context(), effects))
	n := &nursery{t: t, c: c, secret: secret, acked: map[string]bool{}, killing: map[*process]bool{}}
	n.more = sync.NewCond(&n.mu)
	roles := []string{"writer", "writer", "sequencer"}
	children := make([]*process, len(roles))
	for i, role := range roles {
		children[i] = n.start(role)
	}
	defer func() {
		for _, p := range children {
			n.kill(p)
		}
	}()
	victims := len(roles)
	if c.KillServer != nil {
		victims++
	}
	size := func() int64 {
		var raw []byte
		require.Eventually(t, func() bool { raw, err = s.Checkpoint(t.Context()); return !errors.Is(err, ledger.ErrUnavailable) }, 5*time.Minute, 10*time.Millisecond)
		require.NoError(t, err)
		signed, err := signers.Open(raw)
		require.NoError(t, err)
		return signed.Size
	}
	for i := range *crashes {
		n.heard(1+rand.IntN(40), 1+rand.IntN(3))
		before := size()
		switch v := i % victims; v {
		case len(roles):
			c.KillServer()
		default:
			n.kill(children[v])
			children[v] = n.start(roles[v])
		}
		require.GreaterOrEqual(t, size(), before, "checkpoints only grow")
	}
	n.heard(20, 1)
	for i, p := range children {
		n.kill(p)
		if i == len(children)-1 {
			children = nil
		}
	}
	for q := (ledger.Sequencer{Store: s, Key: key}); ; {
		placed, err := q.Integrate(t.Context())
		if errors.Is(err, ledger.ErrConflict) {
			continue // the database has finished what a sequencer that was killed had asked of it
		}
		require.NoError(t, err)
		if placed == 0 {
			break
		}
	}
	ledgertest.Same(t, s, ledgertest.Replay(t, s))
	have, times := map[string]bool{}, map[string]int{}
	tree := ledger.NewTree()
	var roots []ledger.Hash
	root := func() {
		h, err := tree.Root()
		require.NoError(t, err)
		roots = append(roots, h)
	}
	root()
	for from := int64(0); ; {
		records, err := s.Records(t.Context(), from, 1000)
		require.NoError(t, err)
		if len(records) == 0 {
			break
		}
		for _, r := range records {
			e, err := ledger.DecodeEntry(r.Bytes)
			require.NoError(t, err)
			have[e.Key] = true
			times[e.Chain+" "+e.Key]++
			require.NoError(t, tree.Add(r.Hash))
			root()
		}
		from += int64(len(records))
	}
	for k, n := range times {
		require.Equal(t, 1, n, "%s is there once", k)
	}
	for k := range n.acked {
		require.True(t, have[k], "%s was acknowledged, and is not there", k)
	}
	last := int64(-1)
	points := slices.Clone(n.points)
	for _, raw := range points {
		signed, err := signers.Open(raw)
		require.NoError(t, err)
		require.Less(t, signed.Size, int64(len(roots)))
		require.Equal(t, roots[signed.Size], signed.Root, "every checkpoint is one of this tree")
		require.GreaterOrEqual(t, signed.Size, last)
		last = signed.Size
	}
	t.Logf("%d kills, %d entries acknowledged, %d in the log, %d checkpoints", *crashes, len(n.acked), tree.Size(), len(points))
}
