package devroot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

func openStore(t *testing.T, dir, path string) *store.Opened {
	s, err := store.Open(t.Context(), store.Options{Dir: dir, Path: filepath.Join(dir, path)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// openRoot opens the root of a folder for a ledger.
func openRoot(t *testing.T, dir string, s *store.Opened, own bool) (*Root, error) {
	return Open(t.Context(), dir, s.Ledger, trust.LogKey{Origin: s.Key.Name(), Key: s.Key.Public()}, "", own)
}

func TestRoot(t *testing.T) {
	dir := t.TempDir()
	root := func(s *store.Opened) (*trust.Bootstrap, error) {
		r, err := openRoot(t, dir, s, true)
		if err != nil {
			return nil, err
		}
		return r.Bootstrap, nil
	}
	s := openStore(t, dir, "ledger.db")
	first, err := root(s)
	require.NoError(t, err)
	again, err := root(s)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, trust.Dev, first.Audience)
	info, err := os.Stat(filepath.Join(dir, "admin.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	// Another ledger gets another bootstrap, from the owner of the folder; one with
	// statements does not.
	another := openStore(t, dir, "other.db")
	same, err := openRoot(t, dir, another, false)
	require.NoError(t, err)
	require.Equal(t, first.Digest(), same.Bootstrap.Digest())
	other, err := root(another)
	require.NoError(t, err)
	require.NotEqual(t, first.Digest(), other.Digest())
	_, err = root(s)
	require.NoError(t, err)
	r, err := openRoot(t, dir, s, false)
	require.NoError(t, err)
	_, err = r.State(t.Context(), s.Ledger, func(trust.State) []trust.Act {
		return []trust.Act{&trust.AddAgent{AgentID: "a", Owner: "me", Keys: []string{}}}
	})
	require.NoError(t, err)
	_, err = root(s)
	require.NoError(t, err)
	_, err = root(another)
	require.NoError(t, err, "that ledger has no statements")
	_, err = root(s)
	require.ErrorContains(t, err, "is not the bootstrap that the ledger's statements of authority rest on")
	_, err = openRoot(t, dir, s, false)
	require.ErrorIs(t, err, trust.ErrInvalid)
}

// TestRootOfAnotherLedger: a folder stays that of its ledger until that was removed.
func TestRootOfAnotherLedger(t *testing.T) {
	dir := t.TempDir()
	root := func(s *store.Opened, path string, own bool) error {
		_, err := Open(t.Context(), dir, s.Ledger, trust.LogKey{Origin: s.Key.Name(), Key: s.Key.Public()}, filepath.Join(dir, path), own)
		return err
	}
	one, two := openStore(t, dir, "one.db"), openStore(t, dir, "two.db")
	require.NoError(t, root(one, "one.db", true))
	kept, err := os.ReadFile(filepath.Join(dir, BootstrapFile))
	require.NoError(t, err)
	for _, own := range []bool{true, false} {
		var other *OtherError
		require.ErrorAs(t, root(two, "two.db", own), &other)
		require.Equal(t, OtherError{dir, filepath.Join(dir, "one.db")}, *other)
	}
	now, err := os.ReadFile(filepath.Join(dir, BootstrapFile))
	require.NoError(t, err)
	require.Equal(t, kept, now)
	require.NoError(t, root(one, "one.db", true))
	require.NoError(t, root(one, "moved.db", true), "the same log at another path")
	require.NoError(t, root(two, "two.db", true), "moved.db is not there")
}

// TestRootAtOnce: of processes that come at once to a new folder, all trust the
// same, and what each states is stated once.
func TestRootAtOnce(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	roots, errs := make([]*Root, 6), make([]error, 6)
	for i := range roots {
		s := openStore(t, dir, "ledger.db")
		all.Go(func() {
			if roots[i], errs[i] = openRoot(t, dir, s, i == 0); errs[i] != nil {
				return
			}
			_, errs[i] = roots[i].State(t.Context(), s.Ledger, func(s trust.State) (acts []trust.Act) {
				for _, id := range []string{"shared", string(rune('a' + i))} {
					if _, ok := s.Agents[id]; !ok {
						acts = append(acts, &trust.AddAgent{AgentID: id, Owner: "me", Keys: []string{}})
					}
				}
				return acts
			})
		})
	}
	all.Wait()
	for i, r := range roots {
		require.NoError(t, errs[i])
		require.Equal(t, roots[0].Bootstrap.Digest(), r.Bootstrap.Digest())
		require.Equal(t, roots[0].Key.Public(), r.Key.Public())
	}
	s, err := trust.Read(t.Context(), openStore(t, dir, "ledger.db").Ledger, roots[0].Bootstrap)
	require.NoError(t, err)
	require.Len(t, s.Agents, 7)
	left, err := filepath.Glob(filepath.Join(dir, ".*-*"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
}

// silent is a ledger whose statements nobody can add to.
type silent struct{ ledger.Store }

func (silent) StateAuthority(context.Context, json.RawMessage, string) error {
	return ledger.ErrUnavailable
}

// TestStateGivesUp: a store that refuses is an error, not a loop; and an admin's
// former key states nothing.
func TestStateGivesUp(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, "ledger.db")
	r, err := openRoot(t, dir, s, true)
	require.NoError(t, err)
	add := func(trust.State) []trust.Act {
		return []trust.Act{&trust.AddAgent{AgentID: "a", Owner: "me", Keys: []string{}}}
	}
	_, err = r.State(t.Context(), silent{s.Ledger}, add)
	require.ErrorIs(t, err, ledger.ErrUnavailable)

	next, _, err := trust.NewKey()
	require.NoError(t, err)
	_, err = r.State(t.Context(), s.Ledger, func(trust.State) []trust.Act {
		return []trust.Act{&trust.SetAdmins{Admins: []trust.Admin{{ID: "next", Person: "next", Key: next.Public()}}, Quorum: 1}}
	})
	require.NoError(t, err)
	state, err := r.State(t.Context(), s.Ledger, add)
	require.NoError(t, err)
	require.Empty(t, state.Agents)
}

// imported are n tools as they were imported.
func imported(t *testing.T, n int, description string) (tools []catalog.Template) {
	t.Helper()
	for i := range n {
		tool := catalog.Template{
			ProviderType: plan.MCP, Provider: "files", Operation: fmt.Sprintf("tool%d", i), Mode: plan.Deter, Effect: plan.Pure,
			Status: plan.AllowAuto, TimeoutMS: 1000, InputSchema: json.RawMessage(`{"type":"object"}`),
			Cost: &catalog.Cost{Expr: "0" + strings.Repeat(" + 0", 500), Currency: "USD"},
		}
		tool.Definition = fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, tool.Operation, description)
		print, err := fingerprint.Tool(tool.Definition)
		require.NoError(t, err)
		tool.Fingerprint = print.Digest
		tools = append(tools, tool)
	}
	return tools
}

// TestStateTools: tools are registered, and stated in as many statements as they need; again,
// only what has changed is.
func TestStateTools(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, "ledger.db")
	r, err := openRoot(t, dir, s, true)
	require.NoError(t, err)
	state := func(tools []catalog.Template, want int) trust.State {
		t.Helper()
		n, err := r.StateTools(t.Context(), s.Ledger, tools)
		require.NoError(t, err)
		require.Equal(t, want, n)
		now, err := trust.Read(t.Context(), s.Ledger, r.Bootstrap)
		require.NoError(t, err)
		for i := range tools {
			id := tools[i].ToolID()
			require.Equal(t, string(tools[i].Status), now.Tools[id].Status)
			row, err := trust.Trusted(t.Context(), s.Ledger, now, id)
			require.NoError(t, err)
			require.JSONEq(t, string(tools[i].Definition), string(row.Schema))
		}
		return now
	}
	require.Zero(t, state(nil, 0).N)
	tools := imported(t, 100, "a")
	first := state(tools, 100)
	require.Equal(t, 4, first.N, "an envelope has no room for all")
	require.Equal(t, first.N, state(tools, 0).N)

	tools[0].TimeoutMS, tools[1].Status = 2000, plan.Block
	require.Equal(t, first.N+1, state(tools, 2).N)
	state(tools, 0)
	tools = append(tools[:2], imported(t, 1, "b")...)
	require.Len(t, state(tools, 1).Tools, 101, "a changed tool is another")

	// One that cannot be stated is an error; whoever is not the only admin states nothing.
	tools[0].Operation = strings.Repeat("x", 300)
	_, err = r.StateTools(t.Context(), s.Ledger, tools)
	require.ErrorIs(t, err, trust.ErrInvalid)
	next, _, err := trust.NewKey()
	require.NoError(t, err)
	_, err = r.State(t.Context(), s.Ledger, func(trust.State) []trust.Act {
		return []trust.Act{&trust.SetAdmins{Admins: []trust.Admin{{ID: "next", Person: "next", Key: next.Public()}}, Quorum: 1}}
	})
	require.NoError(t, err)
	n, err := r.StateTools(t.Context(), s.Ledger, imported(t, 1, "c"))
	require.NoError(t, err)
	require.Zero(t, n)
}

// reading is a store that counts how often its statements are read.
type reading struct {
	ledger.Store
	statements int
}

func (r *reading) Authority(ctx context.Context) ([]json.RawMessage, error) {
	r.statements++
	return r.Store.Authority(ctx)
}

// unsettled is a store that nobody can write the trust of tools to.
type unsettled struct{ ledger.Store }

func (unsettled) TrustTools(context.Context, string, ...string) error { return ledger.ErrUnavailable }

// TestStateManyTools: however many tools there are, the statements are read at the beginning and at
// the end; and rows that a process has left behind are written by the next one.
func TestStateManyTools(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, "ledger.db")
	r, err := openRoot(t, dir, s, true)
	require.NoError(t, err)
	tools := imported(t, 300, "a")
	_, err = r.StateTools(t.Context(), unsettled{s.Ledger}, tools)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	row, err := s.Ledger.Tool(t.Context(), tools[0].ToolID())
	require.NoError(t, err)
	require.Equal(t, string(plan.Block), row.Status)
	n, err := r.StateTools(t.Context(), s.Ledger, tools)
	require.NoError(t, err)
	require.Zero(t, n, "all of it is stated")
	row, err = s.Ledger.Tool(t.Context(), tools[0].ToolID())
	require.NoError(t, err)
	require.Equal(t, string(plan.AllowAuto), row.Status)

	k := &reading{Store: s.Ledger}
	n, err = r.StateTools(t.Context(), k, imported(t, 300, "b"))
	require.NoError(t, err)
	require.Equal(t, 300, n)
	require.Equal(t, 2, k.statements)
	now, err := trust.Read(t.Context(), s.Ledger, r.Bootstrap)
	require.NoError(t, err)
	require.Greater(t, now.N, 10)
}
