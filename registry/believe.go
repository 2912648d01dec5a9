package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Unstated is a template that says something else than the admins have stated.
type Unstated struct {
	Template *catalog.Template
	// Field is the field of the template that differs, or "".
	Field string
	Err   error
}

// Believe verifies the statements that a catalog carries, from the bootstrap on, and holds the
// templates against them: all of the file with the statements, and of others those that are called
// only as the admins have stated them. It returns what the statements say, and the templates that
// differ. The error is a [trust.Problem] if the statements do not verify.
//
// A list of statements whose end was cut off verifies, too: what it says was true when the last of
// them was issued.
func Believe(all *catalog.Catalog, b *trust.Bootstrap) (s trust.State, differ []Unstated, err error) {
	size := 0
	statements := make([][]byte, len(all.Statements))
	for i, raw := range all.Statements {
		statements[i] = raw
		size += len(raw)
	}
	if size > ledger.MaxAuthority {
		return s, nil, fmt.Errorf("%w: statements of %d bytes, more than %d", trust.ErrInvalid, size, ledger.MaxAuthority)
	}
	if s, err = trust.Chain(b, statements); err != nil {
		return s, nil, err
	}
	for i := range all.Templates {
		t := &all.Templates[i]
		if t.Range.File != all.StatementsAt.File && !t.Stated() {
			continue
		}
		if field, err := said(s, t); err != nil {
			differ = append(differ, Unstated{t, field, err})
		}
	}
	return s, differ, nil
}

// said returns an error, and the field that it is about, unless the admins have stated just what a
// template says.
func said(s trust.State, t *catalog.Template) (field string, err error) {
	act, err := Act(t)
	if err != nil {
		return "", err
	}
	was, ok := s.Tools[act.ToolID]
	if !ok {
		prefix := t.Name() + "@"
		if t.Fingerprint == "" || !slices.ContainsFunc(slices.Collect(maps.Keys(s.Tools)), func(id string) bool { return strings.HasPrefix(id, prefix) }) {
			return "", fmt.Errorf("%w: no statement of the admins is about %s", trust.ErrInvalid, t.Name())
		}
		field = "fingerprint"
		if t.Definition != nil {
			field = "definition"
		}
		return field, fmt.Errorf("%w: the admins have stated other fingerprints of %s than %s", trust.ErrInvalid, t.Name(), t.Fingerprint)
	}
	if was.Status != act.Status {
		return "status", fmt.Errorf("%w: of %s the catalog says status %s, and the admins have stated %s", trust.ErrInvalid, t.Name(), act.Status, was.Status)
	}
	if was.Status == string(plan.Block) {
		return "", nil // nobody calls it, whatever else is said
	}
	err = s.Stated(act.ToolID, act.Fingerprint, act.Facts, true)
	if d := (*trust.Difference)(nil); errors.As(err, &d) {
		field = catalog.FieldOf(d.Fact)
	}
	return field, err
}
