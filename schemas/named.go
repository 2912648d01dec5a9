package schemas

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.json
var embedded embed.FS

// Named returns the text of an embedded JSON Schema: "plan" for plan.json. The
// command "chimera schema" prints it, for editors.
func Named(name string) ([]byte, bool) {
	if strings.ContainsAny(name, `/\`) {
		return nil, false
	}
	raw, err := embedded.ReadFile(name + ".json")
	return raw, err == nil
}

// CompileNamed compiles an embedded schema, which may refer to other embedded
// ones by their $id.
func CompileNamed(name string) (*Schema, error) {
	raw, ok := Named(name)
	if !ok {
		return nil, fmt.Errorf("compile schema: there is no schema %.80q", name)
	}
	known := map[string][]byte{}
	for _, other := range Names() {
		if text, ok := Named(other); ok && other != name {
			known[origin+other+".json"] = text
		}
	}
	s, err := compile(raw, known)
	if err != nil {
		return nil, fmt.Errorf("compile schema %s: %w", name, err)
	}
	return s, nil
}

// origin is the beginning of the $id of every embedded schema.
const origin = "https://chimera.ai/schemas/"

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
