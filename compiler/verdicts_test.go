package compiler

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// The verdicts of the compiler are recorded as data, so that a change of its
// structure shows what it changes for users. The code, severity, range, node, edge
// and witness of a finding count; order, wording and suggestions may differ.

// verdicts are the findings as lines, sorted, with the digest of the plan.
func verdicts(t *testing.T, p *plan.Plan, ds diag.Diagnostics) []string {
	t.Helper()
	lines := make([]string, 0, len(ds)+1)
	for _, d := range ds {
		at := d.Subject
		lines = append(lines, fmt.Sprintf("%s %s %d:%d-%d:%d node=%q edge=%q witness=%q",
			d.Code, cmp.Or(d.Severity, diag.Error), at.Start.Line, at.Start.Column, at.End.Line, at.End.Column, d.Node, d.Edge, d.Witness))
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if p != nil {
		lines = append(lines, "plan "+plan.DigestOf(encode(t, p)))
	}
	return lines
}

// digested is a short form of verdicts.
func digested(lines []string) string {
	return fmt.Sprintf("%d %.8x", len(lines), sha256.Sum256([]byte(strings.Join(lines, "\n"))))
}

// TestVerdicts compares what is said of every file in testdata, of the public
// pairs of schemas as edges, of random plans, and of plans at the limits, with
// what was recorded. -soak compares all that was recorded of the random plans
// and pairs, else a part.
func TestVerdicts(t *testing.T) {
	catalog, bundle := testCatalog(t), testPolicy(t)

	t.Run("files", func(t *testing.T) {
		files, err := filepath.Glob("testdata/*/*.yaml")
		require.NoError(t, err)
		var out bytes.Buffer
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			src := Source{Name: file, Text: text}
			var p *plan.Plan
			var ds diag.Diagnostics
			switch filepath.Dir(file) {
			case "testdata/catalogs":
				_, ds = ParseCatalog(src)
			case "testdata/policies":
				_, ds = policy.Parse(src)
			default:
				p, ds = Compile(src, catalog, bundle)
			}
			fmt.Fprintf(&out, "%s\n\t%s\n", file, strings.Join(verdicts(t, p, ds), "\n\t"))
		}
		recorded(t, "testdata/verdicts/files.txt", out.String())
	})

	t.Run("random", func(t *testing.T) {
		n := cases(150)
		if *soak || *update {
			n = 2000
		}
		var lines []string
		for seed := range n {
			c := plangen.Random(uint64(seed), seed%101)
			p, ds := Compile(Source{Name: "random.json", Text: c.Source}, drawnCatalog(t, c), nil)
			lines = append(lines, fmt.Sprintf("%d %s", seed, digested(verdicts(t, p, ds))))
		}
		recorded(t, "testdata/verdicts/random.txt", strings.Join(lines, "\n")+"\n")
	})

	t.Run("large", func(t *testing.T) {
		lengthy.Skip(t)
		costly := bytes.ReplaceAll(plangen.Typed(1500), []byte("${value + 1}"), []byte("${type(output.v) == int && output.v >= 0 && string(output.v) != '' ? output.v + 1 : 0}"))
		var lines []string
		for _, c := range []struct {
			name string
			text []byte
		}{
			{"chain", plangen.Chain(1000)},
			{"layers", plangen.Layered(1000, 32, 1)},
			{"orders", plangen.Orders(1000)},
			{"all different", plangen.Typed(1000)},
			{"some do not fit", faulty(300)},
			{"more errors than are listed", bytes.ReplaceAll(plangen.Typed(1500), []byte("${value + 1}"), []byte("${value + 7}"))},
			{"checks beyond their steps", costly},
			{"proofs beyond their steps", costly},
		} {
			p, ds := typedWith(t, c.text, func(made *compilation) {
				switch c.name {
				case "checks beyond their steps":
					made.prover.Checks = 20_000
				case "proofs beyond their steps":
					made.prover.Proofs = made.prover.Limit - 2_000
				}
			})
			lines = append(lines, c.name+" "+digested(verdicts(t, p, ds)))
		}
		recorded(t, "testdata/verdicts/large.txt", strings.Join(lines, "\n")+"\n")
	})

	t.Run("pairs", func(t *testing.T) {
		raw, err := os.ReadFile("../containment/testdata/pairs.jsonl")
		require.NoError(t, err)
		sc := bufio.NewScanner(bytes.NewReader(raw))
		sc.Buffer(nil, 1<<24)
		var lines []string
		for sc.Scan() && (*soak || *update || len(lines) < cases(400)) {
			var pair struct {
				ID       string
				LHS, RHS json.RawMessage
			}
			require.NoError(t, json.Unmarshal(sc.Bytes(), &pair))
			text := fmt.Sprintf(`{"apiVersion": "chimera/v1", "kind": "Plan", "name": "pair", "version": "1", "agent": "a",
"input_schema": {"type": "object", "properties": {"x": %s}, "required": ["x"]}, "output_schema": {"type": "object"},
"nodes": [{"id": "n", "template": "engine/pass", "input_schema": {"type": "object", "properties": {"y": %s}, "required": ["y"]}, "output_schema": {"type": "object"}}],
"edges": ["$input.x -> n.y"]}`, pair.LHS, pair.RHS)
			p, ds := Compile(Source{Name: pair.ID, Text: []byte(text)}, catalog, nil)
			lines = append(lines, pair.ID+" "+digested(verdicts(t, p, ds)))
		}
		require.NoError(t, sc.Err())
		recorded(t, "testdata/verdicts/pairs.txt", strings.Join(lines, "\n")+"\n")
	})
}

// drawnCatalog is the catalog of a random plan.
func drawnCatalog(t *testing.T, c *plangen.Case) *catalog.Catalog {
	t.Helper()
	own := new(catalog.Catalog)
	for _, op := range c.Operations {
		own.Templates = append(own.Templates, catalog.Template{
			ProviderType: plan.Skill, Provider: plangen.Provider, Operation: op.Name, Mode: plan.Deter, Effect: plan.Pure,
			InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: op.Output, TimeoutMS: 500,
			Trust: plan.AllowAuto, Status: plan.AllowAuto, InProcess: true, TrustedOutput: true,
		})
	}
	all, ds := engineCatalog().Merge(own)
	require.Empty(t, show(ds))
	return all
}

// recorded compares lines with the first of a file.
func recorded(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	gotLines, wantLines := strings.SplitAfter(got, "\n"), strings.SplitAfter(string(want), "\n")
	if strings.HasSuffix(file, "files.txt") {
		require.Len(t, gotLines, len(wantLines))
	}
	for i, line := range gotLines[:len(gotLines)-1] {
		require.Equal(t, wantLines[i], line, "%s:%d; if this is meant: go test ./compiler -run TestVerdicts -update", file, i+1)
	}
}
