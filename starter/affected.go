package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

const (
	// maxAffected bounds the plans that are looked at for what a change affects, and shownAffected
	// those that are shown of each tool.
	maxAffected   = 1000
	shownAffected = 20
)

// findAffected finds the published plans that use tools which have changed, each in the version that
// was published last. Without a store there are none.
func (p *Program) findAffected(ctx context.Context, answers []intakeAnswer) {
	changed := map[string]*importedTool{} // by operation
	for _, a := range answers {
		for _, x := range a.Tools {
			if x.was != nil {
				changed[catalog.OperationName(a.Server, x.Name)] = x
			}
		}
	}
	if len(changed) == 0 {
		return
	}
	if at := p.there(); at != nil {
		left, err := at.affected(ctx, changed)
		if err != nil {
			p.say("which published plans use what has changed is not known: %s", err)
		} else if left > 0 {
			p.say("whether %s what has changed is not known: only %d were looked at", agree(left, "another published plan uses", "other published plans use"), maxAffected)
		}
	}
}

// affected adds to changed tools the published plans that use them, and returns how many plans it did not
// look at. It opens the store for itself, as [place.registered] does.
func (at *place) affected(ctx context.Context, changed map[string]*importedTool) (left int, err error) {
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	opened, err := store.Open(bounded, at.store)
	if err != nil {
		return 0, storeError(err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	names, err := latest(ctx, opened.Ledger)
	if err != nil {
		return 0, err
	}
	looked := names[:min(len(names), maxAffected)]
	return len(names) - len(looked), using(ctx, opened.Ledger, looked, changed)
}

// using adds to changed tools those of some published plans that use them, each in the version that was
// published last.
func using(ctx context.Context, from ledger.Store, names []string, changed map[string]*importedTool) error {
	for _, name := range names {
		row, text, err := sourceOf(ctx, from, name)
		if errors.Is(err, ledger.ErrNotFound) {
			continue // it is not one that can be compiled again
		}
		if err != nil {
			return storeError(err)
		}
		docs, _ := syntax.Parse(row.Name+"@"+row.Version, text, fields.Limits)
		for operation, x := range changed {
			if slices.ContainsFunc(docs, func(d *syntax.Document) bool { return uses(d.Root, operation, x.was.Fingerprint) }) {
				x.Plans = append(x.Plans, row.Name+"@"+row.Version)
			}
		}
	}
	return nil
}

// sourceOf reads a published plan with its source.
func sourceOf(ctx context.Context, from ledger.Store, name string) (row ledger.Plan, text []byte, err error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if row, err = from.Plan(bounded, name); err == nil {
		text, err = from.GetBlob(bounded, row.SourceDigest)
	}
	return row, text, err
}

// uses reports whether a part of a plan names an operation, or pins a fingerprint.
func uses(v *syntax.Value, operation, fingerprint string) bool {
	if v.Kind == syntax.String {
		return v.Text == operation || fingerprint != "" && v.Text == fingerprint
	}
	if provider, name := v.Get("provider_name"), v.Get("operation"); provider != nil && name != nil && catalog.OperationName(provider.Text, name.Text) == operation {
		return true
	}
	return slices.ContainsFunc(v.Items, func(x *syntax.Value) bool { return uses(x, operation, fingerprint) }) ||
		slices.ContainsFunc(v.Fields, func(f syntax.Field) bool { return uses(f.Value, operation, fingerprint) })
}

// sayAffected prints the published plans that a change of a tool affects.
func (p *Program) sayAffected(server string, x *importedTool) {
	if len(x.Plans) == 0 {
		return
	}
	p.say("%s is used by %s: %s", foreign(catalog.OperationName(server, x.Name)), agree(len(x.Plans), "a published plan", "published plans"), foreign(listed(x.Plans)))
}

// listed are the first of some names.
func listed(names []string) string {
	if more := len(names) - shownAffected; more > 0 {
		return strings.Join(names[:shownAffected], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
