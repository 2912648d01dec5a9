package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// pageOfTools bounds the rows that are read at once, and maxRows all of them.
const (
	pageOfTools = 200
	maxRows     = 100_000
)

// RegisterServer stores what a server said of itself when it was imported, as a row of the registry that
// is no tool, and that nobody calls: its id is the server's name, "@", and the digest of what it said.
// What was said before stays.
func RegisterServer(ctx context.Context, l ledger.Directory, s catalog.Server) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	v, err := schemas.Decode(s.Initialize)
	if err != nil {
		return fmt.Errorf("what the server %s said of itself: %w", s.Name, err)
	}
	raw, err := plan.Canonical(map[string]any{"fingerprint": s.Fingerprint, "initialize": v})
	if err != nil {
		return fmt.Errorf("what the server %s said of itself: %w", s.Name, err)
	}
	row, err := plan.Canonical(v)
	if err != nil {
		return fmt.Errorf("what the server %s said of itself: %w", s.Name, err)
	}
	return l.RegisterTool(ctx, ledger.Tool{ToolID: s.Name + "@" + plan.DigestOf(raw), Name: s.Name, Schema: row, Fingerprint: s.Fingerprint, Status: string(plan.Block)})
}

// Servers returns what servers said of themselves, by what was registered of each last, sorted by name;
// of all servers if none is named. Nobody has signed it.
func Servers(ctx context.Context, l ledger.Directory, names ...string) ([]catalog.Server, error) {
	last := map[string]ledger.Tool{}
	for offset := 0; ; offset += pageOfTools {
		if offset > maxRows {
			return nil, fmt.Errorf("the registry has more than %d rows", maxRows)
		}
		rows, err := l.ListTools(ctx, ledger.Page{Limit: pageOfTools, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if strings.Contains(row.Name, "/") || !strings.HasPrefix(row.ToolID, row.Name+"@") || len(names) > 0 && !slices.Contains(names, row.Name) {
				continue
			}
			if was, ok := last[row.Name]; !ok || was.RegisteredAt.Time().Before(row.RegisteredAt.Time()) {
				last[row.Name] = row
			}
		}
		if len(rows) == 0 {
			break
		}
	}
	var all []catalog.Server
	for _, row := range last {
		all = append(all, catalog.Server{Name: row.Name, Fingerprint: row.Fingerprint, Initialize: row.Schema})
	}
	slices.SortFunc(all, func(a, b catalog.Server) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
