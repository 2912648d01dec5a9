package adversary

import (
	"errors"
	"io/fs"
	"log/slog"
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
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// files is the MCP server of the deployment that the role effects starts: examples/mcp-files, by a
// script that is pinned as it is, and that reads settings which nobody has pinned.
const files = "files"

const serveScript = `[ ! -e settings.sh ] || . ./settings.sh
exec ./mcp-files -write "$REPORTS" shown
`

// operations are the tools that the deployment uses, with the classes of their effects.
var operations = []struct {
	server, tool string
	effect       plan.EffectClass
}{{files, "write_file", plan.Committing}, {bank, "pay", plan.Committing}, {vault, "pay", plan.Committing}, {desk, "look", plan.Pure}, {till, "look", plan.Pure}}

// toolbox has the MCP servers of the deployment, and what was said of them.
type toolbox struct {
	*site
	// dir has the program of files, and reports is where that writes.
	dir, reports string
	// imported are the templates of the tools.
	imported *catalog.Catalog
	// offered are all tools of each server.
	offered map[string][]trust.ManifestTool
	// publisher signs the manifests of files and bank, and gone did until it was revoked. That of
	// vault is waived.
	publisher, gone *trust.Key
	// manifests are the files of the manifests, by server.
	manifests map[string]string
}

// newToolbox starts the servers and imports their tools.
func newToolbox(t testing.TB, bank Bank) *toolbox {
	t.Helper()
	b := &toolbox{site: newSite(t, bank), dir: stage.Open(t), reports: stage.Open(t), offered: map[string][]trust.ManifestTool{}, manifests: map[string]string{}}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(b.dir, "mcp-files"), "chimera.ai/engine/examples/mcp-files")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "shown"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "serve.sh"), []byte(serveScript), 0o644))
	require.NoError(t, os.Chmod(b.dir, 0o755))
	b.publisher, _, err = trust.NewKey()
	require.NoError(t, err)
	b.gone, _, err = trust.NewKey()
	require.NoError(t, err)
	pool := mcp.NewPool(b.servers(t), mcp.Options{Logger: slog.New(slog.DiscardHandler)})
	defer func() { require.NoError(t, pool.Close()) }()
	var entries []catalog.Entry
	for _, op := range operations {
		said, err := pool.Introduction(t.Context(), op.server)
		require.NoError(t, err)
		words, err := fingerprint.Instructions(said.Instructions)
		require.NoError(t, err)
		tools, err := pool.Tools(t.Context(), op.server)
		require.NoError(t, err)
		for _, tool := range tools {
			print, err := fingerprint.Tool(tool.Raw)
			require.NoError(t, err)
			b.offered[op.server] = append(b.offered[op.server], trust.ManifestTool{Name: tool.Name, Fingerprint: print.Digest, Effect: op.effect})
			if tool.Name != op.tool {
				continue
			}
			of := catalog.Template{
				ProviderType: plan.MCP, Provider: op.server, Operation: op.tool, Mode: plan.Deter, Effect: op.effect, TimeoutMS: 60_000, Definition: tool.Raw,
				Retry:     plan.Retry{MaxAttempts: 1, InitialMS: catalog.DefaultInitialMS, MultiplierMilli: catalog.DefaultMultiplierMilli, MaxMS: catalog.DefaultMaxMS},
				Endpoints: []string{said.Endpoint}, Instructions: words, Trust: plan.AllowAuto,
			}
			entries = append(entries, entryOf(t, &of, plan.AllowAuto))
		}
		slices.SortFunc(b.offered[op.server], func(x, y trust.ManifestTool) int { return strings.Compare(x.Name, y.Name) })
	}
	b.imported = parsed(t, entries)
	return b
}

// entryOf is a template as a catalog file has it.
func entryOf(t testing.TB, of *catalog.Template, status plan.Trust) catalog.Entry {
	t.Helper()
	facts, err := of.Facts()
	require.NoError(t, err)
	return catalog.Entry{Operation: of.Name(), Definition: of.Definition, Status: status, Facts: facts}
}

// parsed is the catalog with entries.
func parsed(t testing.TB, entries []catalog.Entry) *catalog.Catalog {
	t.Helper()
	text, err := catalog.Write(entries)
	require.NoError(t, err)
	all, ds := compiler.ParseCatalog(compiler.Source{Name: "tools.yaml", Text: text})
	require.False(t, ds.HasErrors(), "%v", ds)
	return all
}

// template is the one of a server's tool.
func (b *toolbox) template(server string) *catalog.Template {
	i := slices.IndexFunc(b.imported.Templates, func(x catalog.Template) bool { return x.Provider == server })
	return &b.imported.Templates[i]
}

// servers are those of the configuration.
func (b *toolbox) servers(t testing.TB) map[string]mcp.Server {
	t.Helper()
	own := mcp.Server{
		Command: "sh", Args: []string{"serve.sh"}, User: stage.ChildUser, Dir: b.dir, Base: b.dir, Env: map[string]string{"REPORTS": b.reports},
		Pin: []string{filepath.Join(b.dir, "serve.sh"), filepath.Join(b.dir, "mcp-files")}, Sessions: mcp.ByRun, MaxSessions: 1,
	}
	return map[string]mcp.Server{files: own, bank: b.server(t, bank), vault: b.server(t, vault), desk: b.server(t, desk), till: b.server(t, till)}
}

// configure adds the servers to the options of a host.
func (b *toolbox) configure(t testing.TB, o *host.Options) {
	t.Helper()
	o.Servers, o.Manifests = b.servers(t), b.manifests
	o.MCP.MaxBackoff = time.Millisecond // sessions that a hostile server has ended are no reason to wait
	for _, name := range []string{files, bank, vault} {
		o.Callers[name] = []host.Role{host.RoleEffects}
	}
	o.Callers[desk], o.Callers[till] = []host.Role{host.RoleTools}, []host.Role{host.RoleTools}
}

// manifest is a manifest of a server by a key, changed as a thief likes.
func (b *toolbox) manifest(t testing.TB, k *trust.Key, server string, change func(*trust.Manifest)) []byte {
	t.Helper()
	m := trust.Manifest{Provider: server, Version: "1.0.0", Issued: ledger.At(time.Now()), Tools: slices.Clone(b.offered[server])}
	if change != nil {
		change(&m)
	}
	var prints []fingerprint.Print
	for _, tool := range m.Tools {
		prints = append(prints, fingerprint.Print{Tool: tool.Name, Digest: tool.Fingerprint})
	}
	var err error
	m.ToolsFingerprint, err = fingerprint.Tools(prints)
	require.NoError(t, err)
	found := verdict.Summary{Suite: verdict.Suite, ServerFingerprint: plan.DigestOf([]byte("where it ran"))}
	for _, id := range verdict.IDs() {
		found.Cases = append(found.Cases, verdict.Case{ID: id, Verdict: verdict.Passed})
	}
	require.NoError(t, m.Conformed(found))
	raw, err := trust.SignManifest(k, m)
	require.NoError(t, err)
	return raw
}

// stateTools registers the tools, and states whose manifests count.
func (d *Deployment) stateTools(t testing.TB, l ledger.Store) {
	t.Helper()
	b := d.tools
	acts := []trust.Act{
		&trust.AddPublisher{ID: "max", Person: "max", Key: b.publisher.Public(), Uses: []string{trust.UseManifests}, Providers: []string{bank, files}},
		&trust.AddPublisher{ID: "mia", Person: "mia", Key: b.gone.Public(), Uses: []string{trust.UseManifests}, Providers: []string{bank, files}},
		&trust.WaiveManifest{Provider: vault, Reason: "it is ours"},
	}
	for _, name := range []string{files, bank} {
		raw := b.manifest(t, b.publisher, name, nil)
		_, digest, err := trust.ReadManifest(raw)
		require.NoError(t, err)
		b.manifests[name] = filepath.Join(d.dir, name+".manifest")
		require.NoError(t, os.WriteFile(b.manifests[name], raw, 0o600))
		acts = append(acts, &trust.AcceptManifest{Provider: name, Version: "1.0.0", Digest: digest})
	}
	d.State(t, l, acts...)
	d.State(t, l, &trust.RevokePublisher{ID: "mia"})
	s, err := trust.Read(t.Context(), l, d.Root)
	require.NoError(t, err)
	for i := range b.imported.Templates {
		require.NoError(t, registry.Register(t.Context(), l, s, &b.imported.Templates[i]))
	}
}

// got counts the calls that a server of the deployment got with a line.
func (b *toolbox) got(t testing.TB, server, line string) int {
	t.Helper()
	if server != files {
		return b.calls[server].of(line)
	}
	_, err := os.Stat(filepath.Join(b.reports, line))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	require.NoError(t, err)
	return 1
}
