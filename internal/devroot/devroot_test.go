package devroot

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
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
	return Open(t.Context(), dir, s.Ledger, trust.LogKey{Origin: s.Key.Name(), Key: s.Key.Public()}, own)
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
