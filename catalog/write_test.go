package catalog_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// again reads a file that was written.
func again(t require.TestingT, entries ...catalog.Entry) []catalog.Template {
	text, err := catalog.Write(entries)
	require.NoError(t, err)
	c, ds := compiler.ParseCatalog(compiler.Source{Name: "written.yaml", Text: text})
	require.False(t, ds.HasErrors(), "%v\n%s", ds, text)
	require.Len(t, c.Templates, len(entries))
	return c.Templates
}

func entry(t require.TestingT, x *catalog.Template) catalog.Entry {
	facts, err := x.Facts()
	require.NoError(t, err)
	return catalog.Entry{Operation: x.Name(), Definition: x.Definition, Status: x.Status, Facts: facts}
}

const hostile = `{"name":"t","description":"a: b # c\n--- ' \" \u200b\u202e\udb40\udc41\u00ad\ud83d\ude00\u0000\u2028 {x}","inputSchema":{"type":"object","properties":{
	"no":{"const":1.50},"yes":{"enum":[1e3,-0,0.1,100000000000000000000,"1.0","null","~","0x10","2024-01-01","<<","=","true",null,true,""]},"<<":{"description":"*a &b !c"},"":{}}},
	"annotations":{"readOnlyHint":true},"x":[[],{},[{}],""]}`

// TestWriteKeepsDefinitions: a definition in a catalog file keeps its fingerprint, and the template
// its facts.
func TestWriteKeepsDefinitions(t *testing.T) {
	print, err := fingerprint.Tool(json.RawMessage(hostile))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		x := catalog.Template{
			ProviderType: plan.MCP, Provider: "p", Operation: "t", Mode: plan.Deter, Definition: json.RawMessage(hostile), Fingerprint: print.Digest,
			InputSchema:   json.RawMessage(`{"type":"object"}`), // read again, it is the definition's
			Effect:        rapid.SampledFrom([]plan.EffectClass{plan.Pure, plan.Committing, plan.Irreversible}).Draw(t, "effect"),
			Status:        rapid.SampledFrom([]plan.Trust{plan.AllowAuto, plan.ManualReview, plan.Block}).Draw(t, "status"),
			Trust:         rapid.SampledFrom([]plan.Trust{"", plan.AllowAuto, plan.ManualReview}).Draw(t, "trust"),
			TimeoutMS:     rapid.Int64Range(0, 86400000).Draw(t, "timeout"),
			TrustedOutput: flag("trusted"), Endorses: flag("endorses"), EgressAllowed: flag("egress"), OpenWorld: flag("open"),
		}
		if flag("retry") {
			x.Retry = plan.Retry{MaxAttempts: rapid.IntRange(1, 101).Draw(t, "attempts"), InitialMS: 5, MaxMS: 70,
				MultiplierMilli: rapid.Int64Range(1000, 100_000).Draw(t, "multiplier")}
			if flag("on") {
				x.Retry.On = rapid.SampledFrom([][]contract.Kind{{}, {contract.Timeout}, {contract.Timeout, contract.Unsent}}).Draw(t, "kinds")
			}
		}
		if flag("cost") {
			x.Cost = &catalog.Cost{Expr: `"1.50"`, Currency: "USD"}
		}
		if flag("placed") {
			x.Endpoints = []string{"sha256:" + strings.Repeat("0", 64), print.Digest}
			slices.Sort(x.Endpoints)
		}
		if flag("instructed") {
			x.Instructions = print.Digest
		}
		if flag("given") {
			x.Given, x.OutputSchema = true, json.RawMessage(`{"type":"object","maxProperties":7}`)
		}
		if x.Effect.Commits() && flag("commit") {
			x.Commit = &catalog.CommitPolicy{Waived: "x: y"}
			if flag("verify") {
				with, _ := syntax.Parse("v", []byte(`{a: [1.0, "${args.b}"]}`), syntax.Limits{})
				executed, _ := syntax.Parse("v", []byte(`output.n > 1`), syntax.Limits{})
				x.Commit = &catalog.CommitPolicy{Verify: &catalog.Verify{Operation: "p/look", With: with[0].Root, Executed: executed[0].Root}}
			}
		}
		text, err := catalog.Write([]catalog.Entry{entry(t, &x)})
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			require.Equal(t, -1, strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(c rune) bool { return !unicode.IsPrint(c) }), "%q", line)
		}
		back := again(t, entry(t, &x))[0]
		require.Equal(t, x.Fingerprint, back.Fingerprint)
		require.Equal(t, x.Status, back.Status)
		require.Equal(t, x.Endpoints, back.Endpoints)
		require.Equal(t, x.Instructions, back.Instructions)
		x.InputSchema = back.InputSchema
		want, got := entry(t, &x), entry(t, &back)
		require.JSONEq(t, string(want.Facts), string(got.Facts))
	})
}

// TestWritePublicDefinitions has the public definitions, where they are.
func TestWritePublicDefinitions(t *testing.T) {
	raw, err := os.ReadFile("../../shared/data/mcp-tools.json")
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = os.ReadFile("../containment/testdata/tools.json")
	}
	require.NoError(t, err)
	var tools []map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &tools))
	require.NotEmpty(t, tools)
	var entries []catalog.Entry
	var prints []string
	known := map[string]bool{}
	for _, tool := range tools {
		var server, name string
		require.NoError(t, json.Unmarshal(tool["server"], &server))
		require.NoError(t, json.Unmarshal(tool["name"], &name))
		delete(tool, "server")
		operation := strings.NewReplacer("/", "-", "@", "").Replace(server) + "/" + name
		if known[operation] {
			continue
		}
		known[operation] = true
		definition, err := json.Marshal(tool)
		require.NoError(t, err)
		print, err := fingerprint.Tool(definition)
		require.NoError(t, err)
		prints = append(prints, print.Digest)
		entries = append(entries, catalog.Entry{Operation: operation, Definition: definition, Status: plan.ManualReview,
			Facts: json.RawMessage(`{"provider_type":"mcp","mode":"deter","effect_class":"irreversible","open_world":true}`)})
	}
	for i, x := range again(t, entries...) {
		require.Equal(t, prints[i], x.Fingerprint, x.Name())
	}
}
