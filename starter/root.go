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

	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// trustFile is what chimera dev writes for those who verify its log.
const trustFile = "trust.json"

// trusted is what dev mode trusts, and keeps in a file for audit verify. Authority
// of audience dev exists with the embedded store alone; of another one, the log's
// key is all that is known here.
func (p *Program) trusted(ctx context.Context, dir string, worker *running) (audit.Trust, error) {
	kept := worker.host.Store()
	if kept.Key == nil {
		return audit.Trust{}, nil // another process signs this log
	}
	if worker.store.Driver == store.Postgres {
		t := audit.Trust{Format: audit.TrustFormat, Origin: kept.Key.Name(), Log: kept.Key.Public()}
		if err := keepJSON(filepath.Join(dir, trustFile), t); err != nil {
			return t, unanswered("%s", err)
		}
		return t, nil
	}
	t, err := root(ctx, dir, kept)
	if err != nil {
		return t, unanswered("reading the root of trust: %s", err)
	}
	return t, nil
}

// root gives the trust file of dev mode, and makes what it rests on where it is
// not there: an admin's key, which only its owner can read, and a bootstrap of
// audience dev. It fails if the ledger has statements of other admins.
func root(ctx context.Context, dir string, kept *store.Opened) (audit.Trust, error) {
	admin, err := adminKey(filepath.Join(dir, "admin.key"))
	if err != nil {
		return audit.Trust{}, err
	}
	file := filepath.Join(dir, "bootstrap.json")
	log := trust.LogKey{Origin: kept.Key.Name(), Key: kept.Key.Public()}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return audit.Trust{}, fmt.Errorf("reading the bootstrap: %w", err)
	}
	var b *trust.Bootstrap
	if err == nil {
		if b, err = trust.ParseBootstrap(raw); err != nil {
			return audit.Trust{}, fmt.Errorf("%s: %w", file, err)
		}
		if b.Audience != trust.Dev {
			return audit.Trust{}, fmt.Errorf("%s is a bootstrap of audience %s; dev mode has its own", file, b.Audience)
		}
	}
	if b == nil || b.Log != log || b.Admins[0].Key != admin.Public() {
		// There is none, or it is of a ledger or a key that was removed.
		stated, err := kept.Ledger.Authority(ctx)
		if err != nil {
			return audit.Trust{}, err
		}
		if len(stated) > 0 {
			return audit.Trust{}, fmt.Errorf("%s is not the bootstrap that the ledger's statements of authority rest on", file)
		}
		person := "dev"
		if u, err := user.Current(); err == nil && u.Username != "" {
			person = u.Username
		}
		if b, err = trust.DevBootstrap(log.Origin, person, admin, log, time.Now()); err != nil {
			return audit.Trust{}, fmt.Errorf("making the bootstrap: %w", err)
		}
		if err := keepJSON(file, b); err != nil {
			return audit.Trust{}, err
		}
	}
	if _, err := trust.Read(ctx, kept.Ledger, b); err != nil {
		return audit.Trust{}, err
	}
	t := audit.Trust{Format: audit.TrustFormat, Origin: log.Origin, Log: log.Key, Audience: string(trust.Dev), Bootstrap: b}
	return t, keepJSON(filepath.Join(dir, trustFile), t)
}

// adminKey reads the admin's key of dev mode, and makes one where there is none.
func adminKey(file string) (*trust.Key, error) {
	secret, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		k, secret, err := trust.NewKey()
		if err != nil {
			return nil, err
		}
		return k, keepFile(file, secret)
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

func keepJSON(file string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return keepFile(file, append(raw, '\n'))
}

// keepFile writes a file whole, for its owner alone. Its folder is locked by this
// process.
func keepFile(file string, raw []byte) error {
	if err := os.WriteFile(file+".part", raw, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.Rename(file+".part", file); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}
