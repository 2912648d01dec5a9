//go:build unix

package process

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// inherited are the only names that a child takes from this process: what a
// program needs to find others, its user's files and a place for its own, and
// to speak the right language. No credential travels by them.
var inherited = []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"}

// markName is the variable that marks a child and all that it starts.
const markName = "CHIMERA_PROCESS"

// Inherited lists the names of this process's environment that every child gets.
func Inherited() []string { return slices.Clone(inherited) }

// Environ is a child's whole environment, sorted: the [Inherited] names that
// are set here, and extra, which wins. It refuses a name that cannot stand in
// an environment, and names the variable but never its value.
func Environ(extra map[string]string) ([]string, error) { return environ(extra, nil) }

// environ is that of a child of another user, if there is one: HOME, LOGNAME and USER are theirs, and
// there is no TMPDIR, which may be for this process alone.
func environ(extra map[string]string, as *User) ([]string, error) {
	all := make(map[string]string, len(inherited)+len(extra))
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			all[name] = value
		}
	}
	if as != nil {
		all["HOME"], all["LOGNAME"], all["USER"] = as.Home, as.Name, as.Name
		delete(all, "TMPDIR")
	}
	for name, value := range extra {
		if name == "" || name == markName || strings.ContainsAny(name, "=\x00") {
			return nil, fmt.Errorf("environment: %q cannot be a variable's name", name)
		}
		if strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("environment: the value of %s holds a zero byte", name)
		}
		all[name] = value
	}
	env := make([]string, 0, len(all)+1)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env, nil
}
