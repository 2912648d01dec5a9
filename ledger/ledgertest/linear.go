package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// The histories of budgets and holds are held against this small world: two
// budgets, one the other's parent, and some holds whose amounts are fixed.
const (
	worldHolds  = 24
	worldAgents = 2 // 0 is the parent of 1
)

type worldHold struct {
	status byte // 0: there is none
	posted int64
}

type world struct {
	limit, pending, posted [worldAgents]int64
	holds                  [worldHolds]worldHold
}

// worldOp is what was asked, and worldAnswer what the store has said.
type worldOp struct {
	what   string
	id     int
	amount int64
	agent  int
}

type worldAnswer struct {
	err                    string
	status                 byte
	limit, pending, posted int64
}

var agentNames = [worldAgents]string{"parent", "child"}

// shape is what the hold of an id always asks for.
func shape(id int) (agent int, amount int64, overdraft, soon bool) {
	return id % 2, int64(id%7 + 1), id%11 == 10, id%3 == 0
}

func statusByte(s ledger.TxStatus) byte {
	return byte(strings.Index("?pvxd", map[ledger.TxStatus]string{ledger.TxPending: "p", ledger.TxVoided: "v", ledger.TxExpired: "x", ledger.TxPosted: "d"}[s]))
}

// step reports whether an answer is right in a state, and what the state is then.
func (w world) step(op worldOp, a worldAnswer) (bool, world) {
	agent, amount, overdraft, _ := shape(op.id)
	h := &w.holds[op.id]
	charged := func(pending, posted int64) {
		for at := agent; at >= 0; at-- {
			w.pending[at] += pending
			w.posted[at] += posted
		}
	}
	end := func(status string, posted int64) (bool, world) {
		was := *h
		switch {
		case was.status == 0:
			return a.err == "not found", w
		case was.status != 1:
			if was.status == statusByte(ledger.TxStatus(status)) && (status != "posted" || was.posted == posted) {
				return a.err == "" && a.status == was.status, w
			}
			return a.err == "conflict", w
		case posted > amount:
			return a.err == "invalid", w
		}
		h.status, h.posted = statusByte(ledger.TxStatus(status)), posted
		charged(-amount, posted)
		return a.err == "" && a.status == h.status, w
	}
	switch op.what {
	case "open":
		if h.status != 0 {
			return a.err == "" && a.status == h.status, w
		}
		for at := agent; at >= 0; at-- {
			if !overdraft && w.limit[at]-w.pending[at]-w.posted[at] < amount {
				return a.err == "over budget", w
			}
		}
		h.status = 1
		charged(amount, 0)
		return a.err == "" && a.status == 1, w
	case "post":
		return end("posted", op.amount)
	case "void":
		return end("voided", 0)
	case "expire":
		if h.status != 1 {
			return false, w
		}
		return end("expired", 0)
	case "limit":
		w.limit[op.agent] = op.amount
		return a.err == "", w
	case "read":
		return a.err == "" && a.limit == w.limit[op.agent] && a.pending == w.pending[op.agent] && a.posted == w.posted[op.agent], w
	}
	return false, w
}

// ask does an operation.
func (op worldOp) ask(ctx context.Context, t testing.TB, s ledger.Store, expires time.Time) worldAnswer {
	agent, amount, overdraft, soon := shape(op.id)
	id := fmt.Sprint("h", op.id)
	var a worldAnswer
	var h ledger.Hold
	var err error
	switch op.what {
	case "open":
		at := expires
		if !soon {
			at = time.Unix(1<<33, 0)
		}
		h, err = s.OpenHold(ctx, ledger.Hold{ID: id, Agent: agentNames[agent], Amount: usd(t, amount), Overdraft: overdraft, ExpiresAt: ledger.At(at)})
	case "post":
		h, err = s.PostHold(ctx, id, usd(t, op.amount))
	case "void":
		h, err = s.VoidHold(ctx, id)
	case "limit":
		parent := ""
		if op.agent == 1 {
			parent = agentNames[0]
		}
		err = s.SetBudget(ctx, ledger.Budget{Agent: agentNames[op.agent], Currency: "USD", Every: ledger.Forever, Parent: parent, Limit: usd(t, op.amount)})
	case "read":
		var b ledger.Budget
		b, err = s.Budget(ctx, agentNames[op.agent], "USD")
		a.limit, a.pending, a.posted = b.Limit.Minor(), b.Pending.Minor(), b.Posted.Minor()
	}
	for text, e := range map[string]error{"over budget": ledger.ErrBudget, "not found": ledger.ErrNotFound, "conflict": ledger.ErrConflict, "invalid": ledger.ErrInvalid} {
		if errors.Is(err, e) {
			a.err = text
		}
	}
	if err != nil && a.err == "" {
		a.err = err.Error()
	}
	if err == nil && h.ID != "" {
		a.status = statusByte(h.Status)
	}
	return a
}

// linear: what budgets and holds answer under concurrency is what they would
// answer one after the other, in an order that agrees with real time; and the
// log's own order is such an order.
func linear(t *testing.T, open Open) {
	stores := []ledger.Store{open(t), open(t)}
	ctx := t.Context()
	for agent := range worldAgents {
		require.Empty(t, worldOp{what: "limit", agent: agent, amount: 30}.ask(ctx, t, stores[0], time.Time{}).err)
	}
	var clock atomic.Int64 // only its order counts
	var mu sync.Mutex
	var history []porcupine.Operation
	const clients, each = 8, 30
	expires := time.Now().Add(-time.Second)
	var group sync.WaitGroup
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for c := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(c)))
			s := stores[c%len(stores)]
			for range each {
				op := worldOp{what: []string{"open", "open", "open", "post", "void", "limit", "read"}[random.IntN(7)], id: random.IntN(worldHolds)}
				switch op.what {
				case "limit":
					op.id, op.agent, op.amount = 0, random.IntN(worldAgents), int64(10+random.IntN(40))
				case "read":
					op.id, op.agent = 0, random.IntN(worldAgents)
				case "post":
					op.amount = int64(random.IntN(8))
				}
				call := clock.Add(1)
				answer := op.ask(ctx, t, s, expires)
				end := clock.Add(1)
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: c, Input: op, Output: answer, Call: call, Return: end})
				mu.Unlock()
			}
		})
	}
	sweeper, stop := context.WithCancel(ctx)
	var swept sync.WaitGroup
	first := clock.Add(1)
	swept.Go(func() {
		for sweeper.Err() == nil {
			if _, err := stores[1].ExpireHolds(ctx); err != nil {
				t.Error(err)
				return
			}
		}
	})
	group.Wait()
	stop()
	swept.Wait()
	last := clock.Add(1)

	// Each expiry happened at some time while there was sweeping.
	records, err := stores[0].Chain(ctx, ledger.BudgetChain("USD"), 0, everything.Limit)
	require.NoError(t, err)
	place := map[string]int64{}
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		place[e.Key] = e.N
		if e.Kind == ledger.HoldExpired {
			var id int
			_, err := fmt.Sscanf(e.Key, "hold.expired/h%d", &id)
			require.NoError(t, err)
			history = append(history, porcupine.Operation{ClientId: clients + id, Input: worldOp{what: "expire", id: id}, Output: worldAnswer{status: statusByte(ledger.TxExpired)}, Call: first, Return: last})
		}
	}
	start := world{limit: [worldAgents]int64{30, 30}}
	result := porcupine.CheckOperationsTimeout(porcupine.Model{
		Init: func() any { return start },
		Step: func(state, input, output any) (bool, any) {
			return state.(world).step(input.(worldOp), output.(worldAnswer))
		},
	}, history, waitFor)
	require.Equal(t, porcupine.Ok, result, "%v", history)

	// What had ended before another began stands before it in the log.
	kinds := map[string]ledger.Kind{"open": ledger.HoldOpened, "post": ledger.HoldPosted, "void": ledger.HoldVoided}
	type said struct {
		key       string
		call, end int64
	}
	earliest := map[string]said{}
	for _, o := range history {
		op := o.Input.(worldOp)
		kind, ok := kinds[op.what]
		if !ok || o.Output.(worldAnswer).err != "" {
			continue
		}
		key := fmt.Sprintf("%s/h%d", kind, op.id)
		if _, ok := place[key]; !ok {
			continue
		}
		if x, ok := earliest[key]; !ok {
			earliest[key] = said{key, o.Call, o.Return}
		} else {
			earliest[key] = said{key, min(x.call, o.Call), min(x.end, o.Return)}
		}
	}
	for _, a := range earliest {
		for _, b := range earliest {
			if a.end < b.call {
				require.Less(t, place[a.key], place[b.key], "%s had ended before %s began", a.key, b.key)
			}
		}
	}
	Drain(t, stores[0], Key(t))
	Same(t, stores[1], Replay(t, stores[1]))
}

// exact: sixteen workers on a limit of 100 are granted exactly 100.
func exact(t *testing.T, open Open) {
	stores := []ledger.Store{open(t), open(t)}
	ctx := t.Context()
	require.NoError(t, stores[0].SetBudget(ctx, ledger.Budget{Agent: "a", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 100)}))
	var granted, refused atomic.Int64
	var group sync.WaitGroup
	const workers, each = 16, 10
	for w := range workers {
		group.Go(func() {
			for i := range each {
				_, err := stores[w%2].OpenHold(ctx, ledger.Hold{ID: fmt.Sprintf("%d/%d", w, i), Agent: "a", Amount: usd(t, 1), ExpiresAt: ledger.At(time.Unix(1<<33, 0))})
				switch {
				case err == nil:
					granted.Add(1)
				case errors.Is(err, ledger.ErrBudget):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, int64(100), granted.Load())
	require.Equal(t, int64(workers*each-100), refused.Load())
	b, err := stores[1].Budget(ctx, "a", "USD")
	require.NoError(t, err)
	require.Equal(t, usd(t, 100), b.Pending)
	Drain(t, stores[0], Key(t))
	Same(t, stores[0], Replay(t, stores[0]))
}
