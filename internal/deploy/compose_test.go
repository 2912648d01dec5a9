package deploy

import (
	"bufio"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/config"
	"chimera.ai/engine/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const root = "../.."

// needed are the variables without which nothing may start.
var needed = map[string]string{
	"POSTGRES_PASSWORD":         "a-password-of-this-test",
	"CHIMERA_DATABASE_PASSWORD": "another-of-this-test",
	"CHIMERA_LOG":               "example.com/log",
	"CHIMERA_CONFIG":            "/srv/chimera",
}

// load reads docker-compose.yml as `docker compose` would, with exactly env as
// environment.
func load(t *testing.T, env map[string]string) (*types.Project, error) {
	t.Helper()
	var list []string
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	file, err := filepath.Abs(filepath.Join(root, "docker-compose.yml"))
	require.NoError(t, err)
	options, err := cli.NewProjectOptions([]string{file}, cli.WithEnv(list))
	require.NoError(t, err)
	return options.LoadProject(context.Background())
}

func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := load(t, needed)
	require.NoError(t, err)
	return p
}

func TestServices(t *testing.T) {
	p := project(t)
	require.Equal(t, []string{"chimera-database", "chimera-migrate", "postgresql", "temporal", "temporal-namespace", "temporal-schema", "temporal-ui", "worker"},
		slices.Sorted(maps.Keys(p.Services)))
	jobs := []string{"temporal-schema", "temporal-namespace", "chimera-database", "chimera-migrate"}
	for name, s := range p.Services {
		require.NotEmpty(t, s.Networks, name)
		require.Empty(t, s.ContainerName, "%s: a fixed name forbids scaling", name)
		require.Contains(t, s.SecurityOpt, "no-new-privileges:true", name)
		require.False(t, s.Privileged, name)
		require.NotNil(t, s.Logging, "%s: unbounded logs fill the disk", name)
		if slices.Contains(jobs, name) {
			require.Equal(t, "no", s.Restart, name)
			continue
		}
		require.Equal(t, "unless-stopped", s.Restart, name)
		require.NotNil(t, s.HealthCheck, name)
		require.NotEmpty(t, s.HealthCheck.Test, name)
	}
}

// TestPinned: equal files give equal deployments.
func TestPinned(t *testing.T) {
	for name, s := range project(t).Services {
		if s.Build != nil {
			continue
		}
		_, tag, ok := strings.Cut(s.Image, ":")
		require.True(t, ok && regexp.MustCompile(`^\d+\.\d+`).MatchString(tag), "%s: image %s has no exact version", name, s.Image)
	}
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	from := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllSubmatch(dockerfile, -1)
	require.Len(t, from, 2)
	for _, m := range from {
		require.Regexp(t, `^[a-z./]+:\d+\.\d+(\.\d+)?(-[a-z]+)?$`, string(m[1]))
	}
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(gomod)
	require.NotNil(t, language)
	require.True(t, strings.HasPrefix(string(from[0][1]), "golang:"+string(language[1])), "the image builds with the language of go.mod")
}

func TestDependencies(t *testing.T) {
	p := project(t)
	want := map[string]map[string]string{
		"postgresql":         {},
		"temporal-schema":    {"postgresql": types.ServiceConditionHealthy},
		"temporal":           {"postgresql": types.ServiceConditionHealthy, "temporal-schema": types.ServiceConditionCompletedSuccessfully},
		"temporal-namespace": {"temporal": types.ServiceConditionHealthy},
		"temporal-ui":        {"temporal": types.ServiceConditionHealthy},
		"chimera-database":   {"postgresql": types.ServiceConditionHealthy},
		"chimera-migrate":    {"chimera-database": types.ServiceConditionCompletedSuccessfully},
		"worker": {"temporal": types.ServiceConditionHealthy, "temporal-namespace": types.ServiceConditionCompletedSuccessfully,
			"chimera-migrate": types.ServiceConditionCompletedSuccessfully},
	}
	got := map[string]map[string]string{}
	for name, s := range p.Services {
		got[name] = map[string]string{}
		for on, d := range s.DependsOn {
			got[name][on] = d.Condition
			require.True(t, d.Required, "%s on %s", name, on)
		}
	}
	require.Equal(t, want, got)
}

// TestPreviousBuild: the worker of the previous build differs from the worker only in
// its image and in taking no new runs; it runs on demand.
func TestPreviousBuild(t *testing.T) {
	p, err := project(t).WithProfiles([]string{"previous"})
	require.NoError(t, err)
	now, before := p.Services["worker"], p.Services["worker-previous"]
	require.Equal(t, append(slices.Clone(before.Command), "-make-current"), now.Command)
	require.Equal(t, "chimera", *now.Environment["CHIMERA_WORKER_DEPLOYMENT"])
	before.Name, before.Profiles, before.Image, before.Build, before.Command = now.Name, now.Profiles, now.Image, now.Build, now.Command
	require.Equal(t, now, before)
}

// TestNoDefaultPasswords: each needed variable stops the load when it is
// missing or empty, and no secret stands in the file.
func TestNoDefaultPasswords(t *testing.T) {
	for name := range needed {
		for _, empty := range []bool{false, true} {
			env := maps.Clone(needed)
			delete(env, name)
			if empty {
				env[name] = ""
			}
			_, err := load(t, env)
			require.ErrorContains(t, err, name)
		}
	}
	for name, s := range project(t).Services {
		for key, value := range s.Environment {
			if value != nil && regexp.MustCompile(`(?i)(password|_pwd|secret|token|_key)$`).MatchString(key) {
				want := []string{needed["POSTGRES_PASSWORD"], needed["CHIMERA_DATABASE_PASSWORD"], "${file:/var/lib/chimera/ledger.key}"}
				require.Contains(t, want, *value, "%s: %s does not come from the environment", name, key)
			}
		}
	}
}

// TestPayloadsAreSealed with the key that is made with the log's, or with those of
// the environment, while they are rotated.
func TestPayloadsAreSealed(t *testing.T) {
	p := project(t)
	require.Contains(t, strings.Join(p.Services["chimera-migrate"].Command, " "), "--new-payload-key /var/lib/chimera/payload.key")
	const variable = "CHIMERA_PAYLOAD_KEYS"
	require.Equal(t, "${file:/var/lib/chimera/payload.key}", *p.Services["worker"].Environment[variable])
	env := maps.Clone(needed)
	env[variable] = "${file:/var/lib/chimera/new.key},${file:/var/lib/chimera/payload.key}"
	p, err := load(t, env)
	require.NoError(t, err)
	require.Equal(t, env[variable], *p.Services["worker"].Environment[variable])
}

func TestNetworks(t *testing.T) {
	p := project(t)
	require.True(t, p.Networks["database"].Internal)
	on := func(network string) []string {
		var names []string
		for name, s := range p.Services {
			if _, ok := s.Networks[network]; ok {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	require.Equal(t, []string{"chimera-database", "chimera-migrate", "postgresql", "temporal", "temporal-schema", "worker"}, on("database"))
	require.Equal(t, []string{"temporal", "temporal-namespace", "temporal-ui", "worker"}, on("temporal"))
	for name, s := range p.Services {
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s publishes %d beyond this machine", name, port.Target)
		}
	}
	require.Empty(t, p.Services["postgresql"].Ports)
}

func TestVolumes(t *testing.T) {
	p := project(t)
	kept := map[string][]string{}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeVolume {
				require.NotEmpty(t, v.Source, "%s: %s has no name and is lost with its container", name, v.Target)
				require.Contains(t, p.Volumes, v.Source)
				kept[v.Source] = append(kept[v.Source], name)
				slices.Sort(kept[v.Source])
			} else {
				require.True(t, v.ReadOnly, "%s: %s", name, v.Target)
			}
		}
	}
	require.Equal(t, map[string][]string{"postgresql": {"postgresql"}, "store": {"chimera-migrate", "worker"}}, kept)
}

// TestWorkerIsConfined: the worker starts third-party programs.
func TestWorkerIsConfined(t *testing.T) {
	w := project(t).Services["worker"]
	require.True(t, w.ReadOnly)
	require.Equal(t, []string{"ALL"}, []string(w.CapDrop))
	require.NotNil(t, w.Init)
	require.True(t, *w.Init)
	require.NotNil(t, w.StopGracePeriod)
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^USER [1-9]\d*:[1-9]\d*$`, string(dockerfile))
	require.Contains(t, string(dockerfile), "CGO_ENABLED=0")
}

// TestVariablesAreDocumented: docs/operate.md has a row for each variable that
// docker-compose.yml reads, with the default that the file gives, and for none
// that it does not read.
func TestVariablesAreDocumented(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	require.NoError(t, err)
	read := map[string]string{}
	for _, m := range regexp.MustCompile(`\$+\{([A-Z_]+)(?::([-?])((?:[^{}]|\{[^}]*\})*))?\}`).FindAllStringSubmatch(string(file), -1) {
		if strings.HasPrefix(m[0], "$$") {
			continue
		}
		value := "required"
		if m[2] == "-" {
			value = "`" + strings.ReplaceAll(m[3], "$$", "$") + "`"
		}
		if old, ok := read[m[1]]; ok {
			require.Equal(t, old, value, "%s has two defaults", m[1])
		}
		read[m[1]] = value
	}
	for name := range needed {
		require.Equal(t, "required", read[name])
	}
	operate, err := os.ReadFile(filepath.Join(root, "docs", "operate.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(operate), "<!-- variables of docker-compose.yml -->\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n\n")
	said := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(section, -1) {
		said[m[1]] = strings.TrimSpace(m[2])
	}
	require.Equal(t, read, said)
}

// TestCommandsExist runs the commands of the worker's container, including its health
// check, after those that prepare its database, without a Temporal server: wrong flags
// would exit with 2, an unreachable server gives 3, and the worker waits for it.
func TestCommandsExist(t *testing.T) {
	p := project(t)
	w := p.Services["worker"]
	dir, database := t.TempDir(), pgtest.URL(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.version=local", "-o", dir, "./worker", "./starter")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Rename(filepath.Join(dir, "worker"), filepath.Join(dir, "chimera-worker")))
	require.NoError(t, os.Rename(filepath.Join(dir, "starter"), filepath.Join(dir, "chimera")))
	settings := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("{}\n"), 0o600))
	here := func(job types.MappingWithEquals) []string {
		environ := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		for key, value := range job {
			require.NotNil(t, value, key)
			switch key {
			case "TEMPORAL_ADDRESS":
				environ = append(environ, key+"=127.0.0.1:1")
			case "CHIMERA_STORE_URL":
				require.Contains(t, *value, "host=postgresql dbname=chimera")
				environ = append(environ, key+"="+database)
			case "PGPASSWORD": // the test's database has its own
			default:
				environ = append(environ, key+"="+strings.ReplaceAll(*value, "/var/lib/chimera", dir))
			}
		}
		return environ
	}
	m := p.Services["chimera-migrate"]
	require.Equal(t, []string{"chimera"}, []string(m.Entrypoint))
	for range 2 {
		args := slices.Clone(m.Command)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "/var/lib/chimera", dir)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "chimera"), args...)
		cmd.Dir, cmd.Env = dir, here(m.Environment)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	environ := here(w.Environment)
	command := func(name string, args []string) *exec.Cmd {
		args = slices.Clone(args)
		for i := range args {
			if args[i] == "/etc/chimera/chimera.yaml" {
				args[i] = settings
			}
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...)
		cmd.Dir, cmd.Env = dir, environ
		return cmd
	}
	cmd := command("chimera-worker", w.Command)
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, got := "", bufio.NewScanner(log)
	for !strings.Contains(said, "127.0.0.1:1") && got.Scan() {
		said += got.Text() + "\n"
	}
	require.Contains(t, said, "127.0.0.1:1", "it got as far as the server")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_, err = io.Copy(io.Discard, log)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.Equal(t, "CMD", w.HealthCheck.Test[0])
	out, err = command(w.HealthCheck.Test[1], w.HealthCheck.Test[2:]).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Equal(t, 3, exit.ExitCode())
	require.Contains(t, string(out), "127.0.0.1:1", "it got as far as the server")
	require.Equal(t, 2, func() int {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "chimera-worker"), append(slices.Clone(w.Command), "-no-such-flag")...)
		cmd.Dir, cmd.Env = dir, environ
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode()
	}(), "and a wrong flag is told apart")
	// The command line agrees with the image and the mount.
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), `ENTRYPOINT ["/usr/local/bin/chimera-worker"]`)
	targets := []string{}
	for _, v := range w.Volumes {
		targets = append(targets, v.Target)
	}
	require.ElementsMatch(t, []string{"/etc/chimera", "/var/lib/chimera"}, targets)
	require.Contains(t, w.Command, "/etc/chimera/chimera.yaml")
	require.Greater(t, time.Duration(*w.StopGracePeriod), config.Default().Worker.Drain)
}
