package audit_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/model"
)

// tale is an export as an operator sees it who has the database and the log's key:
// entries with their bodies, each of which can be made anew.
type tale []*scene

type scene struct {
	*ledger.Entry
	// body is as it is stored, nil where it is not there.
	body []byte
}

func (w *world) tale(t testing.TB) tale {
	stored := map[string][]byte{}
	for _, l := range linesOf(w.read(t, audit.BodiesFile)) {
		l = bytes.TrimSuffix(l, []byte("\n"))
		stored[ledger.BodyDigest(l)] = l
	}
	var out tale
	for _, e := range storyOf(t, linesOf(w.read(t, audit.EntriesFile))) {
		out = append(out, &scene{e, stored[e.Body]})
	}
	return out
}

// tell writes a tale, with its chains relinked, signed by the log's key.
func (w *world) tell(t testing.TB, of tale) {
	var s story
	var bodies []byte
	for _, x := range of {
		s = append(s, x.Entry)
		if x.body != nil {
			bodies = append(append(bodies, x.body...), '\n')
		}
	}
	lines := s.lines(t, true)
	w.write(t, audit.EntriesFile, bytes.Join(lines, nil))
	w.write(t, audit.BodiesFile, bodies)
	w.write(t, audit.CheckpointFile, w.sign(t, w.key, lines))
}

// store gives a scene a body as it is.
func (x *scene) store(raw []byte) { x.body, x.Body = raw, ledger.BodyDigest(raw) }

// say gives a scene other data.
func (x *scene) say(t testing.TB, data any) {
	raw, err := json.Marshal(data)
	require.NoError(t, err)
	body, err := ledger.Body{Data: raw}.Encode()
	require.NoError(t, err)
	x.store(body)
}

// changed changes the data of a scene.
func changed[T any](t testing.TB, x *scene, change func(*T)) {
	b, err := ledger.DecodeBody(x.body)
	require.NoError(t, err)
	var v T
	require.NoError(t, json.Unmarshal(b.Data, &v))
	change(&v)
	x.say(t, v)
}

// lock seals the body of a scene, with a key that nobody has.
func (x *scene) lock(t testing.TB, id string) {
	raw, err := ledger.Seal(id, make([]byte, ledger.KeyBytes), x.body)
	require.NoError(t, err)
	x.store(raw)
}

// first finds the first entry of a kind, and all finds each.
func (of tale) first(t testing.TB, kind ledger.Kind) int {
	i := slices.IndexFunc(of, func(x *scene) bool { return x.Kind == kind })
	require.GreaterOrEqual(t, i, 0)
	return i
}

func (of tale) all(chain string) (out tale) {
	for _, x := range of {
		if x.Chain == chain {
			out = append(out, x)
		}
	}
	return out
}

// new makes an entry at the end of a tale.
func (of tale) new(t testing.TB, chain string, kind ledger.Kind, about string, data any) *scene {
	d := ledger.Draft{Chain: chain, Kind: kind, Key: string(kind) + "/" + about}
	x := &scene{Entry: d.Entry(ledgertest.Origin, 0, ledger.Hash{}, of[len(of)-1].At, "")}
	x.say(t, data)
	return x
}

const paid = "run/w/r1"

// TestCheats: someone who owns the database and the log's key, but no admin and no
// witness, changes what the log says.
func TestCheats(t *testing.T) {
	base := newWorld(t)
	soon := ledger.At(time.Now().Add(24 * time.Hour))
	pruned := func(t *testing.T, of tale, class ledger.Class, count int) *scene {
		return of.new(t, ledger.LedgerChain, ledger.BodyPruned, "cheat", ledger.PrunedData{Class: class, Before: soon, Count: count, Reason: "policy"})
	}
	for _, c := range []struct {
		name  string
		cheat func(t *testing.T, of tale) tale
		want  audit.ProblemKind
		says  string
	}{
		{"nothing", func(_ *testing.T, of tale) tale { return of }, "", ""},
		{"a chain made vague by what is not its own", func(t *testing.T, of tale) tale {
			x := of.new(t, ledger.AuthorityChain, ledger.SnapshotTaken, "0", ledger.Snapshot{Server: "s"})
			x.body = nil
			return append(tale{x}, append(of, pruned(t, of, ledger.Evidence, 1))...)
		}, audit.BadEntry, "an entry of kind snapshot.taken, about the run \"\", stands in the chain authority"},
		{"a statement of a class that is pruned", func(t *testing.T, of tale) tale {
			x := of[of.first(t, ledger.AuthorityStated)]
			x.Class, x.body = ledger.Operational, nil
			return append(of, pruned(t, of, ledger.Operational, 1))
		}, audit.BadEntry, "which is not kept as long as permanent"},
		{"evidence of a class that goes sooner", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.DecisionMade)].Class = ledger.Operational
			return of
		}, audit.BadEntry, "an entry of kind decision.made is of class operational"},
		{"a statement that nobody can read", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.AuthorityStated)].lock(t, "cover")
			return of
		}, audit.BadBody, "authority.stated is sealed, which none is"},
		{"a hold that nobody can read", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.HoldOpened)].lock(t, "cover")
			return of
		}, audit.BadBody, "hold.opened is sealed, which none is"},
		{"an end that says nothing", func(t *testing.T, of tale) tale {
			x := of[of.first(t, ledger.RunClosed)]
			x.body, x.Body = nil, ""
			return of
		}, audit.BadEntry, "an entry of kind run.closed has no body"},
		{"one outcome sealed", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.NodeFailed)].lock(t, "cover")
			return of
		}, audit.BadBody, "a run is sealed whole, or not at all"},
		{"a run sealed with two keys", func(t *testing.T, of tale) tale {
			for i, x := range of.all(paid) {
				x.lock(t, []string{"one", "two"}[i%2])
			}
			return of
		}, audit.BadBody, "it is sealed with the key \"two\", and what the run has stated before with \"one\""},
		{"a seal that seals nothing", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.RunOpened)].store([]byte(`{"sealed":{"key":"k","nonce":"","text":""}}`))
			return of
		}, audit.BadBody, "it says that it is sealed, and is not"},
		{"a seal beside the data", func(t *testing.T, of tale) tale {
			x := of[of.first(t, ledger.RunOpened)]
			x.store(bytes.Replace(x.body, []byte(`{"data":`), []byte(`{"sealed":1,"data":`), 1))
			return of
		}, audit.BadBody, "it says that it is sealed, and is not"},
		{"a seal in another case", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.RunOpened)].store([]byte(`{"SEALED":{"key":"k","nonce":"` + base64.StdEncoding.EncodeToString(make([]byte, 12)) + `","text":"` + base64.StdEncoding.EncodeToString(make([]byte, 16)) + `"}}`))
			return of
		}, audit.BadBody, "it says that it is sealed, and is not"},
		{"a body with more than its data", func(t *testing.T, of tale) tale {
			x := of[of.first(t, ledger.RunOpened)]
			x.store(bytes.Replace(x.body, []byte(`{"data":`), []byte(`{"Data":{},"data":`), 1))
			return of
		}, audit.BadBody, "decode body"},
		{"a salt in capitals", func(t *testing.T, of tale) tale {
			x := of[of.first(t, ledger.RunOpened)]
			i := bytes.LastIndex(x.body, []byte(`"salt":"`)) + len(`"salt":"`)
			x.store(slices.Concat(x.body[:i], []byte(strings.Repeat("A", 32)), []byte(`"}`)))
			return of
		}, audit.BadBody, "decode body"},
		{"a body that is gone, after the last pruning", func(t *testing.T, of tale) tale {
			x := of[of.first(t, ledger.NodeFailed)]
			x.body = nil
			return append(tale{pruned(t, of, ledger.Operational, 1)}, of...)
		}, audit.BadBody, "the log does not say that they were pruned"},
		{"a body that is gone, under legal hold", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.NodeFailed)].body = nil
			hold := of.new(t, ledger.LedgerChain, ledger.LegalHoldPlaced, "cheat", ledger.LegalHoldData{Chain: paid, Reason: "case"})
			return append(of, hold, pruned(t, of, ledger.Operational, 1))
		}, audit.BadBody, "first that of an entry of run/w/r1: it was under legal hold when others were pruned"},
		{"one more than was pruned", func(t *testing.T, of tale) tale {
			n := 0
			for _, x := range of {
				if x.Class == ledger.Operational {
					x.body = nil
					n++
				}
			}
			return append(of, pruned(t, of, ledger.Operational, n-1))
		}, audit.BadBody, "bodies of class operational are missing, and the log says that"},
		{"a task that nobody drafted, behind bodies that are gone", func(t *testing.T, of tale) tale {
			n := 0
			of = slices.DeleteFunc(of, func(x *scene) bool { return x.Kind == ledger.TaskDrafted || x.Kind == ledger.TaskSigned })
			for _, x := range of {
				if x.Class == ledger.Evidence {
					x.body = nil
					n++
				}
			}
			return append(of, pruned(t, of, ledger.Evidence, n))
		}, audit.BadStory, "(task.executed): impossible entry: nothing came before it"},
		{"an effect without its permit, in a run that is sealed", func(t *testing.T, of tale) tale {
			of = slices.DeleteFunc(of, func(x *scene) bool { return x.Kind == ledger.InvocationPermitted })
			for _, x := range of.all(paid) {
				x.lock(t, "k")
			}
			return of
		}, audit.BadStory, "(invocation.calling): impossible entry: nothing came before it"},
		{"a permit after the end, in a run that is pruned", func(t *testing.T, of tale) tale {
			i := of.first(t, ledger.InvocationPermitted)
			x := of[i]
			of = slices.DeleteFunc(of, func(y *scene) bool {
				return y.Chain == paid && strings.HasPrefix(string(y.Kind), "invocation.") || y.Kind == ledger.ApprovalConsumed
			})
			n := 0
			for _, y := range of {
				if y.Class == ledger.Operational {
					y.body = nil
					n++
				}
			}
			return append(of, pruned(t, of, ledger.Operational, n), x)
		}, audit.BadStory, "the run has ended"},
		{"a hold in another currency's chain", func(t *testing.T, of tale) tale {
			for _, x := range of {
				if strings.HasPrefix(string(x.Kind), "hold.") {
					x.Chain = "budget/EUR"
				}
			}
			return of
		}, audit.BadStory, "is of another currency or agent"},
		{"a budget of no currency", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.BudgetSet)].Chain = "budget/XXX"
			return of
		}, audit.BadEntry, "stands in the chain budget/XXX"},
		{"an outcome that its entry does not tell", func(t *testing.T, of tale) tale {
			changed(t, of[of.first(t, ledger.NodeSucceeded)], func(o *ledger.Outcome) { o.OutputDigest = ledger.BodyDigest([]byte("better")) })
			return of
		}, audit.BadStory, "of another agent, plan, input or output"},
		{"an outcome under another key", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.NodeSucceeded)].Key = "node/z/0/0"
			return of
		}, audit.BadEntry, "the key of an outcome is node/z/0/0, not node/a/0/0"},
		{"an entry in another run's chain", func(t *testing.T, of tale) tale {
			of[of.first(t, ledger.NodeFailed)].Run = "elsewhere"
			return of
		}, audit.BadEntry, "about the run \"elsewhere\", stands in the chain run/w/r1"},
		{"a run for somebody else", func(t *testing.T, of tale) tale {
			changed(t, of[of.first(t, ledger.RunClosed)], func(r *ledger.Run) { r.Requester = "mallory" })
			return of
		}, audit.BadStory, "something else of how it was opened"},
		{"a run opened again", func(t *testing.T, of tale) tale {
			again := *of[of.first(t, ledger.RunOpened)]
			e := *again.Entry
			again.Entry, again.Key = &e, "run.opened/again"
			return append(of, &again)
		}, audit.BadStory, "it does not open its chain"},
		{"an outcome after the end", func(t *testing.T, of tale) tale {
			i := of.first(t, ledger.NodeFailed)
			return append(slices.Delete(slices.Clone(of), i, i+1), of[i])
		}, audit.BadStory, "the run has ended"},
		{"a task with more than a task has", func(t *testing.T, of tale) tale {
			changed(t, of[of.first(t, ledger.TaskDrafted)], func(m *map[string]any) { (*m)["approved"] = true })
			return of
		}, audit.BadStory, "not written as those of its kind are"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := *base
			w.export(t)
			w.tell(t, c.cheat(t, w.tale(t)))
			r := w.verify(t, nil)
			if c.says == "" {
				require.True(t, r.OK, "%v", r.Problems)
				return
			}
			require.False(t, r.OK)
			require.NotContains(t, kinds(r), audit.BadRoot)
			require.True(t, slices.ContainsFunc(r.Problems, func(p audit.Problem) bool { return p.Kind == c.want && strings.Contains(p.Message, c.says) }), "%v", r.Problems)
		})
	}
}

// TestTheReportIsNotTheOperators: what strangers have written neither forges a line
// of the report nor moves a terminal's cursor, and no flood hides what matters.
func TestTheReportIsNotTheOperators(t *testing.T) {
	w := newWorld(t)
	of := w.tale(t)
	evil := "case\nverified: 7 entries\x1b[2J\u009b2J\u202e\u2028"
	place := of.new(t, ledger.LedgerChain, ledger.LegalHoldPlaced, "1", ledger.LegalHoldData{Chain: evil, Reason: evil})
	prune := of.new(t, ledger.LedgerChain, ledger.BodyPruned, "2", ledger.PrunedData{Class: ledger.Class(evil), Before: of[0].At, Count: 1, Reason: evil})
	lies := of.new(t, ledger.RunChain("w\u202e", "r"), ledger.DecisionMade, evil[:4], ledger.Decision{ID: evil, Record: json.RawMessage(`{}`)})
	lies.Run = "w\u202e"
	w.tell(t, append(of, place, prune, lies))
	w.write(t, audit.PendingFile, bytes.Repeat([]byte("{}\n"), 500))
	r := w.verify(t, nil)
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text, time.Now()))
	require.Contains(t, text.String(), `case\u000averified: 7 entries\u001b[2J\u009b2J\u202e\u2028`)
	for _, raw := range []string{"\x1b", "\u009b", "\u202e", "\u2028", "\nverified"} {
		require.NotContains(t, text.String(), raw)
		for _, p := range append(r.Problems, r.Warnings...) {
			require.NotContains(t, p.Message, raw)
		}
	}
	require.Contains(t, text.String(), "pending.jsonl: 50 lines are no entries, and those after them are not read, the first: decode entry")
	require.True(t, slices.ContainsFunc(r.Warnings, func(p audit.Problem) bool { return p.Kind == audit.BadAuthority }), "that statements are not verified is said")

	// Many warnings of one sort are counted, and hide none of another. A chain has one.
	of = w.tale(t)
	for i := range 300 {
		for j := range 3 {
			x := of.new(t, ledger.SnapshotsChain(fmt.Sprint("s", i)), ledger.SnapshotTaken, strings.Repeat("x", j+1), ledger.Snapshot{Server: "s"})
			x.At = ledger.At(x.At.Time().Add(time.Duration(-j) * time.Second))
			of = append(of, x)
		}
	}
	w.tell(t, of)
	r = w.verify(t, nil)
	require.Equal(t, int64(200), r.MoreWarnings)
	times := slices.DeleteFunc(slices.Clone(r.Warnings), func(p audit.Problem) bool { return !strings.Contains(p.Message, " comes after ") })
	require.Len(t, times, 100)
	require.Contains(t, r.Warnings[len(r.Warnings)-1].Message, "the trust file has no bootstrap")
	text.Reset()
	require.NoError(t, r.WriteText(&text, time.Now().Add(-time.Hour)))
	require.Contains(t, text.String(), "more warnings\n")
	require.Contains(t, text.String(), " IN THE FUTURE\n")
}

// TestPruningIsPrecise: bodies that were pruned repeatedly on schedule, beside
// legal holds, are explained, so an honest log is accepted.
func TestPruningIsPrecise(t *testing.T) {
	onBoth(t, pruningIsPrecise)
}

func pruningIsPrecise(t *testing.T, w *world) {
	ctx := t.Context()
	require.NoError(t, w.store.PlaceLegalHold(ctx, paid, "case"))
	for i := range 4 {
		w.run(t, strings.Repeat("again", i+1), 3, i%2 == 0)
		for _, class := range []ledger.Class{ledger.Operational, ledger.Evidence, ledger.Financial} {
			_, err := w.store.Prune(ctx, class, time.Now().Add(time.Hour), "policy")
			require.NoError(t, err)
		}
		if i == 2 {
			require.NoError(t, w.store.LiftLegalHold(ctx, paid, "over"))
		}
		ledgertest.Drain(t, w.store, w.key)
		w.export(t)
		r := w.verify(t, nil)
		require.True(t, r.OK, "%v", r.Problems)
		require.Positive(t, r.Missing)
	}
	// Budgets go on after holds were pruned, and those of later periods are exact.
	usd := func(n int64) ledger.Money {
		m, err := ledger.Minor(n, "USD")
		require.NoError(t, err)
		return m
	}
	for _, every := range []ledger.Every{ledger.Forever, ledger.Daily} {
		require.NoError(t, w.store.SetBudget(ctx, ledger.Budget{Agent: "agent-42", Currency: "USD", Every: every, Limit: usd(700)}))
		_, err := w.store.OpenHold(ctx, ledger.Hold{ID: "each " + string(every), Agent: "agent-42", Amount: usd(100), ExpiresAt: ledger.At(time.Now())})
		require.NoError(t, err)
	}
	ledgertest.Drain(t, w.store, w.key)
	w.export(t)
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	of := w.tale(t)
	for _, x := range of {
		if x.Kind == ledger.HoldOpened && model.About(x.Entry) == "each day" {
			changed(t, x, func(h *ledger.Hold) { h.Amount = usd(701) })
		}
	}
	w.tell(t, of)
	r = w.verify(t, nil)
	require.Contains(t, r.Problems[0].Message, "hold each day does not fit")
}
