package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/conform/verdict"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

const filesCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: mcp, provider_name: files, operation: write_file, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {path: {type: string}, text: {type: string}}, required: [path, text]}, output_schema: {type: object, properties: {size: {type: integer}}, required: [size]},
     fingerprint: "FINGERPRINT", trust_requirement: allow_auto, status: allow_auto}
  # A manifest is about tools.
  - {provider_type: mcp, provider_name: files, operation: read_page, mode: deter, effect_class: pure, resource: {uris: ["file:///pages/**"]}, timeout_ms: 60000,
     retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto}
`

const filesPolicy = `{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", unmodelled: [files/write_file],
  rules: [{id: short, type: hard, operations: [files/write_file], require: 'action.inputs.text.size() < 20', message: "a text is short"}]}`

const filesPlan = `{apiVersion: chimera/v1, kind: Plan, name: writes, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {path: {type: string}, text: {type: string}}, required: [path, text]},
  output_schema: {type: object, properties: {size: {type: integer}}, required: [size]},
  nodes: [{id: write, template: files/write_file, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.path -> write.path, $input.text -> write.text, write.size -> $output.size]}`

// filesServer is the example server with its catalog and the tools of its manifest.
type filesServer struct {
	server     mcp.Server
	folder     string
	tools      []trust.ManifestTool
	whole      string
	operations *catalog.Catalog
}

func newFilesServer(t *testing.T) *filesServer {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+string(filepath.Separator), "./examples/mcp-files")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	f := &filesServer{folder: filepath.Join(dir, "reports")}
	require.NoError(t, os.Mkdir(f.folder, 0o700))
	f.server = mcp.Server{Command: filepath.Join(dir, "mcp-files"), Args: []string{"-write", f.folder, dir}}
	pool := mcp.NewPool(map[string]mcp.Server{"files": f.server}, mcp.Options{})
	defer func() { require.NoError(t, pool.Close()) }()
	tools, err := pool.Tools(t.Context(), "files")
	require.NoError(t, err)
	var prints []fingerprint.Print
	written := ""
	for _, tool := range tools {
		p, err := fingerprint.Tool(tool.Raw)
		require.NoError(t, err)
		prints = append(prints, p)
		effect := plan.Pure
		if tool.Name == "write_file" || tool.Name == "restore_file" {
			effect = plan.Committing
		}
		if tool.Name == "write_file" {
			written = p.Digest
		}
		f.tools = append(f.tools, trust.ManifestTool{Name: tool.Name, Fingerprint: p.Digest, Effect: effect})
	}
	slices.SortFunc(f.tools, func(a, b trust.ManifestTool) int { return strings.Compare(a.Name, b.Name) })
	f.whole, err = fingerprint.Tools(prints)
	require.NoError(t, err)
	require.NotEmpty(t, written)
	operations, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(strings.Replace(filesCatalog, "FINGERPRINT", written, 1))})
	require.False(t, ds.HasErrors(), "%v", ds)
	f.operations = operations
	f.pins(t, f.server)
	return f
}

// pins has the tool that writes pin where its server is.
func (f *filesServer) pins(t *testing.T, s mcp.Server) {
	t.Helper()
	identity, err := s.Endpoint()
	require.NoError(t, err)
	digest, err := fingerprint.Endpoint(identity)
	require.NoError(t, err)
	for i := range f.operations.Templates {
		if f.operations.Templates[i].Effect != plan.Pure {
			f.operations.Templates[i].Endpoints = []string{digest}
		}
	}
}

// manifest signs a manifest of the server, with a report of the suite or without.
func (f *filesServer) manifest(t *testing.T, k *trust.Key, version string, report bool) (envelope []byte, accept *trust.AcceptManifest) {
	t.Helper()
	m := trust.Manifest{Provider: "files", Version: version, Issued: ledger.At(time.Now()), Tools: f.tools, ToolsFingerprint: f.whole}
	if report {
		found := verdict.Summary{Suite: verdict.Suite, ServerFingerprint: plan.DigestOf([]byte("where CI ran"))}
		for _, id := range verdict.IDs() {
			found.Cases = append(found.Cases, verdict.Case{ID: id, Verdict: verdict.Passed})
		}
		require.NoError(t, m.Conformed(found))
	}
	envelope, err := trust.SignManifest(k, m)
	require.NoError(t, err)
	_, digest, err := trust.ReadManifest(envelope)
	require.NoError(t, err)
	return envelope, &trust.AcceptManifest{Provider: "files", Version: version, Digest: digest}
}

func publisherOfFiles(k *trust.Key) *trust.AddPublisher {
	return &trust.AddPublisher{ID: "max", Person: "max", Key: k.Public(), Uses: []string{trust.UseManifests}, Providers: []string{"files"}}
}

// TestManifestWhileRuns: a tool of a real server is called as long as the manifest counts.
func TestManifestWhileRuns(t *testing.T) {
	t.Parallel()
	f := newFilesServer(t)
	a := stage.ActWith(t, host.Options{Catalog: f.operations, Policy: stage.Bundle(t, filesPolicy), Servers: map[string]mcp.Server{"files": f.server}})
	key := newKey(t)
	good, accept := f.manifest(t, key, "1.0.0", false)
	a.State(t, publisherOfFiles(key), accept)
	digest := a.Publish(t, filesPlan)
	file := filepath.Join(t.TempDir(), "files.manifest")
	put := func(envelope []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, envelope, 0o600))
	}
	put(good)
	a.Options.Manifests = map[string]string{"files": file}
	a.Again(t)
	ends := func(text string) error {
		return a.Await(t, a.Start(t, text, digest, `{"path":"`+text+`.txt","text":"`+text+`"}`), nil)
	}
	require.NoError(t, ends("one"))
	forged, _ := f.manifest(t, newKey(t), "1.0.0", false)
	put(forged)
	failure := stage.FailureOf(t, ends("forged"))
	require.Equal(t, contract.Blocked, failure.Kind)
	require.Contains(t, failure.Message, "no publisher of manifests has signed it")
	put(good)
	require.NoError(t, ends("two"))
	var written []string
	entries, err := os.ReadDir(f.folder)
	require.NoError(t, err)
	for _, e := range entries {
		written = append(written, e.Name())
	}
	require.Equal(t, []string{"one.txt", "two.txt"}, written)
}

// TestManifestsInProduction: the role effects begins with an MCP server that commits only if there
// is a manifest of it with a report, or the admins have waived that.
func TestManifestsInProduction(t *testing.T) {
	f := newFilesServer(t)
	p := stage.Produce(t, pgtest.URL(t))
	l := p.As(t, p.Applier)
	bundle := stage.Bundle(t, filesPolicy)
	p.Begin(t, l)
	p.Rely(t, l, f.operations, bundle)
	key := newKey(t)
	p.State(t, l, publisherOfFiles(key))
	file := filepath.Join(t.TempDir(), "files.manifest")
	begins := func(want string, role host.Role, manifest []byte) {
		t.Helper()
		o := p.Options(t, role)
		server := stage.Temporal(t)
		o.Client.HostPort, o.Client.Namespace = server.Address, server.Namespace
		confined := f.server
		confined.User = stage.ChildUser
		o.Catalog, o.Policy, o.Servers, o.Callers = f.operations, bundle, map[string]mcp.Server{"files": confined}, map[string][]host.Role{"files": {host.RoleEffects}}
		if manifest != nil {
			require.NoError(t, os.WriteFile(file, manifest, 0o600))
			o.Manifests = map[string]string{"files": file}
		}
		h, err := host.New(t.Context(), o)
		if want == "" {
			require.NoError(t, err)
			require.NoError(t, h.Close())
			return
		}
		require.ErrorContains(t, err, want)
	}
	effects := func(want string, manifest []byte) {
		t.Helper()
		begins(want, host.RoleEffects, manifest)
	}
	effects("files/write_file: not trusted: \"files\" has effects and no manifest (mcpServers), which the admins have not waived (manifest.waive)", nil)
	begins("", host.RoleGuardian, nil)
	bare, accept := f.manifest(t, key, "1.0.0", false)
	p.State(t, l, accept)
	effects("has no report of a conformance suite", bare)
	p.State(t, l, &trust.WaiveManifest{Provider: "files", Reason: "it is ours"})
	effects("", bare)
	whole, accept := f.manifest(t, key, "1.1.0", true)
	p.State(t, l, accept)
	effects("", whole)
	effects("the admins have accepted last", bare)
}

// TestManifestSettings: what the configuration names is what hosts read, of servers of their roles.
func TestManifestSettings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(file, []byte("mcpServers:\n  a: {command: x, manifest: a.manifest, roles: [effects]}\n  b: {command: x, manifest: /b, roles: [tools]}\n  c: {command: x}\n"), 0o600))
	o := settingsOf(t, file, "effects")
	require.Equal(t, map[string]string{"a": filepath.Join(dir, "a.manifest")}, o.Manifests)
}
