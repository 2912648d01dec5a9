package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// place is where the deployment of a command stores its data.
type place struct {
	store store.Options
	// local is the chimera dev of this folder, if that is the deployment.
	local *local
	// known reports that the workers use this place, and that it is not just a
	// default.
	known bool
	// settings are the configuration.
	settings config.Config
	// opened is the store once it is open, and ledgerStore its ledger.
	opened      *store.Opened
	ledgerStore ledger.Store
	// root is the root of trust, once known.
	root *rooted
}

// place returns where data is stored: as configured, or by the dev server of this
// folder.
func (p *Program) place() (*place, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	return p.placeOf(settings)
}

func (p *Program) placeOf(settings config.Config) (*place, error) {
	kept, err := host.Store(settings)
	if err != nil {
		return nil, misuse("%s", err)
	}
	at := &place{store: kept, known: settings.Kept(), settings: settings}
	if settings.Temporal.Address != "" {
		return at, nil
	}
	if at.local, err = p.findLocal(settings.Dev.Dir); err != nil {
		return nil, unanswered("%s", err)
	}
	if l := at.local; l != nil {
		at.known, at.store.Dir = true, l.Store
		if l.Ledger != "" {
			at.store.Driver, at.store.Path = store.SQLite, l.Ledger
		}
	}
	return at, nil
}

// there refuses the store of a running chimera dev whose files were removed: it
// would be created again here, and differ from the worker's.
func (at *place) there() error {
	if at.local == nil {
		return nil
	}
	for _, file := range []string{at.local.Store, at.local.Ledger} {
		if file != "" && !exists(file) {
			return unanswered("%s is gone, and the chimera dev of this folder had it open", file).
				withHint("Bring it back, or end chimera dev: the next one begins with a new store.")
		}
	}
	return nil
}

// ledger opens the ledger, until Close.
func (at *place) ledger(ctx context.Context, p *Program) (ledger.Store, error) {
	if at.ledgerStore != nil {
		return at.ledgerStore, nil
	}
	if err := at.there(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	s, err := store.Open(bounded, at.store)
	if err != nil {
		return nil, storeError(err)
	}
	p.later(s.Close)
	at.opened, at.ledgerStore = s, s.Ledger
	return at.ledgerStore, nil
}

// storeError is the failure of a store that cannot be opened or used.
func storeError(err error) error {
	switch {
	case errors.Is(err, store.ErrOptions):
		return misuse("%s", err)
	case errors.Is(err, ledger.ErrConflict), errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrInvalid):
		return negative("%s", err)
	case errors.Is(err, ledger.ErrUnavailable):
		return unanswered("%s", err).withHint("Check that the store is there, and lets this user in: store.url or store.path, and store.dir.")
	}
	return unanswered("%s", err)
}

// migration is the JSON answer of migrate.
type migration struct {
	Driver string `json:"driver"`
	// Steps is the number of migrations that were applied.
	Steps int `json:"steps"`
}

// makePayloadKey creates a payload key in a file, unless it exists. Its id is
// unique, since histories refer to it.
func makePayloadKey(file string) error {
	key, err := store.KeepKey(file, func() (string, error) {
		return payload.NewKey("k" + strings.ToLower(rand.Text()[:10]))
	})
	if err != nil {
		return err
	}
	if _, err := payload.ParseKeys([]string{key}); err != nil {
		return fmt.Errorf("%w: %s: %w", store.ErrOptions, file, err)
	}
	return nil
}

func migrateCommand(p *Program, fs *flag.FlagSet) action {
	grant := fs.Bool("grant", false, "make the database roles of the parts too, with their rights (PostgreSQL; takes CREATEROLE)")
	newKey := fs.String("new-key", "", "make the log's key in `FILE`, where there is none, for the name store.origin")
	newPayloadKey := fs.String("new-payload-key", "", "make a payload key in `FILE`, where there is none, for payload.keys")
	return func(ctx context.Context, _ []string) error {
		settings, err := p.settings()
		if err != nil {
			return err
		}
		if *newPayloadKey != "" {
			if err := makePayloadKey(*newPayloadKey); err != nil {
				return storeError(err)
			}
		}
		if *newKey != "" { // first: ledger.key may refer to it
			if err := store.NewKey(*newKey, settings.Store.Origin); err != nil {
				return storeError(err)
			}
		}
		kept, err := host.Store(settings)
		if err != nil {
			return misuse("%s", err)
		}
		n, err := store.Migrate(ctx, kept)
		if err == nil && *grant {
			err = store.Grant(ctx, kept)
		}
		if err != nil {
			return storeError(err)
		}
		if p.json() {
			return p.document(migration{kept.Driver, n})
		}
		if n == 0 {
			p.printf("%s: nothing to do\n", kept.Driver)
			return nil
		}
		p.printf("%s: %s\n", kept.Driver, plural(n, "step"))
		return nil
	}
}

// openLedger opens the ledger of the deployment.
func (p *Program) openLedger(ctx context.Context) (ledger.Store, error) {
	at, err := p.place()
	if err != nil {
		return nil, err
	}
	return at.ledger(ctx, p)
}
