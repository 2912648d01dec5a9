package expr

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// page is docs/expressions.md, and the typing of its examples.
func page(t *testing.T) (string, Typing) {
	t.Helper()
	text, err := os.ReadFile("../docs/expressions.md")
	require.NoError(t, err)
	blocks := fenced(string(text), "json")
	require.Len(t, blocks, 1)
	s, err := schemas.Compile([]byte(blocks[0]))
	require.NoError(t, err)
	return string(text), Typing{Types: Types{nameValue: s}}
}

// fenced lists the blocks of a page that have this info.
func fenced(text, info string) []string {
	var out []string
	for _, part := range strings.Split(text, "\n```"+info+"\n")[1:] {
		body, _, _ := strings.Cut(part, "\n```")
		out = append(out, body)
	}
	return out
}

// example checks an expression of the page.
func example(src string, ty Typing) (source string, result *schemas.Schema, problems []string) {
	tmpl, bad := CompileTemplate("${"+src+"}", Transform)
	for _, b := range bad {
		problems = append(problems, b.Message)
	}
	if tmpl == nil {
		return "", nil, problems
	}
	v, result, found := tmpl.Check(ty)
	for _, p := range found {
		problems = append(problems, p.Message)
	}
	source, _ = v.(string)
	return strings.TrimSuffix(strings.TrimPrefix(source, "${"), "}"), result, problems
}

func TestExamplesOfThePage(t *testing.T) {
	text, ty := page(t)
	for _, block := range fenced(text, "cel") {
		for src := range strings.SplitSeq(block, "\n") {
			_, _, problems := example(src, ty)
			require.Empty(t, problems, src)
		}
	}
	for _, block := range fenced(text, "cel refused") {
		for src := range strings.SplitSeq(block, "\n") {
			_, _, problems := example(src, ty)
			require.NotEmpty(t, problems, src)
		}
	}
	for _, block := range fenced(text, "cel rewritten") {
		for line := range strings.SplitSeq(block, "\n") {
			src, want, ok := strings.Cut(line, "=>")
			require.True(t, ok, line)
			source, _, problems := example(strings.TrimSpace(src), ty)
			require.Empty(t, problems, src)
			require.Equal(t, strings.TrimSpace(want), source)
		}
	}
	require.NotEmpty(t, fenced(text, "cel"))
	require.NotEmpty(t, fenced(text, "cel refused"))
	require.NotEmpty(t, fenced(text, "cel rewritten"))
}

// TestTableOfFunctions: the table has every function of the environment, and is
// right about what is proved, returned and refused.
func TestTableOfFunctions(t *testing.T) {
	text, ty := page(t)
	_, table, ok := strings.Cut(text, "<!-- functions -->\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	all := ""
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(strings.ReplaceAll(row, `\|`, "\x00"), "|")
		require.Len(t, cells, 6, row)
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|")), "`")
		}
		gives, proved, refused := cells[2], cells[3], cells[4]
		all += " " + proved
		_, result, problems := example(proved, ty)
		require.Empty(t, problems, proved)
		r := containment.Prove(result, schemas.Make(schemas.Keywords{Types: []string{gives}}), containment.Options{})
		require.Equal(t, containment.Proved, r.Verdict, "%s gives %s", proved, gives)
		if refused != "" {
			_, _, problems = example(refused, ty)
			require.NotEmpty(t, problems, refused)
		}
	}
	require.Greater(t, len(Functions()), 30)
	for _, name := range Functions() {
		require.Contains(t, all, name+"(", "the table has %s", name)
	}
}
