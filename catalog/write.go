package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Entry is a template of an imported tool, or of resources, to be written to a catalog file.
type Entry struct {
	// Operation is "provider/operation", Definition the tool as its server declares it, nil for
	// resources. Fingerprint pins one resource, or is "".
	Operation   string
	Definition  json.RawMessage
	Fingerprint string
	Status      plan.Trust
	// Facts are those of [Template.Facts], for resources of [Template.Said], and Was those that the
	// template in a file has, for [Update].
	Facts, Was json.RawMessage
	// Comment stands above the template, for people. It may have several lines.
	Comment string
}

// Write returns a catalog file with templates of imported tools and resources, and statements of the admins.
// Read again, they have the same definitions and facts.
func Write(entries []Entry, statements ...json.RawMessage) ([]byte, error) {
	var w writer
	w.WriteString("apiVersion: " + fields.APIVersion + "\nkind: Catalog\ntemplates:")
	if len(entries) == 0 {
		w.WriteString(" []")
	}
	w.WriteByte('\n')
	for i := range entries {
		if err := entries[i].write(&w, "  "); err != nil {
			return nil, fmt.Errorf("write the template %s: %w", entries[i].Operation, err)
		}
	}
	if len(statements) > 0 {
		w.WriteString("statements:\n")
	}
	for i, raw := range statements {
		envelope, err := object(raw)
		if err != nil {
			return nil, fmt.Errorf("write statement %d: %w", i+1, err)
		}
		w.WriteString("  -")
		w.value(envelope, "  ")
	}
	return w.Bytes(), nil
}

// write writes the template, with pad before its dash.
func (e *Entry) write(w *writer, pad string) error {
	said, err := e.fields(e.Facts)
	if err != nil {
		return err
	}
	for line := range strings.Lines(e.Comment) {
		w.WriteString(pad + "# " + strings.TrimRight(line, "\n") + "\n")
	}
	definition, declared := said["definition"]
	delete(said, "definition")
	mark := pad + "- "
	for _, f := range TemplateFields.Fields {
		if v, ok := said[f.Name]; ok {
			w.WriteString(mark)
			w.field(f.Name, v, pad+"  ")
			mark = pad + "  "
		}
	}
	if declared {
		w.WriteString(mark)
		w.field("definition", definition, pad+"  ")
	}
	return nil
}

// fields are the fields of the template with such facts.
func (e *Entry) fields(facts json.RawMessage) (map[string]any, error) {
	provider, operation, ok := strings.Cut(e.Operation, "/")
	if !ok {
		return nil, errors.New("it is named without its provider")
	}
	stated, err := object(facts)
	if err != nil {
		return nil, fmt.Errorf("its facts: %w", err)
	}
	said, err := written(stated)
	if err != nil {
		return nil, err
	}
	said["provider_name"], said["operation"], said["status"] = provider, operation, string(e.Status)
	if e.Fingerprint != "" {
		said["fingerprint"] = e.Fingerprint
	}
	if said["resource"] == nil {
		if said["definition"], err = object(e.Definition); err != nil {
			return nil, fmt.Errorf("its definition: %w", err)
		}
	}
	return said, nil
}

// written are facts in the form of a catalog file.
func written(facts map[string]any) (map[string]any, error) {
	out := map[string]any{"open_world": false}
	commit := map[string]any{}
	for name, v := range facts {
		switch name {
		case "input_schema", "output_schema": // digests of what the definition has
		case "egress_allowed":
			out["egress"] = "allowed"
		case "no_rollback":
			commit["rollback"] = map[string]any{"none": v}
		case "verify":
			commit["verify"] = v
		case "given_output_schema":
			out["output_schema"] = v
		case "resource":
			if r, ok := v.(map[string]any); ok && r["as"] == nil {
				r["list"] = true
			}
			out[name] = v
		default:
			if !slices.ContainsFunc(TemplateFields.Fields, func(f fields.Field) bool { return f.Name == name }) {
				return nil, fmt.Errorf("the fact %.80q is none of a template", name)
			}
			out[name] = v
		}
	}
	if len(commit) > 0 {
		out["commit_policy"] = commit
	}
	return out, nil
}

func object(raw json.RawMessage) (map[string]any, error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("they are not a JSON object")
	}
	return m, nil
}

// writer writes YAML.
type writer struct{ bytes.Buffer }

// field writes the rest of a line that has been indented, and the lines that belong to it.
func (w *writer) field(name string, v any, indent string) {
	w.text(name)
	w.WriteByte(':')
	w.value(v, indent)
}

// value writes a decoded JSON value behind a colon or a dash.
func (w *writer) value(v any, indent string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			w.WriteString(" {}\n")
			return
		}
		w.WriteByte('\n')
		for _, k := range slices.Sorted(maps.Keys(v)) {
			w.WriteString(indent + "  ")
			w.field(k, v[k], indent+"  ")
		}
	case []any:
		if len(v) == 0 {
			w.WriteString(" []\n")
			return
		}
		w.WriteByte('\n')
		for _, e := range v {
			w.WriteString(indent + "  -")
			w.value(e, indent+"  ")
		}
	case string:
		w.WriteByte(' ')
		w.text(v)
		w.WriteByte('\n')
	case json.Number:
		w.WriteString(" " + string(v) + "\n")
	case bool:
		fmt.Fprintf(w, " %t\n", v)
	default:
		w.WriteString(" null\n")
	}
}

// bare matches text that YAML reads as itself without quotes.
var bare = regexp.MustCompile(`^[A-Za-z_][0-9A-Za-z_./-]*$`)

// words are what YAML, in some version, reads as something else than text.
var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// text writes a text so that people see every character of it.
func (w *writer) text(s string) {
	if bare.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		w.WriteString(s)
		return
	}
	for _, c := range fields.Quoted(s) {
		switch {
		case unicode.IsPrint(c):
			w.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(w, `\U%08x`, c)
		default:
			fmt.Fprintf(w, `\u%04x`, c)
		}
	}
}
