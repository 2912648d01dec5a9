// Package wordreport_test keeps the example true: its plan compiles, its
// configuration is read, its input fits, and its catalog says what the programs
// say of themselves.
package wordreport_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/graph"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/skills"
)

func source(t *testing.T, name string) compiler.Source {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return compiler.Source{Name: name, Text: text}
}

func catalogs(t *testing.T) (own, merged *catalog.Catalog) {
	t.Helper()
	own, _, ds, err := host.LoadCatalog("catalog.yaml", "tools.yaml")
	require.NoError(t, err)
	require.Empty(t, ds)
	_, merged, err = host.Catalog(own, nil)
	require.NoError(t, err)
	return own, merged
}

// TestConfiguration: chimera.yaml is read without a finding, names the catalogs
// beside it, and has a program of ../ for each provider of the catalogs.
func TestConfiguration(t *testing.T) {
	c, ds := config.Load("chimera.yaml")
	require.Empty(t, ds)
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(here, "catalog.yaml"), c.CatalogFile)
	require.Equal(t, filepath.Join(here, "tools.yaml"), c.ToolsFile)
	own, _ := catalogs(t)
	used := map[string]bool{}
	for _, template := range own.Templates {
		command := c.Skills[template.Provider].Command
		if template.ProviderType == plan.MCP {
			command = c.MCPServers[template.Provider].Command
		}
		dir, name := filepath.Split(filepath.Clean(command))
		require.Equal(t, filepath.Join(here, "..", "..", "bin")+string(filepath.Separator), dir, template.Provider)
		_, err := os.Stat(filepath.Join("..", name, "main.go"))
		require.NoError(t, err, template.Provider)
		used[template.Provider] = true
	}
	require.Len(t, used, len(c.Skills)+len(c.MCPServers))
}

func compiled(t *testing.T) *plan.Plan {
	t.Helper()
	_, cat := catalogs(t)
	bundle, _, ds, err := host.LoadPolicy([]string{"policy.yaml"})
	require.NoError(t, err)
	require.Empty(t, ds)
	p, ds := compiler.Compile(source(t, "plan.yaml"), cat, bundle)
	require.Empty(t, ds, "%+v", ds)
	return p
}

func TestPlan(t *testing.T) {
	p := compiled(t)
	require.Equal(t, "word-report", p.Name)
	counts := map[string]int{}
	for i := range p.Nodes {
		counts[string(p.Nodes[i].ProviderType)+" "+p.Nodes[i].Provider]++
	}
	require.Equal(t, map[string]int{" ": 2, "mcp files": 9, "skill words": 6, "skill engine": 4}, counts)
}

// TestInput: the input fits, names documents that are there, and an extra one
// that is not, which is the failure that the example shows.
func TestInput(t *testing.T) {
	p := compiled(t)
	schema, err := schemas.Compile(p.Schemas[p.Nodes[0].OutputSchema].Schema)
	require.NoError(t, err)
	raw := source(t, "input.json").Text
	for _, text := range [][]byte{raw, source(t, "needs-page.json").Text} {
		_, err = schema.ValidateJSON(text)
		require.NoError(t, err)
	}
	var input struct {
		Documents map[string]string
		Extra     string
	}
	require.NoError(t, json.Unmarshal(raw, &input))
	for _, path := range input.Documents {
		_, err := os.Stat(filepath.Join("..", "..", path))
		require.NoError(t, err)
	}
	_, err = os.Stat(filepath.Join("..", "..", input.Extra))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// programs is a folder for the example's programs and for chimera, which is starter there.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "word-report-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// build makes the programs, once.
var build = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("go", "build", "-o", programs+string(filepath.Separator), "../mcp-files", "../word-count", "../../starter").CombinedOutput()
})

// program is one of them.
func program(t *testing.T, name string) string {
	t.Helper()
	out, err := build()
	require.NoError(t, err, "%s", out)
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(programs, name)
}

// TestToolsAreWhatTheServerOffers: tools.yaml has each tool of the server as it is. If the server
// has changed, its tools are imported again; README.md says how.
func TestToolsAreWhatTheServerOffers(t *testing.T) {
	pool := mcp.NewPool(map[string]mcp.Server{
		"files": {Command: program(t, "mcp-files"), Args: []string{"-write", t.TempDir(), filepath.Join("..", "..")}},
	}, mcp.Options{})
	defer func() { require.NoError(t, pool.Close()) }()
	tools, err := pool.Tools(t.Context(), "files")
	require.NoError(t, err)
	own, _ := catalogs(t)
	said := map[string]catalog.Template{}
	for _, template := range own.Templates {
		if template.ProviderType == plan.MCP {
			require.Equal(t, "tools.yaml", template.Range.File)
			said[template.Operation] = template
		}
	}
	require.Len(t, tools, len(said))
	for _, tool := range tools {
		template, ok := said[tool.Name]
		require.True(t, ok, tool.Name)
		changes, err := fingerprint.Compare(template.Definition, tool.Raw)
		require.NoError(t, err)
		require.Empty(t, changes, tool.Name)
		print, err := fingerprint.Tool(tool.Raw)
		require.NoError(t, err)
		require.Equal(t, print.Digest, template.Fingerprint, tool.Name)
	}
}

// TestCatalogIsWhatTheExecutableDoes calls each operation and checks what it
// takes and gives against the catalog.
func TestCatalogIsWhatTheExecutableDoes(t *testing.T) {
	counter := skills.Executable{Command: program(t, "word-count")}
	own, _ := catalogs(t)
	inputs := map[string]string{"count": `{"text":"one two\nthree"}`, "sum": `{"a":1,"b":2}`}
	outputs := map[string]string{"count": `{"words":3,"lines":2}`, "sum": `{"total":3}`}
	calls := 0
	for _, template := range own.Templates {
		if template.Provider != "words" {
			continue
		}
		calls++
		input, err := schemas.Compile(template.InputSchema)
		require.NoError(t, err)
		_, err = input.ValidateJSON([]byte(inputs[template.Operation]))
		require.NoError(t, err)
		got, err := counter.Call(t.Context(), template.Operation, json.RawMessage(inputs[template.Operation]))
		require.NoError(t, err)
		require.JSONEq(t, outputs[template.Operation], string(got))
		output, err := schemas.Compile(template.OutputSchema)
		require.NoError(t, err)
		_, err = output.ValidateJSON(got)
		require.NoError(t, err)
	}
	require.Equal(t, len(inputs), calls)

	_, err := counter.Call(t.Context(), "mean", json.RawMessage(`{}`))
	var failure *contract.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, contract.ToolError, failure.Kind)
	require.Contains(t, failure.Message, "there is no operation")
}

// TestStep: a step of make run takes one line if nothing is said, ends as its command does,
// and shows what that says.
func TestStep(t *testing.T) {
	step := func(command ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "../../tools/step.sh", append([]string{"step 1 of 2"}, command...)...).CombinedOutput()
		return string(out), err
	}
	said, err := step("true")
	require.NoError(t, err)
	require.Regexp(t, `^step 1 of 2 … done in \d+ s\n$`, said)
	said, err = step("sh", "-c", "echo one; echo two >&2")
	require.NoError(t, err)
	require.Regexp(t, `^step 1 of 2 … \none\ntwo\ndone in \d+ s\n$`, said)
	said, err = step("sh", "-c", "echo broken.go:1; exit 3")
	require.Error(t, err)
	require.Equal(t, "step 1 of 2 … \nbroken.go:1\nfailed\n", said)
}

// report is the output of the plan.
type report struct {
	Files                   []string
	Words                   map[string]int
	Total                   int
	Verdict, Saved, Refused string
	Note                    *string
}

// ran is the end of a run, as chimera prints it.
type ran struct {
	Output  report
	Failure contract.Failure
}

// TestRun runs the example as make run does, with the real programs and the repository's
// own documents: as it is, and, unless with -short, with an extra document that is there and a
// threshold that is not reached.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	here, err := os.Getwd()
	require.NoError(t, err)
	temporal, err := devserver.Find(t.Context(), t.Output())
	require.NoError(t, err)
	settings := fmt.Sprintf(`{catalog: %q, tools: %q, policy: [%q], dev: {port: 0, ui_port: 0, temporal: %q},
		mcpServers: {files: {command: %q, args: [-write, %q, %q]}}, skills: {words: {command: %q}}}`,
		filepath.Join(here, "catalog.yaml"), filepath.Join(here, "tools.yaml"), filepath.Join(here, "policy.yaml"), temporal,
		program(t, "mcp-files"), filepath.Join(dir, "reports"), filepath.Join(here, "..", ".."), program(t, "word-count"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chimera.yaml"), []byte(settings), 0o600))
	var said bytes.Buffer
	command := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), program(t, "starter"), append(args, "--format", "json")...)
		cmd.Dir, cmd.Stderr = dir, io.MultiWriter(&said, t.Output())
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		return out
	}
	run := func(id string, change func(input map[string]any), args ...string) (got ran, more *json.Decoder) {
		var input map[string]any
		require.NoError(t, json.Unmarshal(source(t, "input.json").Text, &input))
		change(input)
		raw, err := json.Marshal(input)
		require.NoError(t, err)
		more = json.NewDecoder(bytes.NewReader(command(append([]string{"dev", "--budget", "reporter=10.00 USD/day", "--run", filepath.Join(here, "plan.yaml"),
			"--input", string(raw), "--id", id, "--exit"}, args...)...)))
		require.NoError(t, more.Decode(&got))
		return got, more
	}

	command("simulate", filepath.Join(here, "plan.yaml"), "--input", "@"+filepath.Join(here, "input.json"), "--assume", "sum.total=20000")
	whole, more := run("first", func(map[string]any) {}, "--failing", "@"+filepath.Join(here, "needs-page.json"))
	first := whole.Output
	require.Contains(t, first.Files, "README.md")
	require.Equal(t, words(t, "README.md"), first.Words["readme"])
	require.Zero(t, first.Words["extra"])
	require.Equal(t, first.Words["readme"]+first.Words["architecture"]+first.Words["security"]+first.Words["changelog"], first.Total)
	require.Equal(t, "long: more than 2000 words", first.Verdict)
	require.NotNil(t, first.Note)
	require.Contains(t, *first.Note, "no such file")
	require.Contains(t, first.Refused, "REJECT, policy:markdown-only")
	// The forecast on which the decision rests is compared with what the tool has told.
	require.Contains(t, said.String(), "observed size = 26; predicted 26.52 [23.2303, 29.8097] bytes")
	require.Equal(t, "verdict.md", first.Saved)
	require.Equal(t, first.Verdict, saved(t, dir), "the run that has failed since has restored it")
	var failed ran
	require.NoError(t, more.Decode(&failed))
	require.Equal(t, contract.Failure{
		Kind: contract.Rejected, Node: "save_page", Message: first.Refused, Diagnostics: failed.Failure.Diagnostics, Compensated: []string{"save"}, NotCompensated: []string{},
	}, failed.Failure)

	if testing.Short() {
		return
	}
	whole, _ = run("second", func(input map[string]any) {
		input["extra"] = "docs/operate.md"
		input["threshold"] = 1_000_000
	})
	second := whole.Output
	require.Equal(t, words(t, "docs/operate.md"), second.Words["extra"])
	require.Equal(t, first.Total+second.Words["extra"], second.Total)
	require.Equal(t, "short: 1000000 words or fewer", second.Verdict)
	require.Nil(t, second.Note)
	require.Equal(t, 1, strings.Count(said.String(), "tools      5 of "), "what has not changed is not stated again")
	require.Equal(t, second.Verdict, saved(t, dir))

	var spent struct {
		Budgets []struct{ Posted, Pending struct{ Amount string } }
	}
	require.NoError(t, json.Unmarshal(command("budgets", "show", "reporter"), &spent))
	require.Len(t, spent.Budgets, 1)
	require.Equal(t, "0.15", spent.Budgets[0].Posted.Amount, "three files were written, and three refused")
	require.Equal(t, "0.00", spent.Budgets[0].Pending.Amount)
}

// saved returns what the example has written, which is one file.
func saved(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(dir, "reports"))
	require.NoError(t, err)
	require.Len(t, list, 1)
	raw, err := os.ReadFile(filepath.Join(dir, "reports", "verdict.md"))
	require.NoError(t, err)
	return string(raw)
}

func words(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	require.NoError(t, err)
	return len(strings.Fields(string(text)))
}

var update = flag.Bool("update", false, "write the picture into README.md")

// TestPicture: README.md shows the plan as `chimera graph` draws it.
func TestPicture(t *testing.T) {
	const start, end = "```mermaid\n", "```\n"
	drawn, err := graph.Render(compiled(t), graph.Mermaid)
	require.NoError(t, err)
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), start)
	require.True(t, ok)
	shown, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(before+start+string(drawn)+end+after), 0o644))
		return
	}
	require.Empty(t, cmp.Diff(string(drawn), shown), "go test ./examples/word-report -run Picture -update")
}
