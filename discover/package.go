package discover

import (
	"path"
	"slices"
	"strings"
)

// pkg is a package or image that a command runs.
type pkg struct {
	Unpinned
	pinned bool
}

// FindUnpinned returns the first package or image that a command runs without an exact version, or nil.
func FindUnpinned(command string, args []string) *Unpinned {
	for _, p := range packages(command, args) {
		if !p.pinned {
			return &p.Unpinned
		}
	}
	return nil
}

// packages returns the packages and images that a command runs. What lies on the machine,
// such as a folder, is none.
func packages(command string, args []string) []pkg {
	tool, i := program(command), 0
	for i < len(args) {
		switch {
		case tool == "cmd" && strings.HasPrefix(args[i], "/"):
		case tool == "env" && (strings.HasPrefix(args[i], "-") || strings.Contains(args[i], "=")):
		case tool == "cmd" || tool == "env":
			tool = program(args[i])
		default:
			return run(tool, args, i)
		}
		i++
	}
	return nil
}

// program is the name of a command without folder and extension.
func program(command string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, ext := range []string{".exe", ".cmd", ".bat", ".ps1"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// Options of tools that have a value in the next argument. For container engines it is the
// other way round: these are the options that have none.
var (
	npmValues = []string{"-p", "--package", "-c", "--call", "--cache", "--registry", "--userconfig", "--prefix", "-w", "--workspace", "--node-options", "--shell", "--dir", "-C"}
	uvValues  = []string{
		"--from", "--with", "-w", "--with-editable", "--with-requirements", "-p", "--python", "--index", "--index-url", "-i", "--default-index", "--extra-index-url",
		"-f", "--find-links", "-c", "--constraints", "--constraint", "-b", "--build-constraints", "--overrides", "--override", "--env-file", "--cache-dir",
		"--directory", "--project", "--config-file", "--refresh-package", "-P", "--upgrade-package", "--color", "--index-strategy", "--keyring-provider",
		"--resolution", "--prerelease", "--fork-strategy", "--exclude-newer", "--link-mode", "-C", "--config-setting", "--torch-backend", "--python-platform",
		"--allow-insecure-host", "--no-build-package", "--no-binary-package", "--extra", "--group", "--only-group", "--no-group", "--package", "-m", "--module",
	}
	pipxValues = []string{"--spec", "--index-url", "-i", "--pip-args", "--python"}
	denoValues = []string{"-c", "--config", "--import-map", "--lock", "--cert", "-L", "--log-level", "--location", "--seed", "--env-file"}
	dnxValues  = []string{"--version", "--source", "--add-source", "--configfile", "--framework", "-v", "--verbosity", "-a", "--arch"}
	goValues   = []string{"-C", "-mod", "-modfile", "-tags", "-ldflags", "-exec", "-p", "-o"}

	containerFlags = []string{
		"--interactive", "--tty", "--detach", "--rm", "--init", "--privileged", "--read-only", "--publish-all", "--no-healthcheck", "--oom-kill-disable",
		"--sig-proxy", "--disable-content-trust", "--quiet", "--help", "--no-hosts", "--replace", "--rmi", "--env-host", "--http-proxy", "--no-hostname",
		"--tls-verify", "--use-api-socket",
	}
)

// run returns the packages of a tool whose own arguments begin at index i.
func run(tool string, args []string, i int) []pkg {
	// sub goes on behind the sub-commands of the tool, if they are these.
	sub := func(values []string, names ...string) bool {
		for _, name := range names {
			for i < len(args) && strings.HasPrefix(args[i], "-") {
				if slices.Contains(values, args[i]) {
					i++
				}
				i++
			}
			if i >= len(args) || !slices.Contains(strings.Split(name, "|"), args[i]) {
				return false
			}
			i++
		}
		return true
	}
	start := i
	switch tool {
	case "npm", "pnpm", "yarn", "bun":
		if !sub(npmValues, map[string]string{"npm": "exec|x", "pnpm": "dlx|exec", "yarn": "dlx", "bun": "x"}[tool]) {
			return nil
		}
		return npm(args, i)
	case "npx", "bunx", "pnpx":
		return npm(args, i)
	case "uvx":
		return uv(args, i, true)
	case "uv":
		if sub(uvValues, "tool", "run") {
			return uv(args, i, true)
		}
		if i = start; sub(uvValues, "run") {
			return uv(args, i, false)
		}
	case "pipx":
		if sub(nil, "run") {
			o := options(args, i, func(name string) bool { return slices.Contains(pipxValues, name) })
			return o.packages(pypi, "pypi", []string{"--spec"}, []string{"--index-url", "-i", "--pip-args"}, "==", true)
		}
	case "docker", "podman", "nerdctl":
		if i < len(args) && args[i] == "container" {
			i++
		}
		if !sub(nil, "run|create") {
			return nil
		}
		o := options(args, i, containerValue)
		return o.packages(oci, "oci", nil, nil, "@", true)
	case "deno":
		if sub(nil, "run") {
			o := options(args, i, func(name string) bool { return slices.Contains(denoValues, name) })
			return o.packages(denoModule, "", nil, nil, "@", true)
		}
	case "dnx":
		o := options(args, i, func(name string) bool { return slices.Contains(dnxValues, name) })
		found := o.packages(nuget, "nuget", nil, []string{"--source", "--add-source", "--configfile"}, "@", true)
		for _, v := range o.values {
			if v.name == "--version" && len(found) > 0 {
				found[0].Have, found[0].pinned = v.value, exact("nuget", v.value)
				found[0].join = "" // the option has precedence
			}
		}
		return found
	case "go":
		if sub(goValues, "run") {
			o := options(args, i, func(name string) bool { return slices.Contains(goValues, name) })
			return o.packages(goModule, "go", nil, nil, "@", true)
		}
	}
	return nil
}

func npm(args []string, i int) []pkg {
	o := options(args, i, func(name string) bool { return slices.Contains(npmValues, name) })
	if o.has("-c", "--call") {
		o.operand = -1
	}
	return o.packages(npmSpec, "npm", []string{"-p", "--package"}, []string{"--registry", "--userconfig"}, "@", true)
}

// uv reads the arguments of uvx, or those of uv run, whose operand is no package.
func uv(args []string, i int, tool bool) []pkg {
	o := options(args, i, func(name string) bool { return slices.Contains(uvValues, name) })
	if !tool {
		o.operand = -1
	}
	indexes := []string{"--index", "--index-url", "-i", "--default-index", "--extra-index-url", "-f", "--find-links", "--config-file"}
	found := o.packages(pypi, "pypi", []string{"--from"}, indexes, "@", true)
	return append(found, o.packages(pypi, "pypi", []string{"--with", "-w"}, indexes, "==", false)...)
}

// containerValue reports whether an option of docker run has a value in the next argument.
func containerValue(name string) bool {
	if strings.HasPrefix(name, "--") {
		return !slices.Contains(containerFlags, name)
	}
	// -it: flags; -e NAME: a value; -eNAME: the value is there.
	flags := strings.TrimLeft(name[1:], "itdPq")
	return len(flags) == 1
}

// option is an option with its value.
type option struct {
	name, value string
	// arg is the index of the argument that holds the value, and before what stands in it
	// before the value.
	arg    int
	before string
}

// parsed is the arguments of a tool up to its operand.
type parsed struct {
	args   []string
	values []option
	names  []string
	// operand is the index of the first argument that is no option, or -1.
	operand int
}

// options reads the arguments of a tool up to its first operand.
func options(args []string, i int, valued func(string) bool) parsed {
	o := parsed{args: args, operand: -1}
	for ; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			if i+1 < len(args) {
				o.operand = i + 1
			}
			return o
		}
		if len(arg) < 2 || arg[0] != '-' {
			o.operand = i
			return o
		}
		name, value, joined := strings.Cut(arg, "=")
		o.names = append(o.names, name)
		switch {
		case joined:
			o.values = append(o.values, option{name, value, i, name + "="})
		case valued(arg) && i+1 < len(args):
			i++
			o.values = append(o.values, option{arg, args[i], i, ""})
		}
	}
	return o
}

func (o parsed) has(names ...string) bool {
	return slices.ContainsFunc(o.names, func(name string) bool { return slices.Contains(names, name) })
}

// packages reads the packages in the options called named, or else in the operand.
func (o parsed) packages(read func(string) (pkg, bool), manager string, named, registries []string, join string, operand bool) []pkg {
	registry := ""
	for _, v := range o.values {
		if slices.Contains(registries, v.name) {
			registry = v.name
		}
	}
	var found []pkg
	add := func(spec, before string, arg int, join string) {
		p, ok := read(spec)
		if !ok {
			return
		}
		if p.Manager == "" {
			p.Manager = manager
		}
		if p.Manager != "git" && p.Manager != "url" {
			p.join = join
		}
		p.before, p.Arg, p.Registry = before+p.before, arg, registry
		found = append(found, p)
	}
	seen := false
	for _, v := range o.values {
		if slices.Contains(named, v.name) {
			seen = true
			if manager == "pypi" {
				join = "=="
			}
			add(v.value, v.before, v.arg, join)
		}
	}
	if !seen && operand && o.operand >= 0 {
		add(o.args[o.operand], "", o.operand, join)
	}
	return found
}
