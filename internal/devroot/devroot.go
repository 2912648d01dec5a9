// Package devroot is the root of trust of dev mode, in its folder: the one key that is
// admin, author and requester, and the bootstrap of audience dev that names it. Only a
// program that runs on its user's machine may have it: neither a client of runs nor a
// server imports this package.
package devroot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/trust"
)

// The files of dev mode's root of trust, in its folder.
const (
	adminFile = "admin.key"
	// guardianFile is the key of dev mode's guardian, which signs permits of effects.
	guardianFile = "guardian.key"
	// BootstrapFile names admin.key to whoever verifies.
	BootstrapFile = "bootstrap.json"
	// ledgerFile has the path of the ledger whose log the bootstrap names.
	ledgerFile = "bootstrap.ledger"
	// lockFile is held by whoever makes any of them.
	lockFile = "trust.lock"
)

const (
	// lockTime bounds the wait for a process that makes these files.
	lockTime = 10 * time.Second
	// maxKey bounds the key's file, in bytes, and maxPath that of a path.
	maxKey  = 4 << 10
	maxPath = 8 << 10
)

// Root is what dev mode trusts.
type Root struct {
	Bootstrap *trust.Bootstrap
	// Key is the one key of dev mode's user: admin, author and requester.
	Key *trust.Key
	// Guardian signs permits, and nothing else.
	Guardian *trust.Key
}

// Keys returns the paths of the private keys of dev mode in a folder.
func Keys(dir string) []string {
	return []string{filepath.Join(dir, adminFile), filepath.Join(dir, guardianFile)}
}

// OtherError reports that the folder is that of another ledger, which is still there.
type OtherError struct{ Dir, Ledger string }

func (e *OtherError) Error() string {
	return fmt.Sprintf("%s has the keys of the ledger %s", e.Dir, e.Ledger)
}

// Open returns the root of trust of dev mode in a folder, and creates it if necessary: an
// admin's key, which only its owner can read, and a bootstrap that names it and the log's
// key. It fails if the source has statements based on another root, and with [OtherError] if
// the folder is that of another ledger than that in file. Only the owner of the folder, chimera
// dev, replaces a root whose ledger or key was removed. Any number of processes may call Open at
// once.
func Open(ctx context.Context, dir string, source trust.Source, log trust.LogKey, file string, own bool) (*Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	held, err := devserver.AwaitLock(wait, filepath.Join(dir, lockFile), nil)
	if err != nil {
		return nil, fmt.Errorf("waiting for %s: %w", lockFile, err)
	}
	defer held.Release()
	bootstrap := filepath.Join(dir, BootstrapFile)
	b, err := readBootstrap(bootstrap)
	if err != nil {
		return nil, err
	}
	if b != nil && b.Log != log {
		if err := removed(dir, file); err != nil {
			return nil, err
		}
	}
	admin, err := readKey(filepath.Join(dir, adminFile))
	if err != nil {
		return nil, err
	}
	guardian, err := readKey(filepath.Join(dir, guardianFile))
	if err != nil {
		return nil, err
	}
	if b == nil || own && (b.Log != log || b.Admins[0].Key != admin.Public()) {
		// There is none, or it is of a ledger or a key that was removed.
		stated, err := source.Authority(ctx)
		if err != nil {
			return nil, err
		}
		if len(stated) > 0 {
			return nil, fmt.Errorf("%s is not the bootstrap that the ledger's statements of authority rest on", bootstrap)
		}
		if b, err = trust.DevBootstrap(log.Origin, owner(), admin, log, time.Now()); err != nil {
			return nil, fmt.Errorf("making the bootstrap: %w", err)
		}
		raw, err := json.MarshalIndent(b, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("making the bootstrap: %w", err)
		}
		if err := wholefile.Replace(bootstrap, append(raw, '\n')); err != nil {
			return nil, err
		}
	}
	if _, err := trust.Read(ctx, source, b); err != nil {
		return nil, err
	}
	if own && b.Log == log {
		if err := wholefile.Replace(filepath.Join(dir, ledgerFile), []byte(file+"\n")); err != nil {
			return nil, err
		}
	}
	return &Root{b, admin, guardian}, nil
}

// removed returns an [OtherError] if the folder is that of another ledger than that in file, which
// is still there. A folder that an earlier build has made does not say whose it is.
func removed(dir, file string) error {
	raw, err := wholefile.Read(filepath.Join(dir, ledgerFile), maxPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading whose keys these are: %w", err)
	}
	other := strings.TrimSuffix(string(raw), "\n")
	if other == file {
		return nil
	}
	if _, err := os.Stat(other); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &OtherError{dir, other}
}

// readBootstrap returns the bootstrap of dev mode, or nil if there is none.
func readBootstrap(file string) (*trust.Bootstrap, error) {
	raw, err := wholefile.Read(file, trust.MaxBootstrap)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the bootstrap: %w", err)
	}
	b, err := trust.ParseBootstrap(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if b.Audience != trust.Dev {
		return nil, fmt.Errorf("%s is a bootstrap of audience %s; dev mode has its own", file, b.Audience)
	}
	return b, nil
}

// owner returns the machine's user, who owns dev mode.
func owner() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return trust.PersonOf(u.Username)
	}
	return "dev"
}

// readKey returns a key of dev mode, and creates it if there is none.
func readKey(file string) (*trust.Key, error) {
	secret, err := wholefile.Read(file, maxKey)
	if errors.Is(err, fs.ErrNotExist) {
		k, secret, err := trust.NewKey()
		if err != nil {
			return nil, err
		}
		return k, wholefile.Replace(file, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	k, err := trust.ParseKey(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// tries bounds the attempts at a statement if others are stated first.
const tries = 8

// State returns what the admins have stated. If the root's key is the only admin, it
// first states what is missing.
func (r *Root) State(ctx context.Context, k trust.Store, missing func(trust.State) []trust.Act) (trust.State, error) {
	w := trust.NewWriter(k, r.Bootstrap)
	s, stated, err := r.state(ctx, w, missing)
	if err != nil || !stated {
		return s, err
	}
	return w.Settle(ctx)
}

// state is State, but for the rows, which [trust.Writer.Settle] writes. It reports whether something
// was missing.
func (r *Root) state(ctx context.Context, w *trust.Writer, missing func(trust.State) []trust.Act) (_ trust.State, stated bool, err error) {
	for range tries {
		s, err := w.State(ctx)
		if err != nil || s.Quorum != 1 {
			return s, false, err
		}
		acts := missing(s)
		if len(acts) == 0 || !r.signs(s) {
			return s, false, nil
		}
		e, err := s.Draft(time.Now(), acts...).Envelope(r.Key)
		if err != nil {
			return s, false, err
		}
		raw, err := e.Encode()
		if err != nil {
			return s, false, err
		}
		next, err := w.Publish(ctx, raw, time.Now())
		if err == nil {
			return next, true, nil
		}
		if now, again := w.State(ctx); again != nil || now.N == s.N {
			return s, false, err // not because another statement came first
		}
	}
	return trust.State{}, false, errors.New("the authority changed meanwhile; try again")
}

// GuardianID is the id of dev mode's guardian in the statements of the admin.
const GuardianID = "dev"

// StateGuardian states that dev mode's guardian signs permits, unless that is stated.
func (r *Root) StateGuardian(ctx context.Context, k trust.Store) error {
	_, err := r.State(ctx, k, func(s trust.State) []trust.Act {
		if _, ok := s.Guardians[GuardianID]; ok {
			return nil
		}
		return []trust.Act{&trust.AddGuardian{ID: GuardianID, Key: r.Guardian.Public()}}
	})
	return err
}

// StateBudgets states budgets of agents that have none of their currencies, and the agents
// that are missing.
func (r *Root) StateBudgets(ctx context.Context, k trust.Store, budgets []*trust.SetBudget) error {
	if len(budgets) == 0 {
		return nil
	}
	_, err := r.State(ctx, k, func(s trust.State) []trust.Act {
		var acts []trust.Act
		added := map[string]bool{}
		for _, b := range budgets {
			if _, ok := s.Budgets[trust.BudgetKey{Agent: b.Agent, Currency: b.Currency}]; ok {
				continue
			}
			if _, ok := s.Agents[b.Agent]; !ok && !added[b.Agent] {
				added[b.Agent] = true
				acts = append(acts, &trust.AddAgent{AgentID: b.Agent, Owner: s.Admins[0].Person, Keys: []string{r.Key.Public()}})
			}
			acts = append(acts, b)
		}
		return acts
	})
	return err
}

// signs reports whether the key is an admin's.
func (r *Root) signs(s trust.State) bool {
	return slices.ContainsFunc(s.Admins, func(a trust.Admin) bool { return a.Key == r.Key.Public() })
}
