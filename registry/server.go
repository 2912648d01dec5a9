package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
// is no tool, and that nobody calls, unless it is what was registered of the server last. What was said
// before stays.
func RegisterServer(ctx context.Context, l ledger.Directory, s catalog.Server) error {
	all, err := introductions(ctx, l, s.Name)
	if err != nil {
		return err
	}
	last, ok := all[s.Name]
	row, err := rowOf(s, last.number)
	if ok && err == nil && row.ToolID != last.row.ToolID {
		row, err = rowOf(s, last.number+1)
	}
	if err != nil {
		return err
	}
	return l.RegisterTool(ctx, row)
}

// rowOf is the row of what a server said of itself, with the number of the introductions before it. Its id is
// the server's name, "@", and the digest of all the rest; its version is the number, or "" for 0.
func rowOf(s catalog.Server, number uint32) (ledger.Tool, error) {
	invalid := func(err error) (ledger.Tool, error) {
		return ledger.Tool{}, fmt.Errorf("%w: what the server %.200s said of itself: %w", ledger.ErrInvalid, s.Name, err)
	}
	v, err := schemas.Decode(s.Initialize)
	if err != nil {
		return invalid(err)
	}
	if s.Initialize, err = plan.Canonical(v); err != nil {
		return invalid(err)
	}
	if err := s.Check(); err != nil {
		return invalid(err)
	}
	if !plan.IsDigest(s.Fingerprint) {
		return invalid(errors.New("its fingerprint is none"))
	}
	said, version := map[string]any{"fingerprint": s.Fingerprint, "initialize": v}, ""
	if number > 0 {
		version = strconv.FormatUint(uint64(number), 10)
		said["version"] = version
	}
	raw, err := plan.Canonical(said)
	if err != nil {
		return invalid(err)
	}
	return ledger.Tool{ToolID: s.Name + "@" + plan.DigestOf(raw), Name: s.Name, Version: version, Schema: s.Initialize, Fingerprint: s.Fingerprint, Status: string(plan.Block)}, nil
}

// introduction is what a server said of itself, as a row and with its number.
type introduction struct {
	row    ledger.Tool
	number uint32
}

// compare orders the introductions of one server. Several have the same number if they were registered at
// once: then by when that was, and by their ids.
func (i introduction) compare(other introduction) int {
	return cmp.Or(cmp.Compare(i.number, other.number), i.row.RegisteredAt.Time().Compare(other.row.RegisteredAt.Time()), strings.Compare(i.row.ToolID, other.row.ToolID))
}

// read reads a row, and reports whether it is one that [RegisterServer] writes.
func read(row ledger.Tool) (i introduction, ok bool) {
	number := uint64(0)
	if row.Version != "" {
		var err error
		if number, err = strconv.ParseUint(row.Version, 10, 32); err != nil {
			return i, false
		}
	}
	want, err := rowOf(catalog.Server{Name: row.Name, Fingerprint: row.Fingerprint, Initialize: row.Schema}, uint32(number))
	return introduction{row, uint32(number)}, err == nil && want.ToolID == row.ToolID && want.Version == row.Version
}

// introductions returns what was registered last of each server, or of some, by name.
func introductions(ctx context.Context, l ledger.Directory, names ...string) (map[string]introduction, error) {
	last := map[string]introduction{}
	for offset := 0; ; offset += pageOfTools {
		if offset > maxRows {
			return nil, fmt.Errorf("the registry has more than %d rows", maxRows)
		}
		rows, err := l.ListTools(ctx, ledger.Page{Limit: pageOfTools, Offset: offset})
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return last, nil
		}
		for _, row := range rows {
			if strings.Contains(row.Name, "/") || len(names) > 0 && !slices.Contains(names, row.Name) {
				continue
			}
			if i, ok := read(row); ok {
				if was, there := last[row.Name]; !there || was.compare(i) < 0 {
					last[row.Name] = i
				}
			}
		}
	}
}

// Servers returns what servers said of themselves, by what was registered of each last, sorted by name;
// of all servers if none is named. It passes over rows that no registration writes; nobody has signed any.
func Servers(ctx context.Context, l ledger.Directory, names ...string) ([]catalog.Server, error) {
	last, err := introductions(ctx, l, names...)
	if err != nil {
		return nil, err
	}
	var all []catalog.Server
	for _, name := range slices.Sorted(maps.Keys(last)) {
		row := last[name].row
		all = append(all, catalog.Server{Name: row.Name, Fingerprint: row.Fingerprint, Initialize: row.Schema})
	}
	return all, nil
}
