package schemas

import (
	"embed"
	"strings"
)

//go:embed *.json
var embedded embed.FS

// Named gives the text of an embedded JSON Schema: "plan" for plan.json. The
// command "chimera schema" prints it, for editors.
func Named(name string) ([]byte, bool) {
	if strings.ContainsAny(name, "/.\\") {
		return nil, false
	}
	raw, err := embedded.ReadFile(name + ".json")
	return raw, err == nil
}

// Names lists the embedded schemas, sorted.
func Names() []string {
	entries, err := embedded.ReadDir(".")
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}
