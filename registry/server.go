package registry

import (
	"cmp"
	"context"
	"encoding/json"
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
// the server's name, "@", and the digest of all the rest; its version is the number, or "" for 0. Its schema is
// the introduction, or an object with that and where the server was.
func rowOf(s catalog.Server, number uint32) (ledger.Tool, error) {
	invalid := func(err error) (ledger.Tool, error) {
		return ledger.Tool{}, fmt.Errorf("%w: what the server %.200s said of itself: %w", ledger.ErrInvalid, s.Name, err)
	}
	if err := s.Check(); err != nil {
		return invalid(err)
	}
	if !plan.IsDigest(s.Fingerprint) {
		return invalid(errors.New("its fingerprint is none"))
	}
	said, version := map[string]any{"fingerprint": s.Fingerprint}, ""
	schema, err := decoded(s.Initialize)
	said["initialize"] = schema
	if err == nil && (s.Endpoint != "" || s.Place != nil || s.Templates != nil) {
		kept := map[string]any{"endpoint": s.Endpoint, "initialize": schema}
		if kept["place"], err = decoded(s.Place); err == nil {
			kept["resource_templates"], err = decoded(s.Templates)
		}
		delete(said, "initialize") // the one is not taken for the other
		said["kept"], schema = kept, kept
	}
	if err != nil {
		return invalid(err)
	}
	text, err := plan.Canonical(schema)
	if err != nil {
		return invalid(err)
	}
	if number > 0 {
		version = strconv.FormatUint(uint64(number), 10)
		said["version"] = version
	}
	raw, err := plan.Canonical(said)
	if err != nil {
		return invalid(err)
	}
	return ledger.Tool{ToolID: s.Name + "@" + plan.DigestOf(raw), Name: s.Name, Version: version, Schema: text, Fingerprint: s.Fingerprint, Status: string(plan.Block)}, nil
}

// decoded is a value of JSON, nil for none.
func decoded(raw json.RawMessage) (any, error) {
	if raw == nil {
		return nil, nil
	}
	return schemas.Decode(raw)
}

// serverOf is a server of a row, whose schema is how it introduced itself, or that with what was kept of it.
func serverOf(row ledger.Tool, kept bool) (s catalog.Server, err error) {
	s = catalog.Server{Name: row.Name, Fingerprint: row.Fingerprint, Initialize: row.Schema}
	if !kept {
		return s, nil
	}
	v, err := schemas.Decode(row.Schema)
	if err != nil {
		return s, err
	}
	all, _ := v.(map[string]any)
	s.Endpoint, _ = all["endpoint"].(string)
	for name, at := range map[string]*json.RawMessage{"initialize": &s.Initialize, "place": &s.Place, "resource_templates": &s.Templates} {
		if *at = nil; all[name] == nil {
			continue
		}
		if *at, err = plan.Canonical(all[name]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// introduction is what a server said of itself, as a row and with its number.
type introduction struct {
	row    ledger.Tool
	number uint32
	said   catalog.Server
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
	for _, kept := range []bool{false, true} {
		said, err := serverOf(row, kept)
		if err != nil {
			continue
		}
		if want, err := rowOf(said, uint32(number)); err == nil && want.ToolID == row.ToolID && want.Version == row.Version {
			return introduction{row, uint32(number), said}, true
		}
	}
	return i, false
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
		all = append(all, last[name].said)
	}
	return all, nil
}
