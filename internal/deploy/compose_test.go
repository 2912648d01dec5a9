package deploy

import (
	"bufio"
	"context"
	"io"
	"io/fs"
	"maps"
	"net/url"
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
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const root = "../.."

// needed are the variables without which nothing may start.
var needed = map[string]string{
	"POSTGRES_PASSWORD":          "a-password-of-this-test",
	"CHIMERA_ENGINE_PASSWORD":    "engine-of-this-test",
	"CHIMERA_TOOLS_PASSWORD":     "tools-of-this-test",
	"CHIMERA_GUARDIAN_PASSWORD":  "guardian-of-this-test",
	"CHIMERA_EFFECTS_PASSWORD":   "effects-of-this-test",
	"CHIMERA_APPLIER_PASSWORD":   "applier-of-this-test",
	"CHIMERA_PUBLISHER_PASSWORD": "publisher-of-this-test",
	"CHIMERA_LOG":                "example.com/log",
	"CHIMERA_CONFIG":             "/srv/chimera",
}

// roles are the workers, each a service.
var roles = []string{"effects", "engine", "guardian", "tools"}

// load reads docker-compose.yml as `docker compose` would, with exactly env as
// environment, and more files over it.
func load(t *testing.T, env map[string]string, more ...string) (*types.Project, error) {
	t.Helper()
	var list []string
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	file, err := filepath.Abs(filepath.Join(root, "docker-compose.yml"))
	require.NoError(t, err)
	options, err := cli.NewProjectOptions(append([]string{file}, more...), cli.WithEnv(list))
	require.NoError(t, err)
	return options.LoadProject(context.Background())
}

func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := load(t, needed)
	require.NoError(t, err)
	p, err = p.WithProfiles([]string{"effects"})
	require.NoError(t, err)
	return p
}

func TestServices(t *testing.T) {
	p := project(t)
	require.Equal(t, []string{"chimera-database", "chimera-guardian-key", "chimera-migrate", "effects", "engine", "guardian", "postgresql",
		"temporal", "temporal-namespace", "temporal-schema", "temporal-ui", "tools"}, slices.Sorted(maps.Keys(p.Services)))
	pure, err := load(t, needed)
	require.NoError(t, err)
	require.NotContains(t, pure.Services, "guardian", "what needs a root of trust waits for its profile")
	jobs := []string{"temporal-schema", "temporal-namespace", "chimera-database", "chimera-migrate", "chimera-guardian-key"}
	for name, s := range p.Services {
		require.Equal(t, name == "chimera-guardian-key", len(s.Networks) == 0, name)
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
			require.Equal(t, "chimera-worker:local", s.Image, name)
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
		"postgresql":           {},
		"temporal-schema":      {"postgresql": types.ServiceConditionHealthy},
		"temporal":             {"postgresql": types.ServiceConditionHealthy, "temporal-schema": types.ServiceConditionCompletedSuccessfully},
		"temporal-namespace":   {"temporal": types.ServiceConditionHealthy},
		"temporal-ui":          {"temporal": types.ServiceConditionHealthy},
		"chimera-database":     {"postgresql": types.ServiceConditionHealthy},
		"chimera-migrate":      {"chimera-database": types.ServiceConditionCompletedSuccessfully},
		"chimera-guardian-key": {"chimera-migrate": types.ServiceConditionCompletedSuccessfully},
	}
	for _, role := range roles {
		want[role] = map[string]string{"temporal": types.ServiceConditionHealthy, "temporal-namespace": types.ServiceConditionCompletedSuccessfully,
			"chimera-migrate": types.ServiceConditionCompletedSuccessfully}
	}
	want["guardian"]["chimera-guardian-key"] = types.ServiceConditionCompletedSuccessfully
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

// TestPreviousBuild: a worker of the previous build differs from the worker only in
// its image and in taking no new runs; it runs on demand.
func TestPreviousBuild(t *testing.T) {
	p, err := load(t, needed)
	require.NoError(t, err)
	p, err = p.WithProfiles([]string{"effects", "previous", "previous-effects"})
	require.NoError(t, err)
	for _, role := range roles {
		now, before := p.Services[role], p.Services[role+"-previous"]
		command := slices.Clone(before.Command)
		if role == "engine" {
			command = append(command, "-make-current")
		}
		require.Equal(t, command, now.Command)
		require.Equal(t, "chimera", *now.Environment["CHIMERA_WORKER_DEPLOYMENT"])
		before.Name, before.Profiles, before.Image, before.Build, before.Command = now.Name, now.Profiles, now.Image, now.Build, now.Command
		require.Equal(t, now, before)
	}
}

// TestRolesAreApart: each worker has its own database user, volume and role, and no key of
// another.
func TestRolesAreApart(t *testing.T) {
	p := project(t)
	for _, role := range roles {
		s := p.Services[role]
		require.Equal(t, role, s.Command[slices.Index(s.Command, "-roles")+1])
		require.Contains(t, *s.Environment["CHIMERA_STORE_URL"], " user=chimera_"+role+"_worker ")
		require.Equal(t, needed["CHIMERA_"+strings.ToUpper(role)+"_PASSWORD"], *s.Environment["PGPASSWORD"])
		require.Equal(t, role == "engine", s.Environment["CHIMERA_LEDGER_KEY"] != nil)
		require.Equal(t, role == "guardian", s.Environment["CHIMERA_GUARDIAN_KEY"] != nil)
		for _, v := range s.Volumes {
			require.True(t, v.Source == role || v.Target == "/etc/chimera" || v.Source == "subjects" && v.ReadOnly && role != "tools", "%s has %s", role, v.Source)
		}
		require.Equal(t, role != "tools", s.Environment["CHIMERA_LEDGER_SUBJECTS"] != nil)
	}
}

// TestPeopleAreApart: whoever applies statements, and whoever publishes plans, has a user of the
// database, on demand, and no key of a worker.
func TestPeopleAreApart(t *testing.T) {
	p, err := load(t, needed)
	require.NoError(t, err)
	p, err = p.WithProfiles([]string{"people"})
	require.NoError(t, err)
	for _, role := range []string{"applier", "publisher"} {
		s := p.Services[role]
		require.Equal(t, []string{"people"}, s.Profiles)
		require.Contains(t, *s.Environment["CHIMERA_STORE_URL"], " user=chimera_"+role+"_user ")
		require.Equal(t, needed["CHIMERA_"+strings.ToUpper(role)+"_PASSWORD"], *s.Environment["PGPASSWORD"])
		require.True(t, s.ReadOnly)
		require.Len(t, s.Volumes, 1)
		require.Equal(t, "/etc/chimera", s.Volumes[0].Target)
	}
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
				want := append(slices.Collect(maps.Values(needed)), "${file:/var/lib/chimera/ledger.key}", "${file:/var/lib/chimera/guardian.key}")
				require.Contains(t, want, *value, "%s: %s does not come from the environment", name, key)
			}
		}
	}
}

// TestPayloadsAreSealed with the key that is made with the log's, or with those of
// the environment, while they are rotated.
func TestPayloadsAreSealed(t *testing.T) {
	p := project(t)
	command := strings.Join(p.Services["chimera-migrate"].Command, " ")
	require.Contains(t, command, "--new-payload-key=/var/lib/chimera/engine/payload.key")
	const variable = "CHIMERA_PAYLOAD_KEYS"
	env := maps.Clone(needed)
	env[variable] = "${file:/var/lib/chimera/new.key},${file:/var/lib/chimera/payload.key}"
	other, err := load(t, env)
	require.NoError(t, err)
	other, err = other.WithProfiles([]string{"effects"})
	require.NoError(t, err)
	for _, role := range roles {
		require.Equal(t, "${file:/var/lib/chimera/payload.key}", *p.Services[role].Environment[variable])
		require.Equal(t, env[variable], *other.Services[role].Environment[variable])
		if role != "engine" {
			require.Contains(t, command, "--role-payload-key="+role+"=/var/lib/chimera/"+role+"/payload.key")
		}
	}
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
	require.Equal(t, []string{"chimera-database", "chimera-migrate", "effects", "engine", "guardian", "postgresql", "temporal", "temporal-schema", "tools"}, on("database"))
	require.Equal(t, []string{"effects", "engine", "guardian", "temporal", "temporal-namespace", "temporal-ui", "tools"}, on("temporal"))
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
	require.Equal(t, map[string][]string{
		"postgresql": {"postgresql"}, "engine": {"chimera-migrate", "engine"}, "tools": {"chimera-migrate", "tools"},
		"guardian": {"chimera-guardian-key", "chimera-migrate", "guardian"}, "effects": {"chimera-migrate", "effects"},
		"subjects": {"chimera-migrate", "effects", "engine", "guardian"},
	}, kept)
}

// TestWorkersAreConfined: they start third-party programs. Those that do so for production have the
// capabilities for that, and nobody else has any.
func TestWorkersAreConfined(t *testing.T) {
	for name, s := range project(t).Services {
		starts := name == "tools" || name == "effects"
		require.Equal(t, starts, s.User != "", name)
		require.Equal(t, starts, len(s.CapAdd) > 0, name)
		require.Equal(t, starts, s.Environment["CHIMERA_CHILDREN_USER"] != nil, name)
		if starts {
			require.Equal(t, []string{"SETUID", "SETGID", "KILL"}, []string(s.CapAdd))
			require.Equal(t, "chimera-children", *s.Environment["CHIMERA_CHILDREN_USER"])
			require.Positive(t, s.PidsLimit)
			require.Equal(t, "/", *s.Environment["HOME"], "root's is closed to the worker")
			require.Equal(t, []string{"setpriv", "--reuid=10001", "--regid=10001", "--clear-groups"}, []string(s.Entrypoint)[:4])
			require.Equal(t, "chimera-worker", s.Entrypoint[len(s.Entrypoint)-1])
			require.Equal(t, []string{"CMD", "setpriv", "--reuid=10001", "--regid=10001", "--clear-groups"}, []string(s.HealthCheck.Test)[:5])
		}
	}
	for _, role := range roles {
		w := project(t).Services[role]
		require.True(t, w.ReadOnly)
		require.Equal(t, []string{"ALL"}, []string(w.CapDrop))
		require.NotNil(t, w.Init)
		require.True(t, *w.Init)
		require.NotNil(t, w.StopGracePeriod)
		require.Greater(t, time.Duration(*w.StopGracePeriod), config.Default().Worker.Drain)
	}
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^USER 10001:10001$`, string(dockerfile))
	require.Regexp(t, `(?m)^RUN useradd .* chimera-children$`, string(dockerfile))
	require.Contains(t, string(dockerfile), "CGO_ENABLED=0")
}

// TestWorkersWithoutChildren: the override file of docs/operate.md takes the right to start children away.
func TestWorkersWithoutChildren(t *testing.T) {
	operate, err := os.ReadFile(filepath.Join(root, "docs", "operate.md"))
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(operate), "override file of\nCompose:\n\n```yaml part\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "```")
	file := filepath.Join(t.TempDir(), "override.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	p, err := load(t, needed, file)
	require.NoError(t, err)
	s := p.Services["tools"]
	require.Empty(t, s.CapAdd)
	require.Equal(t, []string{"ALL"}, []string(s.CapDrop))
	require.Equal(t, "10001:10001", s.User)
	require.Equal(t, []string{"chimera-worker"}, []string(s.Entrypoint))
	require.Equal(t, "chimera", s.HealthCheck.Test[1], "it needs no right, either")
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

// TestCommandsExist runs the jobs that prepare the database, and then the worker of each
// role and its health check, without a Temporal server: wrong flags would exit with 2, an
// unreachable server gives 3, and a worker waits for it. Each has its own user of the
// database.
func TestCommandsExist(t *testing.T) {
	lengthy.Skip(t)
	p, err := load(t, needed)
	require.NoError(t, err)
	p, err = p.WithProfiles([]string{"effects", "people"})
	require.NoError(t, err)
	require.Zero(t, os.Getuid(), "this test needs root, as which containers begin: it gives files away, and capabilities up")
	dir, err := os.MkdirTemp("", "deploy")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	cluster, err := pgtest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(cluster.Kill)
	at, err := url.Parse(cluster.URL("postgres"))
	require.NoError(t, err)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.version=local", "-o", dir, "./worker", "./starter")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Rename(filepath.Join(dir, "worker"), filepath.Join(dir, "chimera-worker")))
	require.NoError(t, os.Rename(filepath.Join(dir, "starter"), filepath.Join(dir, "chimera")))
	state := filepath.Join(dir, "state")
	require.NoError(t, os.Mkdir(state, 0o755))
	for _, role := range roles {
		require.NoError(t, os.Mkdir(filepath.Join(state, role), 0o700))
	}
	settings := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("skills: {words: {command: cat, cwd: /, roles: [tools]}}\n"), 0o644))
	// command is that of a service, where its volumes are folders of this machine. What adds capabilities
	// begins as root, with these alone, as in its container.
	command := func(service string, words ...string) *exec.Cmd {
		s := p.Services[service]
		here := func(text string) string {
			for _, v := range s.Volumes {
				from := filepath.Join(state, v.Source)
				if v.Target == "/etc/chimera" {
					from = dir
				}
				text = strings.ReplaceAll(text, v.Target, from)
			}
			return text
		}
		if len(s.CapAdd) > 0 {
			require.Contains(t, s.SecurityOpt, "no-new-privileges:true")
			set := "-all"
			for _, name := range s.CapAdd {
				set += ",+" + strings.ToLower(name)
			}
			words = append([]string{"setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=" + set}, words...)
		}
		cmd := exec.CommandContext(t.Context(), words[0])
		if name := filepath.Join(dir, words[0]); strings.HasPrefix(words[0], "chimera") {
			cmd = exec.CommandContext(t.Context(), name)
		}
		for _, word := range words[1:] {
			cmd.Args = append(cmd.Args, here(word))
		}
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "PATH=" + dir + ":" + os.Getenv("PATH"), "PGPORT=" + at.Port()}
		for key, value := range s.Environment {
			require.NotNil(t, value, key)
			switch key {
			case "TEMPORAL_ADDRESS":
				cmd.Env = append(cmd.Env, key+"=127.0.0.1:1")
			case "CHIMERA_CHILDREN_USER":
				cmd.Env = append(cmd.Env, key+"=nobody") // the other is one of the image
			case "PGHOST":
				cmd.Env = append(cmd.Env, key+"=127.0.0.1")
			case "PGUSER":
				cmd.Env = append(cmd.Env, key+"="+at.User.Username())
			case "CHIMERA_STORE_URL":
				require.Contains(t, *value, "host=postgresql dbname=chimera")
				url := strings.ReplaceAll(*value, "host=postgresql", "host=127.0.0.1 port="+at.Port())
				cmd.Env = append(cmd.Env, key+"="+strings.ReplaceAll(url, "user=temporal", "user="+at.User.Username()))
			default:
				cmd.Env = append(cmd.Env, key+"="+here(*value))
			}
		}
		return cmd
	}
	for range 2 {
		for _, job := range []string{"chimera-database", "chimera-migrate", "chimera-guardian-key"} {
			s := p.Services[job]
			out, err := command(job, append(slices.Clone(s.Entrypoint), s.Command...)...).CombinedOutput()
			require.NoError(t, err, "%s: %s", job, out)
		}
	}
	// worker is the command of a role.
	worker := func(role string, more ...string) *exec.Cmd {
		w := p.Services[role]
		entry := []string{"chimera-worker"}
		if w.Entrypoint != nil {
			entry = slices.Clone(w.Entrypoint)
		}
		return command(role, slices.Concat(entry, more, w.Command)...)
	}
	for _, role := range []string{"tools", "effects"} {
		// In the container, the jobs have that user.
		require.NoError(t, filepath.WalkDir(filepath.Join(state, role), func(path string, _ fs.DirEntry, err error) error {
			require.NoError(t, err)
			return os.Chown(path, 10001, 10001)
		}))
	}
	bare := worker("tools")
	bare.Args = slices.DeleteFunc(bare.Args, func(word string) bool { return strings.HasPrefix(word, "--ambient-caps=") })
	out, err = bare.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "needs the capability CAP_SETUID", "it cannot do without")
	for _, role := range []string{"engine", "tools"} {
		cmd := worker(role)
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
	}
	for _, role := range []string{"guardian", "effects"} {
		out, err := worker(role).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "need a root of trust (trust.bootstrap)", "it got as far as that, with its keys and its database")
	}
	for _, role := range roles {
		w := p.Services[role]
		require.Equal(t, "CMD", w.HealthCheck.Test[0])
		out, err = command(role, w.HealthCheck.Test[1:]...).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s", out)
		require.Equal(t, 3, exit.ExitCode(), "%s: %s", role, out)
		require.Contains(t, string(out), "127.0.0.1:1", "it got as far as the server")
		wrong := worker(role, "-no-such-flag")
		_ = wrong.Run()
		require.Equal(t, 2, wrong.ProcessState.ExitCode(), "and a wrong flag is told apart")
	}
	const plan = `{apiVersion: chimera/v1, kind: Plan, name: idle, version: "1", agent: bot, input_schema: {type: object}, output_schema: {type: object},
  nodes: [{id: a, template: engine/pass, mode: deter, effect_class: pure}], edges: [$input.$ -> a.$, a.$ -> $output.$]}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o600))
	for service, code := range map[string]int{"applier": 3, "publisher": 0} {
		s := p.Services[service]
		publish := command(service, append(slices.Clone(s.Entrypoint), "publish", "plan.yaml")...)
		out, _ := publish.CombinedOutput()
		require.Equal(t, code, publish.ProcessState.ExitCode(), "%s: %s", service, out)
		require.Equal(t, code == 3, strings.Contains(string(out), "chimera_publisher"), "%s", out)
	}
	// The command line agrees with the image.
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), `ENTRYPOINT ["/usr/local/bin/chimera-worker"]`)
	require.Contains(t, string(dockerfile), " /state/keyring")
	for _, role := range roles {
		require.Contains(t, string(dockerfile), " /state/chimera/"+role, "a volume belongs to the image's user where the image has its folder")
	}
}
