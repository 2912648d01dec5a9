package discover

import (
	"regexp"
	"slices"
	"strconv"

	"chimera.ai/engine/internal/process"
)

// reference is how a host writes a reference to a value that it has elsewhere.
type reference struct {
	// scheme is the name of an authentication scheme before the reference, with its space.
	scheme string
	// env, input and file are what is referred to; one of them is set.
	env, input, file string
	// defaulted reports that there is a default, which is a literal value.
	defaulted bool
}

// hostReference matches the references of hosts: ${env:NAME} (VS Code, Cursor, Windsurf),
// ${NAME} and ${NAME:-default} (Claude Code), $NAME (Gemini CLI), ${input:id} (VS Code) and
// ${file:path} (Windsurf).
var hostReference = regexp.MustCompile(`(?s)^((?:[Bb]earer|[Bb]asic|[Tt]oken|ApiKey|Api-Key) )?` +
	`(?:\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^{}]*)?\}|\$([A-Z_][A-Z0-9_]*)|` +
	`\$\{input:([^{}]{1,128})\}|\$\{file:([^{}\x00]{1,1000})\})$`)

// predefined are the variables of VS Code that are not of the environment.
var predefined = []string{"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "cwd", "file", "fileDirname", "__dirname"}

// refer reads a value that is a reference and nothing else.
func refer(value string) (reference, bool) {
	m := hostReference.FindStringSubmatch(value)
	if m == nil || hidden(value) || slices.Contains(predefined, m[3]) {
		return reference{}, false
	}
	return reference{scheme: m[1], env: m[2] + m[3] + m[5], input: m[6], file: m[7], defaulted: m[4] != ""}, true
}

// variables gives each value the variable of the environment that is to hold it. No value of
// one server gets a variable that another value has, so that no secret reaches a server that
// it is not for.
type variables struct {
	// referred are the variables to which the file itself refers.
	referred map[string]bool
	// literal counts the literal values of each name of a variable.
	literal map[string]int
	inputs  map[string]string
	taken   map[string]bool
	// numbers counts the numbered names of each name.
	numbers map[string]int
}

func newVariables() *variables {
	return &variables{referred: map[string]bool{}, literal: map[string]int{}, inputs: map[string]string{}, taken: map[string]bool{}, numbers: map[string]int{}}
}

// input returns the variable of an input, which all servers share.
func (v *variables) input(id string) string {
	name, ok := v.inputs[id]
	if !ok {
		name = v.free(upper(id), upper("input", id))
		v.inputs[id] = name
	}
	return name
}

// env returns the variable for a literal value of a server's environment: its own name, if
// that is of this value alone.
func (v *variables) env(server, name string) string {
	if v.literal[name] == 1 && !v.referred[name] && !v.taken[name] && !slices.Contains(process.Inherited(), name) {
		v.taken[name] = true
		return name
	}
	return v.free(upper(server, name))
}

// free takes the first of some names that is not in use, or the last with a number.
func (v *variables) free(names ...string) string {
	base := names[len(names)-1]
	for i := 0; ; i++ {
		name := base
		if i < len(names) {
			name = names[i]
		} else {
			v.numbers[base]++
			name += "_" + strconv.Itoa(v.numbers[base]+1)
		}
		if !v.referred[name] && v.literal[name] == 0 && !v.taken[name] && !slices.Contains(process.Inherited(), name) {
			v.taken[name] = true
			return name
		}
	}
}
