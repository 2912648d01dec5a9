package containment

import "github.com/santhosh-tekuri/jsonschema/v5"

// legacy returns the schema whose dependencies keyword a counterexample may depend on,
// if its draft no longer has that keyword: from 2019-09 on it is optional. The validator
// checks it in every draft, so a proof that uses it holds at run time. A counterexample
// that depends on it is one for this validator only, and is not returned. To be safe,
// legacy counts every value with a key that such a keyword names.
func legacy(v any, sides []side) reason {
	for _, side := range sides {
		seen := map[*schema]bool{}
		var first *schema
		var visit func(s *schema)
		visit = func(s *schema) {
			if seen[s] {
				return
			}
			seen[s] = true
			if len(s.Dependencies) > 0 && (s.Draft == jsonschema.Draft2019 || s.Draft == jsonschema.Draft2020) && named(v, s) {
				if first == nil || s.Location < first.Location {
					first = s
				}
			}
			children(s, visit)
		}
		if visit(side.s.Compiled()); first != nil {
			return reason{s: first, keyword: "dependencies"}
		}
	}
	return reason{}
}

// named reports whether v holds an object with a key of s's dependencies.
func named(v any, s *schema) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if named(e, s) {
				return true
			}
		}
	case map[string]any:
		for k, e := range v {
			if s.Dependencies[k] != nil || named(e, s) {
				return true
			}
		}
	}
	return false
}
