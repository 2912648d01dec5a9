package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devroot"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// trustFile is the file in which chimera dev writes what verifiers of its log need.
const trustFile = "trust.json"

// trustRoot is the root of trust of a command.
type trustRoot struct {
	// bootstrap is nil if no root of trust is configured.
	bootstrap *trust.Bootstrap
	// dev is the root of dev mode, or nil.
	dev *devroot.Root
}

// trustRoot returns the root of trust of the deployment.
func (at *place) trustRoot(ctx context.Context, p *Program) (*trustRoot, error) {
	if at.root != nil {
		return at.root, nil
	}
	b, err := host.Bootstrap(at.settings)
	if err != nil {
		return nil, misuse("%s", err)
	}
	r := &trustRoot{bootstrap: b}
	if b == nil && at.settings.Temporal.Address == "" && at.store.Driver != store.Postgres {
		if _, err := at.ledger(ctx, p); err != nil {
			return nil, err
		}
		key := at.opened.Key
		if key == nil { // dev mode's root names the log's key, wherever that lies
			c := at.settings
			if key, err = p.openLogKey(ctx, c, "ledger.key", c.Ledger.Key, c.Store.Origin); err != nil {
				return nil, err
			}
		}
		if r, err = devTrustRoot(ctx, at.settings.Dev.Dir, at.opened.Ledger, key, at.store.File(), false); err != nil {
			return nil, unrooted(err)
		}
	}
	at.root = r
	return r, nil
}

// devTrustRoot returns the root of dev mode in a folder, for the ledger in a file; own reports
// that this process is chimera dev.
func devTrustRoot(ctx context.Context, dir string, l ledger.Store, key *ledger.Key, file string, own bool) (*trustRoot, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	r, err := devroot.Open(ctx, dir, l, trust.LogKey{Origin: key.Name(), Key: key.Public()}, file, own)
	if err != nil {
		return nil, err
	}
	return &trustRoot{bootstrap: r.Bootstrap, dev: r}, nil
}

// unrooted is the failure of a root of dev mode that cannot be read, or is that of another ledger.
func unrooted(err error) error {
	f := unanswered("reading the root of trust: %s", err)
	var other *devroot.OtherError
	if errors.As(err, &other) {
		return f.withHint("Give each ledger a folder of its own (dev.dir, CHIMERA_DEV_DIR).")
	}
	return f
}

// trusted returns what chimera dev trusts, before its worker starts, and writes it to
// a file for audit verify: the configured root, or dev mode's own. Authority of
// audience dev exists only with the embedded store; with another store and no
// configured root, only the log's key is known.
func (p *Program) trusted(ctx context.Context, settings config.Config) (*trustRoot, audit.Trust, error) {
	b, err := host.Bootstrap(settings)
	if err != nil {
		return nil, audit.Trust{}, misuse("%s", err)
	}
	options, err := host.Store(settings)
	if err != nil {
		return nil, audit.Trust{}, misuse("%s", err)
	}
	if options.Elsewhere {
		if options.Signer, err = p.openLogKey(ctx, settings, "ledger.key", settings.Ledger.Key, settings.Store.Origin); err != nil {
			return nil, audit.Trust{}, err
		}
	}
	opened, err := store.Open(ctx, options)
	if err != nil {
		return nil, audit.Trust{}, storeError(err)
	}
	defer func() { _ = opened.Close() }() // it has only been read
	r := &trustRoot{bootstrap: b}
	if b == nil && options.Driver != store.Postgres {
		if r, err = devTrustRoot(ctx, settings.Dev.Dir, opened.Ledger, opened.Key, options.File(), true); err != nil {
			return nil, audit.Trust{}, unrooted(err)
		}
	}
	t, err := writeTrust(ctx, settings, opened, r)
	if err != nil {
		return nil, t, unanswered("writing what is trusted: %s", err)
	}
	return r, t, nil
}

// writeTrust writes the trust file of the folder. Only chimera dev calls it, and
// it holds the lock of the folder.
func writeTrust(ctx context.Context, settings config.Config, opened *store.Opened, r *trustRoot) (audit.Trust, error) {
	if opened.Key == nil {
		return audit.Trust{}, nil // another process signs this log
	}
	t := audit.Trust{Format: audit.TrustFormat, Origin: opened.Key.Name(), Log: opened.Key.Public(), Namespaces: []string{settings.Temporal.Namespace}}
	if r.bootstrap != nil {
		s, err := trust.Read(ctx, opened.Ledger, r.bootstrap)
		if err != nil {
			return t, err
		}
		t.Bootstrap, t.Audience = r.bootstrap, string(r.bootstrap.Audience)
		if len(s.Witnesses.Keys) > 0 {
			t.Witnesses, t.Quorum = s.Witnesses.Keys, s.Witnesses.Quorum
		}
	}
	raw, err := indented(t)
	if err != nil {
		return t, err
	}
	return t, wholefile.Replace(filepath.Join(settings.Dev.Dir, trustFile), raw)
}

// state returns what the admins have stated. In dev mode, where one key stands for
// all admins, it first states what is missing.
func (r *trustRoot) state(ctx context.Context, store ledger.Store, missing func(trust.State) []trust.Act) (trust.State, error) {
	if r.dev == nil {
		return trust.Read(ctx, store, r.bootstrap)
	}
	return r.dev.State(ctx, store, missing)
}

// indented encodes JSON for files that people read.
func indented(v any) ([]byte, error) {
	raw, err := json.MarshalIndent(v, "", "  ")
	return append(raw, '\n'), err
}
