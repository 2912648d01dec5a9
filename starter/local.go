package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"chimera.ai/engine/internal/devserver"
)

// local is the content of dev.json, which `chimera dev` writes in its folder for other
// commands. It is valid while its process holds the lock beside it.
type local struct {
	Address   string `json:"address"`
	UI        string `json:"ui,omitempty"`
	Namespace string `json:"namespace"`
	// Store is the absolute path of the folder of large values, and Ledger that of the
	// embedded database.
	Store   string    `json:"store"`
	Ledger  string    `json:"ledger"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

func localFile(dir string) string { return filepath.Join(dir, "dev.json") }

func lockFile(dir string) string { return filepath.Join(dir, "dev.lock") }

// findLocal reads what a running `chimera dev` wrote in dir; nil means that none runs
// there. It reports and ignores a stale file.
func (p *Program) findLocal(dir string) (*local, error) {
	raw, err := os.ReadFile(localFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a dev server: %w", err)
	}
	running, err := devserver.Locked(lockFile(dir))
	if err != nil {
		return nil, fmt.Errorf("looking for a dev server: %w", err)
	}
	if !running {
		if !p.ignored {
			p.ignored = true
			p.say("%s was left behind by a chimera dev that has ended; it is ignored", localFile(dir))
		}
		return nil, nil
	}
	var l local
	if err := json.Unmarshal(raw, &l); err != nil || l.Address == "" {
		return nil, fmt.Errorf("looking for a dev server: %s is not what chimera dev writes", localFile(dir))
	}
	return &l, nil
}

// claim locks dir until Close, so that only one `chimera dev` runs there at a time.
func (p *Program) claim(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unanswered("making the folder for dev mode: %s", err)
	}
	// A command that looks for chimera dev holds the lock for a moment.
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	held, err := devserver.AwaitLock(wait, lockFile(dir), nil)
	if errors.Is(err, context.DeadlineExceeded) {
		where := ""
		if l, err := p.findLocal(dir); err == nil && l != nil {
			where = fmt.Sprintf(" (process %d, Temporal at %s)", l.PID, l.Address)
		}
		return unanswered("a chimera dev runs in this folder already%s", where).
			withHint("Use that one, or set dev.dir to another folder.")
	}
	if err != nil {
		return unanswered("taking %s: %s", lockFile(dir), err)
	}
	p.later(func() error { held.Release(); return nil })
	// Now that the lock is held, other commands would trust a stale file.
	if err := os.Remove(localFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unanswered("removing what was left behind: %s", err)
	}
	return nil
}

// announce writes dev.json atomically, and removes it at Close.
func (p *Program) announce(dir string, l local) error {
	raw, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("writing dev.json: %w", err)
	}
	part := localFile(dir) + ".part"
	if err := os.WriteFile(part, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing dev.json: %w", err)
	}
	if err := os.Rename(part, localFile(dir)); err != nil {
		return fmt.Errorf("writing dev.json: %w", err)
	}
	p.later(func() error { return os.Remove(localFile(dir)) })
	return nil
}
