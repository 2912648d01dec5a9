package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// undone are the names of a compensation that stand for members of value.
var undone = []string{nameArgs, nameOutput, nameError}

// Spread writes a template of the scope [Adapter] as one of [Compensate], whose
// args, output and error are value.args, value.output and value.error. It takes
// only templates that read value in no other way, since there is no such object
// to hand on; its error says what stands against it.
func Spread(v any) (any, error) { return spread(v, 0) }

func spread(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the template nests deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case string:
		return spreadText(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			made, err := spread(item, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = made
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			made, err := spread(v[key], depth+1)
			if err != nil {
				return nil, err
			}
			out[key] = made
		}
		return out, nil
	}
	return v, nil
}

// spreadText rewrites the expressions of one string.
func spreadText(s string) (string, error) {
	pieces, bad := scan(s)
	if bad != nil {
		return "", bad
	}
	var sb strings.Builder
	at := 0
	for _, p := range pieces {
		if !p.expr {
			continue
		}
		made, err := spreadSource(p.text)
		if err != nil {
			return "", err
		}
		sb.WriteString(s[at:p.offset])
		sb.WriteString(made)
		at = p.offset + len(p.text)
	}
	sb.WriteString(s[at:])
	return sb.String(), nil
}

// spreadSource takes `value.` away in front of the names that remain.
func spreadSource(src string) (string, error) {
	if _, bad := compile(src, Adapter); bad != nil {
		return "", bad
	}
	ts := *tokenize(src)
	text := func(i int) string {
		if i < 0 || i >= len(ts) {
			return ""
		}
		return src[ts[i].start:ts[i].end]
	}
	var sb strings.Builder
	at := 0
	for i := range ts {
		selected := text(i-1) == "." || text(i-1) == "?" && text(i-2) == "."
		switch name := text(i); {
		case selected:
		case slices.Contains(undone, name):
			// A variable of a loop would catch what the name stands for afterwards.
			return "", fmt.Errorf("an expression calls a variable of its own %s", name)
		case name != nameValue:
		case text(i+1) != "." || !slices.Contains(undone, text(i+2)):
			return "", fmt.Errorf("an expression reads value otherwise than as value.args, value.output or value.error")
		default:
			sb.WriteString(src[at:ts[i].start])
			at = ts[i+2].start
		}
	}
	sb.WriteString(src[at:])
	return sb.String(), nil
}
