package lint

import (
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// maxNamed bounds the file that Named reads, in bytes.
const maxNamed = 4 << 20

// Named returns the name, version and agent of the first plan in a file, without
// compiling it, for messages about plans that do not compile. A field that is
// absent or malformed is ""; so are all fields of a file larger than 4 MiB.
func Named(text []byte) (name, version, agent string) {
	if len(text) > maxNamed {
		return "", "", ""
	}
	docs, _ := syntax.Parse("plan", text, fields.Limits)
	if len(docs) == 0 || docs[0].Root == nil || docs[0].Root.Kind != syntax.Map {
		return "", "", ""
	}
	get := func(field string, g fields.Grammar) string {
		if v := docs[0].Root.Get(field); v != nil && v.Kind == syntax.String && g.Re.MatchString(v.Text) {
			return v.Text
		}
		return ""
	}
	return get("name", fields.PlanNames), get("version", fields.Versions), get("agent", fields.AgentNames)
}
