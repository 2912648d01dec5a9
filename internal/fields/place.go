package fields

import (
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// KeyOf is the place of a key of a map.
func KeyOf(v *syntax.Value, key string) diag.Range {
	for i := range v.Fields {
		if v.Fields[i].Key.Text == key {
			return v.Fields[i].Key.Range()
		}
	}
	return Head(v)
}

// OneLine is the place of a value in a catalog: all of it if it is on one line,
// else its first token.
func OneLine(v *syntax.Value) diag.Range {
	if v == nil {
		return diag.Range{}
	}
	if v.Range().Start.Line == v.Range().End.Line {
		return v.Range()
	}
	return Head(v)
}

// Head is the place that messages show for a whole map or list: its first key, else
// itself.
func Head(v *syntax.Value) diag.Range {
	if v.Kind == syntax.Map && len(v.Fields) > 0 {
		return v.Fields[0].Key.Range()
	}
	return v.Range()
}
