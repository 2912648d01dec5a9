package docs

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal"
)

const causalPage = "docs/reference-causal.md"

// TestCausalModels: a block "yaml causal" is a causal model without a finding.
func TestCausalModels(t *testing.T) {
	seen := 0
	for _, doc := range documents(t) {
		for _, b := range blocks(read(t, doc)) {
			if b.info == "yaml causal" {
				seen++
				_, ds := causal.Parse(source(doc, b))
				require.Empty(t, ds, "%s:%d", doc, b.line)
			}
		}
	}
	require.NotZero(t, seen)
}

// TestCausalLimits: the page has the bounds of the package.
func TestCausalLimits(t *testing.T) {
	want := map[string]int64{
		"bytes of a file": causal.MaxFile, "operations": causal.MaxOperations, "variables": causal.MaxVariables,
		"parents of a variable": causal.MaxParents, "categories of a variable": causal.MaxCategories, "bytes of a category's name": causal.MaxCategory,
		"rows of a table": causal.MaxRows, "numbers of an empirical distribution": causal.MaxEmpirical, "KPIs": causal.MaxKPIs, "bytes of all expressions": causal.MaxExpressions,
		"`samples`": causal.MaxSamples, "steps of all samples": causal.MaxWork,
	}
	said := map[string]int64{}
	for _, row := range rows(t, read(t, causalPage), "<!-- limits of causal models -->") {
		n, err := strconv.ParseInt(strings.ReplaceAll(row[1], ",", ""), 10, 64)
		require.NoError(t, err)
		said[row[0]] = n
	}
	require.Equal(t, want, said)
	require.Contains(t, read(t, causalPage), "("+strconv.Itoa(causal.DefaultSamples)+")")
	require.EqualValues(t, 1e100, causal.MaxNumber)
}
