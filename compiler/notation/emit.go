package notation

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// bare matches text that YAML reads as itself without quotes, also inside of a flow map.
var bare = regexp.MustCompile(`^(?:\$|[$A-Za-z_][0-9A-Za-z_.$/-]*)$`)

// words are what YAML, in some version, reads as something else than text.
var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// inline writes a value on one line.
func inline(v *syntax.Value) string {
	var b strings.Builder
	write(&b, v, false)
	return b.String()
}

// write writes a value on one line, as JSON or in the flow style of YAML.
func write(b *strings.Builder, v *syntax.Value, asJSON bool) {
	switch v.Kind {
	case syntax.Null:
		b.WriteString("null")
	case syntax.Bool, syntax.Number:
		b.WriteString(v.Text)
	case syntax.String:
		if !asJSON && bare.MatchString(v.Text) && !slices.Contains(words, strings.ToLower(v.Text)) {
			b.WriteString(v.Text)
			return
		}
		b.WriteString(fields.Quoted(v.Text))
	case syntax.List:
		b.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			write(b, item, asJSON)
		}
		b.WriteByte(']')
	case syntax.Map:
		b.WriteByte('{')
		for i, f := range v.Fields {
			if i > 0 {
				b.WriteString(", ")
			}
			write(b, f.Key, asJSON)
			b.WriteString(": ")
			write(b, f.Value, asJSON)
		}
		b.WriteByte('}')
	}
}

// emit writes plans anew: each field of a plan begins a line, and so does each node and edge.
func emit(docs []*syntax.Value, old []byte) []byte {
	var b strings.Builder
	asJSON := bytes.HasPrefix(bytes.TrimSpace(old), []byte("{")) && len(docs) == 1
	for i, doc := range docs {
		if i > 0 {
			b.WriteString("---\n")
		}
		if asJSON {
			emitJSON(&b, doc)
			continue
		}
		for _, f := range doc.Fields {
			write(&b, f.Key, false)
			b.WriteByte(':')
			if f.Value.Kind != syntax.List || len(f.Value.Items) == 0 || f.Key.Text != "nodes" && f.Key.Text != "edges" {
				b.WriteByte(' ')
				write(&b, f.Value, false)
				b.WriteByte('\n')
				continue
			}
			b.WriteByte('\n')
			for _, item := range f.Value.Items {
				b.WriteString("  - ")
				write(&b, item, false)
				b.WriteByte('\n')
			}
		}
	}
	return []byte(b.String())
}

func emitJSON(b *strings.Builder, doc *syntax.Value) {
	var line strings.Builder
	write(&line, doc, true)
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(line.String()), "", "  "); err == nil {
		b.WriteString(out.String() + "\n")
	}
}
