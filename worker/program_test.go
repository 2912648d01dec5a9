package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envHunter) != "":
		hunter()
	case os.Getenv(envProgram) == openProgram:
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	case os.Getenv(envProgram) != "":
		main()
	}
	stage.Main(m)
}

// buffer is a writer that a test reads while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// drive runs a program to its end.
func drive(args ...string) (code int, out, messages string) {
	var o, e buffer
	code = run(args, &o, &e)
	return code, o.String(), e.String()
}

func TestWrongUse(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	bad := filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("wroker: {}\n"), 0o600))
	secret := filepath.Join(dir, "secret.yaml")
	require.NoError(t, os.WriteFile(secret, []byte("skills: {x: {command: y, env: {A: '${env:CHIMERA_TEST_NOT_SET}'}}}\n"), 0o600))
	broken := filepath.Join(dir, "broken.yaml")
	require.NoError(t, os.WriteFile(broken, []byte("catalog: catalog.yaml\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte("kind: Plan\n"), 0o600))
	unruly := filepath.Join(dir, "unruly.yaml")
	require.NoError(t, os.WriteFile(unruly, []byte("policy: [policy.yaml]\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte("kind: Plan\n"), 0o600))
	dev := filepath.Join(dir, "dev.yaml")
	require.NoError(t, os.WriteFile(dev, []byte("trust: {bootstrap: bootstrap.json, pin: "+devBootstrap(t, filepath.Join(dir, "bootstrap.json"))+"}\n"), 0o600))
	unpinned := filepath.Join(dir, "unpinned.yaml")
	require.NoError(t, os.WriteFile(unpinned, []byte("trust: {bootstrap: bootstrap.json}\n"), 0o600))
	production := filepath.Join(dir, "production.yaml")
	require.NoError(t, os.WriteFile(production, []byte("store: {driver: postgres, url: '${env:HOME}', origin: example.com/log}\n"), 0o600))
	dotted := filepath.Join(dir, "dotted.yaml")
	require.NoError(t, os.WriteFile(dotted, []byte("worker: {deployment: a.b, build: '1'}\n"), 0o600))
	unbuilt := filepath.Join(dir, "unbuilt.yaml")
	require.NoError(t, os.WriteFile(unbuilt, []byte("worker: {deployment: chimera}\n"), 0o600))
	moduleless := filepath.Join(dir, "moduleless.yaml")
	require.NoError(t, os.WriteFile(moduleless, []byte("ledger: {key: 'pkcs11:token=t;object=l'}\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no module":      {[]string{"--config", moduleless}, "ledger.key names no module of its token"},
		"unsealed":       {[]string{"--config", production}, "chimera migrate --new-payload-key FILE makes one"},
		"dev's trust":    {[]string{"--config", dev}, "has the audience dev, which is for chimera dev alone"},
		"no pin":         {[]string{"--config", unpinned}, "trust.pin, the digest that it must have, is not"},
		"flag":           {[]string{"-rolls", "engine"}, "flag provided but not defined: -rolls"},
		"operand":        {[]string{"engine"}, `does not take "engine"`},
		"role":           {[]string{"-roles", "engin"}, "did you mean engine?"},
		"level":          {[]string{"-log-level", "loud"}, "not one of debug, info, warn, error"},
		"format":         {[]string{"-log-format", "xml"}, "not one of text, json"},
		"no file":        {[]string{"--config", "none.yaml"}, "the configuration is not valid"},
		"bad key":        {[]string{"--config", bad}, `there is no key "wroker"`},
		"unset secret":   {[]string{"--config", secret}, "resolving skills.x.env.A: the variable CHIMERA_TEST_NOT_SET is not set"},
		"no deployment":  {[]string{"-make-current"}, "(worker.deployment), and none is named"},
		"bad deployment": {[]string{"--config", dotted}, "has a . or : in its name"},
		"no build":       {[]string{"--config", unbuilt}, "set worker.build"},
		"bad policy":     {[]string{"--config", unruly}, "the catalog or the policy is not valid"},
		"bad catalog":    {[]string{"--config", broken}, "the catalog or the policy is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, messages := drive(c.args...)
			require.Equal(t, exitUsage, code, messages)
			require.Empty(t, out)
			require.Contains(t, messages, c.want)
		})
	}
}

// devBootstrap writes a bootstrap of audience dev, and gives its digest.
func devBootstrap(t *testing.T, file string) string {
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	_, log, err := ledger.NewKey("example.com/log")
	require.NoError(t, err)
	b, err := trust.DevBootstrap("example", "me", key, trust.LogKey{Origin: "example.com/log", Key: log}, time.Now())
	require.NoError(t, err)
	raw, err := b.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	return b.Digest()
}

func TestVersionAndHelp(t *testing.T) {
	code, out, _ := drive("-version")
	require.Zero(t, code)
	require.True(t, strings.HasPrefix(out, "chimera-worker "))
	code, out, _ = drive("-help")
	require.Zero(t, code)
	require.Contains(t, out, "-roles")
}

// TestRolesNeedTheirOwnSecrets: a worker of one role starts without what the other
// needs; here it gets as far as the server.
func TestRolesNeedTheirOwnSecrets(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
temporal: {address: "127.0.0.1:1"}
ledger: {key: '${env:CHIMERA_TEST_LOG}'}
skills: {x: {command: y, env: {A: '${env:CHIMERA_TEST_TOOL}'}}}
`), 0o600))
	secret, _, err := ledger.NewKey("example.com/log")
	require.NoError(t, err)
	for role, c := range map[string]struct{ variable, value, missing string }{
		"engine": {"CHIMERA_TEST_LOG", secret, "ledger.key: the variable CHIMERA_TEST_LOG is not set"},
		"tools":  {"CHIMERA_TEST_TOOL", "a secret", "skills.x.env.A: the variable CHIMERA_TEST_TOOL is not set"},
	} {
		t.Run(role, func(t *testing.T) {
			code, _, messages := drive("-roles", role)
			require.Equal(t, exitUsage, code)
			require.Contains(t, messages, c.missing)
			t.Setenv(c.variable, c.value)
			p, _, ended, stop := waiting(t, "-roles", role)
			stop()
			require.NoError(t, <-ended)
			require.NoError(t, p.Close())
		})
	}
}

// nobody is an address where no server listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// TestAddress: the log names the address that is used, given or not.
func TestAddress(t *testing.T) {
	require.Equal(t, "localhost:7233", address(client.Options{}))
	require.Equal(t, "a:1", address(client.Options{HostPort: "a:1"}))
}

// waiting runs a worker until it says that it waits for Temporal, and gives what it
// says, its end, and what asks for that.
func waiting(t *testing.T, args ...string) (p *Program, log *buffer, ended chan error, stop context.CancelFunc) {
	t.Helper()
	log = new(buffer)
	p = &Program{Stdout: new(buffer), Stderr: log}
	require.NoError(t, p.Parse(args))
	ctx, stop := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stage.Until(t, "the worker waits", func() bool { return strings.Contains(log.String(), "waiting for Temporal") })
	return p, log, ended, stop
}

// TestEndsWhileItWaits: who waits for Temporal ends as asked.
func TestEndsWhileItWaits(t *testing.T) {
	t.Chdir(t.TempDir())
	address := nobody(t)
	t.Setenv("CHIMERA_TEMPORAL_ADDRESS", address)
	p, log, ended, stop := waiting(t)
	require.Contains(t, log.String(), address)
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, p.Close())
	require.Equal(t, 1, strings.Count(log.String(), "waiting for Temporal"))
}

// TestSilentServer: an address that takes connections and says nothing is no answer.
func TestSilentServer(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	t.Setenv("CHIMERA_TEMPORAL_ADDRESS", l.Addr().String())
	p, _, ended, stop := waiting(t)
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, p.Close())
}

// TestWaitsForTemporal: a worker that comes before its server starts with it, and one
// of a namespace that is not there ends.
func TestWaitsForTemporal(t *testing.T) {
	server := stage.Temporal(t)
	for namespace, starts := range map[string]bool{"default": true, "nowhere": false} {
		t.Run(namespace, func(t *testing.T) {
			t.Chdir(t.TempDir())
			address := nobody(t)
			t.Setenv("CHIMERA_TEMPORAL_ADDRESS", address)
			t.Setenv("CHIMERA_TEMPORAL_NAMESPACE", namespace)
			p, log, ended, stop := waiting(t)
			defer stop()
			relay(t, address, server.Address)
			if starts {
				stage.Until(t, "the worker starts", func() bool { return strings.Contains(log.String(), "worker starts") })
				stop()
			}
			err := <-ended
			require.NoError(t, p.Close())
			var missing *serviceerror.NamespaceNotFound
			require.Equal(t, !starts, errors.As(err, &missing), "%v", err)
		})
	}
}

// relay passes connections to an address on to another until the test ends.
func relay(t *testing.T, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
				}()
			}
		}
	}()
}

const hello = `{apiVersion: chimera/v1, kind: Plan, name: hello, version: "1", agent: tester,
  input_schema: {type: object, properties: {x: {type: string}}, required: [x]},
  output_schema: {type: object, properties: {x: {type: string}}, required: [x]},
  nodes: [{id: a, template: engine/pass, input_schema: {type: object, properties: {x: {type: string}}, required: [x]},
    output_schema: {type: object, properties: {x: {type: string}}, required: [x]}}],
  edges: [$input.x -> a.x, a.x -> $output.x]}`

// get is what a worker tells Prometheus.
func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

// TestNoPortForMetrics: an address that is taken is said at once.
func TestNoPortForMetrics(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	t.Setenv("CHIMERA_WORKER_METRICS", l.Addr().String())
	code, _, messages := drive()
	require.Equal(t, exitUsage, code)
	require.Contains(t, messages, "worker.metrics: listen tcp "+l.Addr().String())
}

// TestWorks runs two workers of one role each, has a run done, and ends them in order.
func TestWorks(t *testing.T) {
	server := stage.Temporal(t) // looks for the source tree around the working directory
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("CHIMERA_TEMPORAL_ADDRESS", server.Address)
	t.Setenv("CHIMERA_STORE_DIR", filepath.Join(dir, "store"))
	t.Setenv("CHIMERA_WORKER_METRICS", "127.0.0.1:0")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	var programs []*Program
	var pages []string
	for _, role := range []string{"engine", "tools"} {
		log := new(buffer)
		p := &Program{Stdout: new(buffer), Stderr: log}
		require.NoError(t, p.Parse([]string{"-roles", role, "-log-format", "json"}))
		go func() { ended <- p.Run(ctx) }()
		stage.Until(t, "the worker starts", func() bool { return strings.Contains(log.String(), "worker starts") })
		var line struct {
			Roles []string
			URL   string
		}
		for text := range strings.Lines(log.String()) {
			require.NoError(t, json.Unmarshal([]byte(text), &line), "each line is JSON")
		}
		programs, pages = append(programs, p), append(pages, line.URL)
	}
	run := stage.Start(t, programs[0].host.Client(), hello, `{"x":"y"}`)
	var out struct{ X string }
	waited, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(t, run.Get(waited, &out))
	require.Equal(t, "y", out.X)
	for i, name := range []string{"temporal_workflow_completed_total", "temporal_num_pollers"} {
		stage.Until(t, "a worker counts "+name, func() bool { return strings.Contains(get(t, pages[i]), "\n"+name+"{") })
	}
	stop()
	for range programs {
		require.NoError(t, <-ended)
	}
	for _, p := range programs {
		require.NoError(t, p.Close())
		require.NoError(t, p.Close())
	}
}
