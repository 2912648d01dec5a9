package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/process"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// hunted is the configuration of a worker whose children look for its secrets.
const hunted = `
temporal: {address: %q}
worker: {drain: 1s, roles: [engine, tools]}
store: {path: state/ledger.db, dir: state/store}
payload: {keys: ['${file:payload.key}']}
catalog: catalog.yaml
%s
skills:
  hunter: {command: %[3]q, cwd: /, env: {WORKER_TEST_HUNT: %[4]q, WORKER_TEST_GAINS: %[5]q}}
  bank: {command: bank, env: {A: '${env:BANK_TOKEN}', B: '${file:bank.secret}'}}
mcpServers:
  hound: {command: %[3]q, args: [serve], cwd: /, env: {WORKER_TEST_HUNT: %[4]q, WORKER_TEST_GAINS: %[5]q}}
`

const huntedCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: hunter, operation: hunt, mode: deter, effect_class: pure, timeout_ms: 120000, retry_policy: {max_retries: 0},
     input_schema: {type: object}, output_schema: {type: object, required: [uid], properties: {uid: {type: integer}}}, trust_requirement: allow_auto, status: allow_auto}
  - {provider_type: mcp, provider_name: hound, operation: hunt, mode: deter, effect_class: pure, timeout_ms: 120000, retry_policy: {max_retries: 0},
     input_schema: {type: object}, output_schema: {type: object, required: [uid], properties: {uid: {type: integer}}}, trust_requirement: allow_auto, status: allow_auto}
`

const huntedPlan = `{apiVersion: chimera/v1, kind: Plan, name: hunted, version: "1", agent: tester,
  input_schema: {type: object}, output_schema: {type: object, required: [executable, server], properties: {executable: {type: object}, server: {type: object}}},
  nodes: [{id: a, template: hunter/hunt}, {id: b, template: hound/hunt, after: a}], edges: [a.$ -> $output.executable, b.$ -> $output.server]}`

// unprivileged is a user that nothing on the machine belongs to.
const unprivileged = 54321

// TestChildrenFindNothing: an executable and an MCP server look for what their worker keeps, in files, in
// its environment, its memory and its descriptors. The same children find it where they run as the worker's
// own user.
func TestChildrenFindNothing(t *testing.T) {
	require.NoError(t, process.CanConfine(), "this test needs root")
	require.Zero(t, os.Getuid(), "this test needs root, which can become the users that it is about")
	everything := []string{"bank", "descriptor", "file", "store", "temporary"}
	for name, c := range map[string]struct {
		// user is the worker's, and apart says that its children have another.
		user  uint32
		apart bool
		// open is set if the worker does not hide.
		open bool
		// found are the kinds of secrets that are found, memory says whether some are in its memory, and
		// files whether its own files can be read.
		found         []string
		memory, files bool
	}{
		"apart from root":               {user: 0, apart: true},
		"apart from a user":             {user: unprivileged, apart: true},
		"apart from one that is open":   {user: unprivileged, apart: true, open: true, found: []string{"descriptor"}},
		"as the same user":              {user: unprivileged, found: []string{"file", "store", "temporary"}, files: true},
		"as the same user that is open": {user: unprivileged, open: true, found: everything, memory: true, files: true},
		"as root":                       {user: 0, found: everything, memory: true, files: true},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "apart from a user" && name != "as the same user that is open" {
				lengthy.Skip(t)
			}
			w := newHunted(t, c.user, c.apart)
			program := "1"
			if c.open {
				program = openProgram
			}
			for _, h := range w.run(t, program) {
				if c.apart {
					require.NotEqual(t, int(c.user), h.UID)
				} else {
					require.Equal(t, int(c.user), h.UID)
				}
				var found []string
				for kind := range h.Found {
					found = append(found, kind)
				}
				require.ElementsMatch(t, c.found, found, "%v", h.Found)
				require.Equal(t, c.memory, slices.Contains(h.Found["bank"], "environment"))
				require.Equal(t, c.memory && !restricted(), slices.Contains(h.Found["bank"], "memory"))
				require.Equal(t, c.memory && !restricted(), h.Traces)
				require.Equal(t, !c.apart, h.Signals)
				require.False(t, h.Dumps && !c.open)
				require.Equal(t, !c.apart, h.Gains)
				require.Equal(t, c.files, len(h.Changed) > 0, "%v", h.Changed)
				for _, file := range []string{"bank.secret", "payload.key", "state/ledger.db"} {
					require.Equal(t, c.files, slices.Contains(h.Opened, filepath.Join(w.dir, file)), "%s, %v", file, h.Opened)
				}
				require.Contains(t, h.Opened, filepath.Join(w.dir, "catalog.yaml"), "it has looked there")
			}
		})
	}
}

// gaining puts a copy of id that has set-user-ID into a folder.
func gaining(t *testing.T, dir string) string {
	t.Helper()
	path, err := exec.LookPath("id")
	require.NoError(t, err)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	file := filepath.Join(dir, "id")
	require.NoError(t, os.WriteFile(file, raw, 0o755))
	require.NoError(t, os.Chmod(file, os.ModeSetuid|0o755))
	return file
}

// restricted reports whether the kernel lets a process trace only what it has started.
func restricted() bool {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return err == nil && strings.TrimSpace(string(scope)) != "0"
}

// secret is one that a hunter knows when it sees it.
func secret(kind string) string { return "planted-" + kind + "-" + rand.Text() }

// huntedWorker is a worker with secrets, before it is started.
type huntedWorker struct {
	user         uint32
	program, dir string
	temporary    string
	key          string
	apart        bool
}

func newHunted(t *testing.T, user uint32, apart bool) *huntedWorker {
	t.Helper()
	place := stage.Open(t)
	require.NoError(t, os.Chmod(place, 0o755))
	w := &huntedWorker{user: user, apart: apart, program: filepath.Join(place, "program"), dir: filepath.Join(place, "etc"), temporary: filepath.Join(place, "tmp")}
	raw, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.program, raw, 0o755))
	w.key, err = payload.NewKey("k1")
	require.NoError(t, err)
	children := ""
	if apart {
		children = "children: {user: " + stage.ChildUser + "}"
	}
	folders := w.dir + ":" + w.temporary
	for file, text := range map[string]string{
		"etc/chimera.yaml": fmt.Sprintf(hunted, stage.Temporal(t).Address, children, w.program, folders, gaining(t, place)), "etc/catalog.yaml": huntedCatalog,
		"etc/payload.key": w.key, "etc/bank.secret": secret("file"), "etc/state/store/x": secret("store"), "tmp/x": secret("temporary"),
	} {
		at := filepath.Join(place, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "catalog.yaml"), 0o644))
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "state/store"), 0o700))
	for _, dir := range []string{w.dir, w.temporary} {
		require.NoError(t, filepath.Walk(dir, func(file string, _ os.FileInfo, err error) error {
			require.NoError(t, err)
			return os.Chown(file, int(user), int(user))
		}))
	}
	return w
}

// run starts the worker, lets its children hunt, and returns what they have found.
func (w *huntedWorker) run(t *testing.T, program string) map[string]haul {
	t.Helper()
	held := filepath.Join(t.TempDir(), "held")
	require.NoError(t, os.WriteFile(held, []byte(secret("descriptor")), 0o600))
	descriptor, err := os.Open(held)
	require.NoError(t, err)
	defer descriptor.Close()
	cmd := exec.Command(w.program)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = w.dir, t.Output(), t.Output(), []*os.File{descriptor}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + w.temporary, "BANK_TOKEN=" + secret("bank"), envProgram + "=" + program}
	if w.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: w.user, Gid: w.user}}
		if w.apart {
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}
		}
	}
	require.NoError(t, cmd.Start())
	defer func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	}()
	keys, err := payload.ParseKeys([]string{w.key})
	require.NoError(t, err)
	c := stage.DialSealed(t, stage.Temporal(t).Address, store.Options{Dir: t.TempDir()}, payload.Sealing{Keys: keys})
	var hauls map[string]haul
	var raw json.RawMessage
	require.NoError(t, stage.Await(t, c, stage.Start(t, c, huntedPlan, `{}`), &raw))
	require.NoError(t, json.Unmarshal(raw, &hauls))
	require.Len(t, hauls, 2)
	return hauls
}

const hostileCatalog = `
  - {provider_type: mcp, provider_name: hound, operation: hunt, mode: deter, effect_class: committing, timeout_ms: 120000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, required: [uid], properties: {uid: {type: integer}}},
     trust_requirement: allow_auto, status: allow_auto, cost: {expr: "0.01", currency: USD}, endpoints: [%q]}
`

const hostilePlan = `{apiVersion: chimera/v1, kind: Plan, name: hostile, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: hunt, template: hound/hunt, commit_policy: {rollback: {none: "what is found is found"}}}],
  edges: [$input.line -> hunt.line, hunt.$ -> $output.$]}`

// TestHostileServerWithEffects: in production, a server that is trusted with effects finds no key, no
// secret of another, and no way to change what its worker does. It is what the admins have looked at, and
// is not called any more once its file is another one.
func TestHostileServerWithEffects(t *testing.T) {
	lengthy.Skip(t)
	place := stage.Open(t)
	require.NoError(t, os.Chmod(place, 0o755))
	program := filepath.Join(place, "program")
	raw, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, raw, 0o755))
	id := gaining(t, place)
	folder := stage.Open(t)
	require.NoError(t, os.Chmod(folder, 0o755))
	server := mcp.Server{Command: program, Args: []string{serves}, Dir: "/", Env: map[string]string{envHunter: folder, envGains: id}, Public: []string{envHunter, envGains}}
	identity, err := server.Endpoint()
	require.NoError(t, err)
	endpoint, err := fingerprint.Endpoint(identity)
	require.NoError(t, err)
	t.Setenv("BANK_TOKEN", secret("bank"))
	p := produceIn(t, folder, pgtest.URL(t), addition{
		catalog: fmt.Sprintf(hostileCatalog, endpoint), effects: ", hound/hunt", rules: "  - {id: hunts, type: hard, operations: [hound/hunt], require: 'true'}\n", plan: hostilePlan, acts: []trust.Act{&trust.WaiveManifest{Provider: "hound", Reason: "it is hostile"}},
		config: fmt.Sprintf("  bank: {command: bank, env: {B: '${file:bank.secret}'}, roles: [effects]}\nmcpServers:\n  hound: {command: %q, args: [%s], cwd: /, env: {%s: %q, %s: %q}, roles: [effects]}\n", program, serves, envHunter, folder, envGains, id),
	})
	require.NoError(t, os.WriteFile(filepath.Join(folder, "effects", "bank.secret"), []byte(secret("file")), 0o600))
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return nil
	}))
	for _, role := range host.Roles() {
		p.spawn(t, role)
	}
	var h haul
	require.NoError(t, p.startOf(t, "hostile@1", "hostile", "x").Get(t.Context(), &h))
	nobody, err := process.FindUser(stage.ChildUser)
	require.NoError(t, err)
	require.Equal(t, int(nobody.UID), h.UID)
	require.Empty(t, h.Found)
	require.Empty(t, h.Changed)
	require.Empty(t, h.Opened, "only modes of files keep it out")
	require.False(t, h.Traces || h.Signals || h.Dumps || h.Gains)

	require.NoError(t, os.Remove(program))
	require.NoError(t, os.WriteFile(program, append(raw, 0), 0o755))
	p.kill(host.RoleEffects) // a server that runs is what it was
	p.spawn(t, host.RoleEffects)
	err = p.startOf(t, "hostile@1", "changed", "x").Get(t.Context(), nil)
	require.ErrorContains(t, err, "drift")
}
