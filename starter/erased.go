package main

import (
	"context"
	"errors"
	"slices"

	"chimera.ai/engine/ledger"
)

// openAbout is the open runs about a person, by workflow id, and a body that was sealed for that person.
type openAbout struct {
	body string
	runs []string
}

// openAbouts finds the open runs about persons who were not erased, by the ids of these persons' keys.
func openAbouts(ctx context.Context, store ledger.Store) (map[string]*openAbout, error) {
	const page = 1000
	found := map[string]*openAbout{}
	var last ledger.Run
	for {
		list, err := store.OpenRuns(ctx, last.Workflow, last.Root, page)
		if err != nil {
			return nil, storeError(err)
		}
		for i := range list {
			body, key, err := sealedFirst(ctx, store, &list[i])
			if err != nil {
				return nil, storeError(err)
			}
			if key == "" {
				continue
			}
			if found[key] == nil {
				found[key] = &openAbout{body: body}
			}
			found[key].runs = append(found[key].runs, list[i].Workflow)
		}
		if len(list) < page {
			break
		}
		last = list[len(list)-1]
	}
	for key, about := range found {
		gone, err := bodyGone(ctx, store, about.body)
		if err != nil {
			return nil, storeError(err)
		}
		if gone {
			delete(found, key)
		}
	}
	return found, nil
}

// erasedAmong lists the runs whose persons have been erased since, sorted.
func erasedAmong(ctx context.Context, store ledger.Store, before map[string]*openAbout) ([]string, error) {
	runs := []string{}
	for _, about := range before {
		gone, err := bodyGone(ctx, store, about.body)
		if err != nil {
			return runs, storeError(err)
		}
		if gone {
			runs = append(runs, about.runs...)
		}
	}
	slices.Sort(runs)
	return runs, nil
}

// sealedFirst returns the digest of the body that a run's chain begins with, and the id of the key with
// which it is sealed, "" if it is not.
func sealedFirst(ctx context.Context, store ledger.Store, r *ledger.Run) (body, key string, err error) {
	records, err := store.Chain(ctx, r.Chain(), 0, 1)
	if err != nil || len(records) == 0 {
		return "", "", err
	}
	e, err := ledger.DecodeEntry(records[0].Bytes)
	if err != nil || e.Body == "" {
		return "", "", err
	}
	raw, err := store.Stored(ctx, e.Body)
	if errors.Is(err, ledger.ErrGone) || errors.Is(err, ledger.ErrNotFound) {
		return "", "", nil // it was pruned
	}
	if err != nil {
		return "", "", err
	}
	key, _ = ledger.Sealed(raw)
	return e.Body, key, nil
}

// bodyGone reports whether a stored body can be opened by nobody any more.
func bodyGone(ctx context.Context, store ledger.Store, digest string) (bool, error) {
	_, err := store.Body(ctx, digest)
	switch {
	case errors.Is(err, ledger.ErrGone):
		return true, nil
	case errors.Is(err, ledger.ErrSealed):
		return false, nil // its key is not here
	}
	return false, err
}

// subjectErased reports whether an open run is about a person who was erased: nobody can approve what it
// waits for.
func subjectErased(ctx context.Context, store ledger.Store, workflow string) (bool, error) {
	r, err := store.Run(ctx, workflow, "")
	if err != nil || r.State != ledger.RunRunning {
		return false, err
	}
	body, key, err := sealedFirst(ctx, store, &r)
	if err != nil || key == "" {
		return false, err
	}
	return bodyGone(ctx, store, body)
}

// erasedSubject says what to do with a run whose subject was erased.
func (p *Program) erasedSubject(workflow string) *failure {
	return negative("the subject of the run %s was erased, so that nobody can approve what it waits for", printable(workflow)).
		withHint("%s ends it.", p.command("cancel", workflow))
}
