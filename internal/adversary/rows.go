package adversary

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// column is one of a table.
type column struct {
	Name, Type string
	// Counted reports that the database gives its values.
	Counted bool
	// Key reports that it is part of the primary key.
	Key bool
}

// table is one of the ledger's tables.
type table struct {
	Name    string
	Columns []column
}

// tables reads which tables there are.
func (d *Deployment) tables(t testing.TB) (all []table) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.Database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	rows, err := conn.Query(t.Context(), `SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attidentity <> '',
			EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey))
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname, a.attnum`)
	require.NoError(t, err)
	for rows.Next() {
		var name string
		var c column
		require.NoError(t, rows.Scan(&name, &c.Name, &c.Type, &c.Counted, &c.Key))
		if n := len(all); n == 0 || all[n-1].Name != name {
			all = append(all, table{Name: name})
		}
		last := &all[len(all)-1]
		last.Columns = append(last.Columns, c)
	}
	require.NoError(t, rows.Err())
	return all
}

// documents reads the values of a column of JSON, the last ones first.
func (d *Deployment) documents(t testing.TB, of, name string) (all []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.Database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	rows, err := conn.Query(t.Context(), fmt.Sprintf("SELECT %s::text FROM %s WHERE %s::text LIKE '{%%' ORDER BY ctid DESC", name, of, name))
	require.NoError(t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

// rowAttacks are those on rows of tables, by a thief with a user of a role, or by the owner.
func (d *Deployment) rowAttacks(t testing.TB, thief Thief, role string, tables []table, random *rand.Rand) (all []*Attack) {
	t.Helper()
	for _, of := range tables {
		add := func(class Class, name string, text string, args ...any) {
			a := &Attack{Thief: thief, Class: class, About: of.Name, Name: name, Role: role, SQL: []Statement{{Text: text, Args: args}}}
			if of.Name == "log_cosignatures" {
				a.Quorum = 1 // for an auditor who asks for them
			}
			if role == "" { // the owner's triggers are the owner's
				a.SQL = slices.Insert(a.SQL, 0, Statement{Text: "ALTER TABLE " + of.Name + " DISABLE TRIGGER USER"})
			}
			all = append(all, a)
		}
		var names, garbage, again []string
		for _, c := range of.Columns {
			if !c.Counted {
				names, garbage, again = append(names, c.Name), append(garbage, c.garbage()), append(again, c.other())
			}
			if c.Counted {
				continue
			}
			changed := c.changed()
			if changed == "" {
				continue
			}
			add(RowChanged, c.Name, fmt.Sprintf("UPDATE %s SET %s = %s WHERE ctid = (SELECT max(ctid) FROM %s)", of.Name, c.Name, changed, of.Name))
			if c.Type != "text" {
				continue
			}
			docs := d.documents(t, of.Name, c.Name)
			if len(docs) > 3 {
				docs = docs[:3]
			}
			for _, doc := range docs {
				if lie, at := bend(random, doc); lie != "" {
					add(RowChanged, c.Name+" at "+at, fmt.Sprintf("UPDATE %s SET %s = $1 WHERE %s = $2", of.Name, c.Name, c.Name), lie, doc)
				}
			}
		}
		if of.Name == "tasks" {
			add(RowChanged, "all executed", "UPDATE tasks SET state = 'executed', doc = 'x' WHERE state = 'signed'")
		}
		columns := strings.Join(names, ", ")
		add(RowAdded, "garbage", fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", of.Name, columns, strings.Join(garbage, ", ")))
		add(RowAdded, "another like one", fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s ORDER BY ctid DESC LIMIT 1", of.Name, columns, strings.Join(again, ", "), of.Name))
		add(RowGone, "one", fmt.Sprintf("DELETE FROM %s WHERE ctid = (SELECT max(ctid) FROM %s)", of.Name, of.Name))
		add(RowGone, "all", "DELETE FROM "+of.Name)
		add(RowGone, "emptied", "TRUNCATE "+of.Name+" CASCADE")
	}
	return all
}

// garbage is a value that says nothing.
func (c column) garbage() string {
	switch c.Type {
	case "bytea":
		return `'\x00'`
	case "boolean":
		return "true"
	case "text":
		return "'garbage'"
	case "timestamp without time zone":
		return "now()"
	}
	return "7"
}

// other is the value of a row beside which a new one fits.
func (c column) other() string {
	switch {
	case !c.Key:
		return c.Name
	case c.Type == "text":
		return c.Name + " || '-x'"
	}
	return c.Name + " + 1000"
}

// changed is another value of the kind of the column's.
func (c column) changed() string {
	switch c.Type {
	case "bytea":
		return fmt.Sprintf("set_byte(%s, length(%s) / 2, 255 - get_byte(%s, length(%s) / 2))", c.Name, c.Name, c.Name, c.Name)
	case "boolean":
		return "NOT " + c.Name
	case "text":
		return c.Name + " || 'x'"
	case "timestamp without time zone":
		return c.Name + " + interval '1 day'"
	}
	return c.Name + " + 1"
}

// bend changes one value of a JSON object at random, and says which.
func bend(random *rand.Rand, doc string) (lie, at string) {
	var v map[string]any
	if err := json.Unmarshal([]byte(doc), &v); err != nil || len(v) == 0 {
		return "", ""
	}
	var leaves []string
	set := map[string]func(){}
	var walk func(path string, v any, put func(any))
	walk = func(path string, v any, put func(any)) {
		leaf := func(lie any) {
			leaves = append(leaves, path)
			set[path] = func() { put(lie) }
		}
		switch v := v.(type) {
		case map[string]any:
			for name, x := range v {
				walk(path+"."+name, x, func(y any) { v[name] = y })
			}
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), x, func(y any) { v[i] = y })
			}
		case string:
			leaf(other(v))
		case float64:
			leaf(v + 1)
		case bool:
			leaf(!v)
		}
	}
	walk("", v, func(any) {})
	if len(leaves) == 0 {
		return "", ""
	}
	slices.Sort(leaves)
	at = leaves[random.IntN(len(leaves))]
	set[at]()
	out, err := json.Marshal(v)
	if err != nil {
		return "", ""
	}
	return string(out), strings.TrimPrefix(at, ".")
}

// other is a text of the same form: digests, instants, amounts and ids stay such.
func other(s string) string {
	for i := len(s) - 1; i >= 0; i-- {
		switch c := s[i]; {
		case c >= '1' && c <= '8':
			return s[:i] + string(c+1) + s[i+1:]
		case c >= 'a' && c <= 'e':
			return s[:i] + string(c+1) + s[i+1:]
		}
	}
	return s + "x"
}
