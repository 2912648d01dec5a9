package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// The files of dev mode's root of trust, in its folder.
const (
	adminFile     = "admin.key"
	bootstrapFile = "bootstrap.json"
	// trustFile is what chimera dev writes for those who verify its log.
	trustFile = "trust.json"
	// trustLock is held by whoever makes any of them.
	trustLock = "trust.lock"
)

// lockTime bounds the wait for a process that makes these files.
const lockTime = 10 * time.Second

// rooted is what a command trusts.
type rooted struct {
	// bootstrap is nil where nothing says whom to trust.
	bootstrap *trust.Bootstrap
	// dev is the one key of dev mode: admin, author and requester. It is nil
	// everywhere else.
	dev *trust.Key
}

// rooted gives the root of trust of the deployment.
func (at *place) rooted(ctx context.Context, p *Program) (*rooted, error) {
	if at.root != nil {
		return at.root, nil
	}
	b, err := host.Bootstrap(at.settings)
	if err != nil {
		return nil, misuse("%s", err)
	}
	r := &rooted{bootstrap: b}
	if b == nil && at.settings.Temporal.Address == "" && at.store.Driver != store.Postgres {
		if _, err := at.ledger(ctx, p); err != nil {
			return nil, err
		}
		if r, err = devRoot(ctx, at.settings.Dev.Dir, at.opened, false); err != nil {
			return nil, unanswered("reading the root of trust: %s", err)
		}
	}
	at.root = r
	return r, nil
}

// trusted is what chimera dev trusts, before its worker begins, and keeps in a
// file for audit verify: the configured root, or its own. Authority of audience
// dev exists with the embedded store alone; with another one and no configured
// root, the log's key is all that is known.
func (p *Program) trusted(ctx context.Context, settings config.Config) (*rooted, audit.Trust, error) {
	b, err := host.Bootstrap(settings)
	if err != nil {
		return nil, audit.Trust{}, misuse("%s", err)
	}
	options, err := host.Store(settings)
	if err != nil {
		return nil, audit.Trust{}, misuse("%s", err)
	}
	kept, err := store.Open(ctx, options)
	if err != nil {
		return nil, audit.Trust{}, storeError(err)
	}
	defer func() { _ = kept.Close() }() // nothing is written through it
	r := &rooted{bootstrap: b}
	if b == nil && options.Driver != store.Postgres {
		if r, err = devRoot(ctx, settings.Dev.Dir, kept, true); err != nil {
			return nil, audit.Trust{}, unanswered("reading the root of trust: %s", err)
		}
	}
	t, err := keepTrust(ctx, settings.Dev.Dir, kept, r)
	if err != nil {
		return nil, t, unanswered("writing what is trusted: %s", err)
	}
	return r, t, nil
}

// keepTrust writes the trust file of the folder. chimera dev alone does, which
// holds its lock.
func keepTrust(ctx context.Context, dir string, kept *store.Opened, r *rooted) (audit.Trust, error) {
	if kept.Key == nil {
		return audit.Trust{}, nil // another process signs this log
	}
	t := audit.Trust{Format: audit.TrustFormat, Origin: kept.Key.Name(), Log: kept.Key.Public()}
	if r.bootstrap != nil {
		s, err := trust.Read(ctx, kept.Ledger, r.bootstrap)
		if err != nil {
			return t, err
		}
		t.Bootstrap, t.Audience = r.bootstrap, string(r.bootstrap.Audience)
		if len(s.Witnesses.Keys) > 0 {
			t.Witnesses, t.Quorum = s.Witnesses.Keys, s.Witnesses.Quorum
		}
	}
	return t, keepJSON(filepath.Join(dir, trustFile), t)
}

// devRoot gives the root of trust of dev mode, and makes it where it is not there:
// an admin's key, which only its owner can read, and a bootstrap of audience dev.
// It fails if the ledger has statements that do not rest on it. Only the owner of
// the folder, chimera dev, makes another one where the ledger or the key was
// removed. Any number of processes may call it at once.
func devRoot(ctx context.Context, dir string, kept *store.Opened, own bool) (*rooted, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	held, err := devserver.AwaitLock(wait, filepath.Join(dir, trustLock), nil)
	if err != nil {
		return nil, fmt.Errorf("waiting for %s: %w", trustLock, err)
	}
	defer held.Release()
	admin, err := adminKey(filepath.Join(dir, adminFile))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, bootstrapFile)
	b, err := devBootstrap(file)
	if err != nil {
		return nil, err
	}
	log := trust.LogKey{Origin: kept.Key.Name(), Key: kept.Key.Public()}
	if b == nil || own && (b.Log != log || b.Admins[0].Key != admin.Public()) {
		// There is none, or it is of a ledger or a key that was removed.
		stated, err := kept.Ledger.Authority(ctx)
		if err != nil {
			return nil, err
		}
		if len(stated) > 0 {
			return nil, fmt.Errorf("%s is not the bootstrap that the ledger's statements of authority rest on", file)
		}
		if b, err = trust.DevBootstrap(log.Origin, owner(), admin, log, time.Now()); err != nil {
			return nil, fmt.Errorf("making the bootstrap: %w", err)
		}
		if err := keepJSON(file, b); err != nil {
			return nil, err
		}
	}
	if _, err := trust.Read(ctx, kept.Ledger, b); err != nil {
		return nil, err
	}
	return &rooted{bootstrap: b, dev: admin}, nil
}

// devBootstrap reads the bootstrap of dev mode, nil where there is none.
func devBootstrap(file string) (*trust.Bootstrap, error) {
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

// owner is the machine's user, to whom dev mode belongs.
func owner() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "dev"
}

// adminKey reads the admin's key of dev mode, and makes one where there is none.
func adminKey(file string) (*trust.Key, error) {
	secret, err := wholefile.Read(file, maxSecretKey)
	if errors.Is(err, fs.ErrNotExist) {
		k, secret, err := trust.NewKey()
		if err != nil {
			return nil, err
		}
		return k, wholefile.Replace(file, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the admin's key: %w", err)
	}
	k, err := trust.ParseKey(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// tries bounds how often a statement is made anew because another came first.
const tries = 8

// state gives what the admins have stated. In dev mode, where one key is all the
// admins, it first states what is missing.
func (r *rooted) state(ctx context.Context, books ledger.Store, missing func(trust.State) []trust.Act) (trust.State, error) {
	for range tries {
		s, err := trust.Read(ctx, books, r.bootstrap)
		if err != nil || r.dev == nil || s.Quorum != 1 {
			return s, err
		}
		acts := missing(s)
		if len(acts) == 0 || !signs(s, r.dev) {
			return s, nil
		}
		e, err := s.Draft(time.Now(), acts...).Envelope(r.dev)
		if err != nil {
			return s, err
		}
		raw, err := e.Encode()
		if err != nil {
			return s, err
		}
		next, err := trust.Publish(ctx, books, r.bootstrap, raw, time.Now())
		if err == nil {
			return next, nil
		}
		if now, again := trust.Read(ctx, books, r.bootstrap); again != nil || now.N == s.N {
			return s, err // not because another statement came first
		}
	}
	return trust.State{}, errors.New("others state authority all the time")
}

// signs reports whether a key is an admin's.
func signs(s trust.State, k *trust.Key) bool {
	for _, a := range s.Admins {
		if a.Key == k.Public() {
			return true
		}
	}
	return false
}

func keepJSON(file string, v any) error {
	raw, err := indented(v)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return wholefile.Replace(file, raw)
}

// indented is JSON for files that people read.
func indented(v any) ([]byte, error) {
	raw, err := json.MarshalIndent(v, "", "  ")
	return append(raw, '\n'), err
}
