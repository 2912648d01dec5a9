package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"chimera.ai/engine/ledger"
)

const (
	toolColumns = "tool_id, name, version, schema, registered_at, fingerprint, status"
	selectTool  = "SELECT " + toolColumns + " FROM mcp_tool_registry"
)

func scanTool(scan func(...any) error) (v ledger.Tool, err error) {
	var at int64
	var schema string
	err = scan(&v.ToolID, &v.Name, &v.Version, &schema, &at, &v.Fingerprint, &v.Status)
	v.Schema, v.RegisteredAt = []byte(schema), instant(at)
	return v, err
}

// about names what is done to tools.
func about(what string, ids []string) string {
	switch len(ids) {
	case 0:
		return what
	case 1:
		return fmt.Sprintf("%s %.200s", what, ids[0])
	}
	return fmt.Sprintf("%s %.200s and %d more", what, ids[0], len(ids)-1)
}

// fewTools refuses more tools at once than stores take.
func fewTools(n int) error {
	if n > ledger.MaxTools {
		return fmt.Errorf("%w: %d tools at once, more than %d", ledger.ErrInvalid, n, ledger.MaxTools)
	}
	return nil
}

// selectTools selects the tools whose ids the argument $1 lists.
func (s *Store) selectTools() string {
	return selectTool + " WHERE tool_id IN (SELECT u.value FROM " + s.d.Each + ") ORDER BY tool_id"
}

// findable are the ids that a database can compare with.
func findable(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return storableText(id) != nil })
}

// bounded scans tools until they are too many bytes: somebody with access to the database may have
// put more there than fits into memory.
func bounded() func(*sql.Rows) (ledger.Tool, error) {
	size := 0
	return func(rows *sql.Rows) (ledger.Tool, error) {
		v, err := scanTool(rows.Scan)
		if size += len(v.ToolID) + len(v.Name) + len(v.Version) + len(v.Schema) + len(v.Fingerprint) + len(v.Status); err == nil && size > ledger.MaxToolBytes {
			err = fmt.Errorf("%w: tools of more than %d bytes", ledger.ErrInvalid, ledger.MaxToolBytes)
		}
		return v, err
	}
}

// tools finds tools by their ids, in a transaction.
func (t *tx) tools(ctx context.Context, ids []string) (map[string]ledger.Tool, error) {
	rows, err := t.rows(ctx, t.selectTools(), t.d.List(findable(ids)))
	if err != nil {
		return nil, err
	}
	all, err := collect(rows, bounded())
	have := map[string]ledger.Tool{}
	for _, v := range all {
		have[v.ToolID] = v
	}
	return have, err
}

// held locks the chain of the tools, and finds those with ids, which a store takes at one time.
func (t *tx) held(ctx context.Context, ids []string) (map[string]ledger.Tool, error) {
	if err := fewTools(len(ids)); err != nil {
		return nil, err
	}
	if err := t.lock(ctx, ledger.ToolsChain); err != nil {
		return nil, err
	}
	return t.tools(ctx, ids)
}

// RegisterTool implements [ledger.Directory].
func (s *Store) RegisterTool(ctx context.Context, tools ...ledger.Tool) error {
	ids := make([]string, len(tools))
	for i := range tools {
		ids[i] = tools[i].ToolID
	}
	return s.do(ctx, about("register tool", ids), func(t *tx) error {
		if len(tools) == 0 {
			return nil
		}
		have, err := t.held(ctx, ids)
		if err != nil {
			return err
		}
		var values []any
		var drafts []ledger.Draft
		for _, v := range tools {
			if !ledger.KnownTrust(v.Status) {
				return fmt.Errorf("%w: %.40q is not a trust state of a tool", ledger.ErrInvalid, v.Status)
			}
			if v.Schema, err = canonical(v.Schema); err != nil {
				return err
			}
			if was, ok := have[v.ToolID]; ok {
				if was.Name != v.Name || was.Version != v.Version || string(was.Schema) != string(v.Schema) || was.Fingerprint != v.Fingerprint {
					return fmt.Errorf("%w: %.200s is there with other content", ledger.ErrConflict, v.ToolID)
				}
				continue
			}
			v.RegisteredAt = t.now
			have[v.ToolID] = v
			values = append(values, v.ToolID, v.Name, v.Version, string(v.Schema), millis(v.RegisteredAt), v.Fingerprint, v.Status)
			data, err := json.Marshal(v)
			if err != nil {
				return err
			}
			drafts = append(drafts, ledger.Draft{Chain: ledger.ToolsChain, Key: key(ledger.ToolRegistered, v.ToolID), Kind: ledger.ToolRegistered, Data: data})
		}
		if _, err := t.insert(ctx, "INSERT INTO mcp_tool_registry ("+toolColumns+") VALUES ", "", 7, values); err != nil || len(drafts) == 0 {
			return err
		}
		_, err = t.append(ctx, drafts...)
		return err
	})
}

// TrustTools implements [ledger.Directory].
func (s *Store) TrustTools(ctx context.Context, status string, ids ...string) error {
	return s.do(ctx, about("set the trust of tool", ids), func(t *tx) error {
		if !ledger.KnownTrust(status) {
			return fmt.Errorf("%w: %.40q is not a trust state of a tool", ledger.ErrInvalid, status)
		}
		if len(ids) == 0 {
			return nil
		}
		have, err := t.held(ctx, ids)
		if err != nil {
			return err
		}
		n, err := t.next(ctx, ledger.ToolsChain)
		if err != nil {
			return err
		}
		var drafts []ledger.Draft
		change := map[string]bool{}
		for _, id := range ids {
			was, ok := have[id]
			switch {
			case !ok:
				return sql.ErrNoRows
			case was.Status == status || change[id]:
				continue
			}
			change[id] = true
			data, err := json.Marshal(ledger.TrustedData{ToolID: id, Status: status})
			if err != nil {
				return err
			}
			key := key(ledger.ToolTrusted, fmt.Sprintf("%s/%d", id, n+int64(len(drafts))))
			drafts = append(drafts, ledger.Draft{Chain: ledger.ToolsChain, Key: key, Kind: ledger.ToolTrusted, Data: data})
		}
		if len(drafts) == 0 {
			return nil
		}
		if _, err := t.exec(ctx, "UPDATE mcp_tool_registry SET status = $1 WHERE tool_id "+t.d.Keys, status, t.d.List(slices.Sorted(maps.Keys(change)))); err != nil {
			return err
		}
		_, err = t.append(ctx, drafts...)
		return err
	})
}

// Tool implements [ledger.Directory].
func (s *Store) Tool(ctx context.Context, id string) (ledger.Tool, error) {
	return scanTool(func(into ...any) error {
		return s.one(ctx, fmt.Sprintf("find tool %.120q", id), selectTool+" WHERE tool_id = $1", []any{id}, into...)
	})
}

// Tools implements [ledger.Directory].
func (s *Store) Tools(ctx context.Context, ids ...string) ([]ledger.Tool, error) {
	const what = "find tools"
	if err := fewTools(len(ids)); err != nil {
		return nil, s.explain(what, err)
	}
	return list(ctx, s, what, s.selectTools(), []any{s.d.List(findable(ids))}, bounded())
}

// ListTools implements [ledger.Directory].
func (s *Store) ListTools(ctx context.Context, page ledger.Page) ([]ledger.Tool, error) {
	limit, offset := limits(page)
	return list(ctx, s, "list tools", selectTool+" ORDER BY tool_id LIMIT $1 OFFSET $2", []any{limit, offset},
		func(rows *sql.Rows) (ledger.Tool, error) { return scanTool(rows.Scan) })
}
