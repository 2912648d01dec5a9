package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/trust"
)

// Bounds of what is shown of a statement about a tool, in bytes: of a fingerprint, and of the value of a fact.
const (
	shownPrint = len("sha256:") + 12
	shownFact  = 80
)

// implied are facts that a summary of a statement leaves out: they follow from the tool, or make it
// neither freer nor stricter to call. Others it names.
var implied = []string{
	"provider_type", "mode", "effect_class", "input_schema", "output_schema", "endpoints", "instructions", "timeout_ms", "retry_policy", "trust_requirement",
}

// summary says in a line what a statement says of a tool. The whole is in its JSON.
func summary(act *trust.TrustTool) string {
	v, err := schemas.Decode(act.Facts)
	facts, _ := v.(map[string]any)
	if err != nil {
		facts = nil
	}
	name := strings.TrimSuffix(act.ToolID, "@"+act.Fingerprint)
	var says []string
	if effect, ok := facts["effect_class"].(string); ok {
		says = append(says, effect)
	}
	says = append(says, act.Status)
	if at, ok := facts["endpoints"].([]any); ok {
		says = append(says, "at "+plural(len(at), "place"))
	}
	for _, fact := range slices.Sorted(maps.Keys(facts)) {
		if slices.Contains(implied, fact) {
			continue
		}
		if facts[fact] == true {
			says = append(says, fact)
			continue
		}
		raw, err := json.Marshal(facts[fact])
		if err != nil {
			raw = []byte("?")
		}
		says = append(says, fmt.Sprintf("%s %s", fact, excerpt.Clip(string(raw), shownFact)))
	}
	line := fmt.Sprintf("%s %s: %s", act.Kind(), name, strings.Join(says, ", "))
	if n := len(act.Fingerprint); n > 0 {
		line += ", " + act.Fingerprint[:min(n, shownPrint)]
	}
	return line
}
