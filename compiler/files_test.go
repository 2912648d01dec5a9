package compiler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// engineCatalog is the built-in operations that the tests use.
func engineCatalog() *catalog.Catalog {
	object := json.RawMessage(`{"type":"object"}`)
	skill := func(operation string, input json.RawMessage) catalog.Template {
		return catalog.Template{
			ProviderType: plan.Skill, Provider: catalog.EngineProvider, Operation: operation, Mode: plan.Deter, Effect: plan.Pure,
			InputSchema: input, OutputSchema: object, Trust: plan.AllowAuto, Status: plan.AllowAuto, InProcess: true,
		}
	}
	fail := json.RawMessage(`{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`)
	return &catalog.Catalog{Templates: []catalog.Template{skill("fail", fail), skill("pass", object)}}
}

// testCatalog is the built-in operations and those of testdata/catalog.yaml.
func testCatalog(t testing.TB) *catalog.Catalog {
	t.Helper()
	text, err := os.ReadFile("testdata/catalog.yaml")
	require.NoError(t, err)
	file, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: text})
	require.Empty(t, show(ds))
	cat, ds := engineCatalog().Merge(file)
	require.Empty(t, show(ds))
	return cat
}

// testPolicy is the bundle of testdata/policy.yaml.
func testPolicy(t testing.TB) *policy.Bundle {
	t.Helper()
	text, err := os.ReadFile("testdata/policy.yaml")
	require.NoError(t, err)
	p, ds := policy.Parse(Source{Name: "policy.yaml", Text: text})
	require.Empty(t, show(ds))
	return p
}

// show writes findings one a line.
func show(ds diag.Diagnostics) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "%s:%d:%d-%d:%d %s %s %s\n\t%s\n", d.Subject.File, d.Subject.Start.Line, d.Subject.Start.Column,
			d.Subject.End.Line, d.Subject.End.Column, d.Severity, d.Code, d.Summary, d.Detail)
		if d.Suggestion != "" {
			fmt.Fprintf(&b, "\tsuggestion: %s\n", d.Suggestion)
		}
	}
	return b.String()
}

// expectation is a comment in a test file: `# ERROR code "substring"` or
// `# WARNING …`, optionally followed by `at "text"` (what the subject covers) and
// `suggest "text"`. It is about its own line, or, alone on a line, about the next
// line that holds something else; ERROR+2 means two lines further down.
type expectation struct {
	severity  diag.Severity
	code      diag.Code
	substring string
	at        string
	suggest   string
	line      int
	met       bool
}

var expectationRE = regexp.MustCompile(`#\s*(ERROR|WARNING)(?:\+(\d+))?\s+(\S+)\s+("(?:[^"\\]|\\.)*")(?:\s+at\s+("(?:[^"\\]|\\.)*"))?(?:\s+suggest\s+("(?:[^"\\]|\\.)*"))?\s*$`)

func expectations(t *testing.T, text []byte) []*expectation {
	t.Helper()
	lines := strings.Split(string(text), "\n")
	var out []*expectation
	for i, line := range lines {
		m := expectationRE.FindStringSubmatch(line)
		if m == nil {
			require.NotContains(t, line, "# ERROR", "line %d is no expectation", i+1)
			require.NotContains(t, line, "# WARNING", "line %d is no expectation", i+1)
			continue
		}
		unquote := func(s string) string {
			if s == "" {
				return ""
			}
			u, err := strconv.Unquote(s)
			require.NoError(t, err)
			return u
		}
		e := &expectation{severity: diag.Severity(strings.ToLower(m[1])), code: diag.Code(m[3]), substring: unquote(m[4]), at: unquote(m[5]), suggest: unquote(m[6]), line: i + 1}
		if strings.TrimSpace(line[:strings.Index(line, "#")]) == "" {
			for e.line < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[e.line]), "#") {
				e.line++
			}
			e.line++
			if e.line > len(lines) || strings.TrimSpace(lines[e.line-1]) == "" {
				// Nothing else is there: it is about the file.
				e.line = 1
			}
		}
		if m[2] != "" {
			more, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			e.line += more
		}
		out = append(out, e)
	}
	return out
}

// subject is the text that a range covers.
func subject(text []byte, r diag.Range) string {
	if r.Start.Byte < 0 || r.End.Byte > len(text) || r.Start.Byte > r.End.Byte {
		return "(out of the file)"
	}
	return string(text[r.Start.Byte:r.End.Byte])
}

// compare checks findings against the comments of the file, both ways.
func compare(t *testing.T, text []byte, ds diag.Diagnostics) {
	t.Helper()
	want := expectations(t, text)
	for _, d := range ds {
		i := slices.IndexFunc(want, func(e *expectation) bool {
			return !e.met && e.code == d.Code && e.severity == d.Severity && e.line == d.Subject.Start.Line &&
				strings.Contains(d.Summary+"\n"+d.Detail, e.substring) &&
				(e.at == "" || e.at == subject(text, d.Subject)) && (e.suggest == "" || e.suggest == d.Suggestion)
		})
		if i < 0 {
			t.Errorf("not expected: %ssubject: %q", show(diag.Diagnostics{d}), subject(text, d.Subject))
			continue
		}
		want[i].met = true
	}
	for _, e := range want {
		if !e.met {
			t.Errorf("line %d: expected %s %s %q at %q suggest %q", e.line, e.severity, e.code, e.substring, e.at, e.suggest)
		}
	}
}

// TestFiles compiles every file under testdata and compares what is found with
// the comments in it. Files under testdata/catalogs are catalogs,
// those under testdata/policies policy bundles.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, "testdata/"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.HasPrefix(file, "testdata/catalogs/") {
				_, ds := ParseCatalog(Source{Name: file, Text: text})
				compare(t, text, ds)
				return
			}
			if strings.HasPrefix(file, "testdata/policies/") {
				_, ds := policy.Parse(Source{Name: file, Text: text})
				compare(t, text, ds)
				return
			}
			p, ds := Compile(Source{Name: file, Text: text}, testCatalog(t), testPolicy(t))
			compare(t, text, ds)
			require.Equal(t, ds.HasErrors(), p == nil)
			again, _ := Compile(Source{Name: file, Text: text}, testCatalog(t), testPolicy(t))
			if p == nil {
				require.Nil(t, again)
				return
			}
			require.True(t, bytes.Equal(encode(t, p), encode(t, again)))
		})
	}
}

func encode(t testing.TB, p *plan.Plan) []byte {
	t.Helper()
	b, err := p.Encode()
	require.NoError(t, err)
	return b
}
