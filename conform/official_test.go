package conform_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/conform"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/mcp"
)

var update = flag.Bool("update", false, "write the tables into docs/conformance.md")

// TestPage: the document has the cases of the suite, and, unless tests are short, what official servers make of it.
func TestPage(t *testing.T) {
	const page = "../docs/conformance.md"
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(raw)
	_, rest, ok := strings.Cut(text, "```yaml examples\n")
	require.True(t, ok)
	block, _, _ := strings.Cut(rest, "```")
	shown, ds := conform.ReadExamples(diag.Source{Name: page, Text: []byte(block)})
	require.Empty(t, ds)
	require.Len(t, shown.Calls, 3)
	tables := map[string]string{"cases": casesTable()}
	if !testing.Short() {
		tables["servers"] = serversTable(t)
	}
	for name, table := range tables {
		begin, end := fmt.Sprintf("<!-- table of %s: go test ./conform -update -->\n", name), "\n<!-- end -->"
		before, rest, ok := strings.Cut(text, begin)
		require.True(t, ok, name)
		have, after, ok := strings.Cut(rest, end)
		require.True(t, ok, name)
		if !*update {
			require.Equal(t, table, have, "go test ./conform -update")
		}
		text = before + begin + table + end + after
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}
}

func casesTable() string {
	var out strings.Builder
	out.WriteString("| case | checks |\n|---|---|")
	for _, c := range conform.Cases() {
		fmt.Fprintf(&out, "\n| `%s` | %s |", c.ID, c.Checks)
	}
	return out.String()
}

// serversTable runs the suite on official servers of the protocol, with the examples in testdata.
func serversTable(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	servers := []struct {
		name string
		args []string
		env  map[string]string
	}{
		{name: "everything", args: []string{"stdio"}},
		{name: "filesystem", args: []string{dir}},
		{name: "memory", env: map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}},
	}
	head, line := "| case |", "|---|"
	rows := map[string]string{}
	notes := ""
	for _, s := range servers {
		program := "mcp-server-" + s.name
		examples, err := os.ReadFile(filepath.Join("testdata", s.name+".yaml"))
		require.NoError(t, err)
		opts := conform.Options{Timeout: bound}
		var ds diag.Diagnostics
		opts.Examples, ds = conform.ReadExamples(diag.Source{Name: s.name, Text: []byte(strings.ReplaceAll(string(examples), "DIR", dir))})
		require.Empty(t, ds)
		report, err := conform.Run(t.Context(), stdio(mcp.Server{Command: npm.Bin(t, program), Args: s.args, Env: s.env}), opts)
		require.NoError(t, err)
		require.NotEmpty(t, report.Hash)
		head, line = head+" server-"+s.name+" |", line+"---|"
		for id, v := range report.Verdicts() {
			rows[id] += fmt.Sprintf(" %s |", v)
		}
		for _, r := range report.Cases {
			if r.Detail != "" {
				tool := ""
				if r.Tool != "" {
					tool = " of `" + r.Tool + "`"
				}
				notes += fmt.Sprintf("\n- server-%s, `%s`%s: %s", s.name, r.ID, tool, strings.ReplaceAll(r.Detail, dir, "DIR"))
			}
		}
	}
	out := head + "\n" + line
	for _, c := range conform.Cases() {
		out += "\n| `" + c.ID + "` |" + rows[c.ID]
	}
	return out + "\n" + notes
}
