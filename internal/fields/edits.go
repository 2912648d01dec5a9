package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// token matches a key or a value on one line as it stands in a file.
var token = regexp.MustCompile(`^(?:[-$#\w./:@+]+|"(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*')$`)

// anchor matches what may be an anchor.
var anchor = regexp.MustCompile(`(?m)(?:^|[\s\[{,])&[\w-]+`)

// Replace returns the edit that puts a value in the place of the key or scalar at
// a range, in its quotes. It returns nil if v is "", or if
// what stands there is not plain enough.
func (rep *Reader) Replace(at diag.Range, v any) []diag.Edit {
	old, ok := rep.at(at)
	if !ok || v == "" || !token.MatchString(old) && !plainLine.MatchString(old) {
		return nil
	}
	text := rep.literal(v)
	if s, is := v.(string); is {
		switch {
		case old[0] == '"':
			text = quoted(s)
		case old[0] == '\'' && !strings.ContainsAny(s, "'\n"):
			text = "'" + s + "'"
		case name.MatchString(s) && !reserved(s) && (!rep.json() || !json.Valid([]byte(old))):
			text = s // it may be a part of a text
		}
	}
	return []diag.Edit{{Range: at, Replacement: text}}
}

// name matches text that needs no quotes in YAML.
var name = regexp.MustCompile(`^[$A-Za-z_][-$\w./]*$`)

// plainLine matches a scalar without quotes.
var plainLine = regexp.MustCompile(`^[^\s"'\[\]{}&*!|>%@,#][^"\n]*$`)

// Set returns the edit that gives a field of a map a value: in the place of what it
// has, or as a new field. It returns nil if the map is not written in the file as
// one.
func (rep *Reader) Set(m *syntax.Value, field string, v any) []diag.Edit {
	if m == nil || m.Kind != syntax.Map {
		return nil
	}
	if old := m.Get(field); old != nil {
		return rep.Replace(old.Range(), v)
	}
	text, ok := rep.at(m.Range())
	if !ok || text == "" {
		return nil
	}
	insert := rep.literal(field) + ": " + rep.literal(v)
	at := m.Range().Start
	switch {
	case text == "{}":
		return []diag.Edit{{Range: m.Range(), Replacement: "{" + insert + "}"}}
	case len(m.Fields) == 0:
		return nil
	case text[0] == '{':
		last := m.Fields[len(m.Fields)-1].Value.Range()
		if _, ok := rep.at(last); !ok || last.End.Byte >= m.Range().End.Byte {
			return nil
		}
		at, insert = last.End, ", "+insert
	default:
		// Before the first field, since a block's end is hard to tell.
		at = m.Fields[0].Key.Range().Start
		if at.Byte != m.Range().Start.Byte {
			return nil
		}
		insert += "\n" + strings.Repeat(" ", at.Column-1)
	}
	return []diag.Edit{{Range: diag.Range{File: rep.Src.Name, Start: at, End: at}, Replacement: insert}}
}

// Rewrite returns the edit that puts a map of two fields in the place of what stands at a range.
func (rep *Reader) Rewrite(at diag.Range, key string, v any, other string, w any) []diag.Edit {
	if old, ok := rep.at(at); !ok || strings.Contains(old, "\n") {
		return nil
	}
	text := func(v any) string {
		if s, is := v.(string); is && !name.MatchString(s) {
			return quoted(s)
		}
		return rep.literal(v)
	}
	return []diag.Edit{{Range: at, Replacement: "{" + rep.literal(key) + ": " + text(v) + ", " + rep.literal(other) + ": " + text(w) + "}"}}
}

// Arrow returns the edit that puts an edge in the place of a map: its ends, and a condition if
// that is not "".
func (rep *Reader) Arrow(at diag.Range, ends, when string) []diag.Edit {
	if _, ok := rep.at(at); !ok {
		return nil
	}
	text := quoted(ends)
	if when != "" {
		text = "{" + rep.literal("edge") + ": " + text + ", " + rep.literal("when") + ": " + quoted(when) + "}"
	} else if !rep.json() && plainLine.MatchString(ends) {
		text = ends
	}
	return []diag.Edit{{Range: at, Replacement: text}}
}

// Remove returns the edit that takes a field out of a map, or nil if that is not
// simple.
func (rep *Reader) Remove(m *syntax.Value, field string) []diag.Edit {
	for i := range m.Fields {
		if m.Fields[i].Key.Text != field {
			continue
		}
		at := m.Fields[i].Value.Range()
		switch old, ok := rep.at(at); {
		case !ok || strings.Contains(old, "\n") || len(m.Fields) == 1:
			return nil
		case i+1 < len(m.Fields):
			at.Start, at.End = m.Fields[i].Key.Range().Start, m.Fields[i+1].Key.Range().Start
		default:
			at.Start = m.Fields[i-1].Value.Range().End
		}
		if _, ok := rep.at(at); !ok {
			return nil
		}
		return []diag.Edit{{Range: at}}
	}
	return nil
}

// at returns the text of the file at a range.
func (rep *Reader) at(r diag.Range) (string, bool) {
	if !r.IsValid() || r.File != rep.Src.Name || r.Start.Byte > r.End.Byte || r.End.Byte > len(rep.Src.Text) {
		return "", false
	}
	return string(rep.Src.Text[r.Start.Byte:r.End.Byte]), true
}

// literal formats a value or a key for the file.
func (rep *Reader) literal(v any) string {
	if !rep.json() {
		return Inline(v)
	}
	return quoted(v)
}

// json reports whether the file is JSON rather than YAML.
func (rep *Reader) json() bool { return bytes.HasPrefix(bytes.TrimSpace(rep.Src.Text), []byte("{")) }

// quoted formats a value as JSON.
func quoted(v any) string { return Quoted(v) }

// Quoted formats a value as JSON that YAML reads alike: what YAML does not take in a file is
// escaped.
func Quoted(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return ""
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var out strings.Builder
	for _, c := range text {
		if unprintable(c) {
			fmt.Fprintf(&out, "\\u%04x", c)
		} else {
			out.WriteRune(c)
		}
	}
	return out.String()
}

// unprintable reports whether a character may not stand in a file of YAML as it is.
func unprintable(c rune) bool {
	return c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff
}

// applicability is how far the edits of a finding may be trusted: no further than
// the finding says, and not for certain where one text has several places.
func (rep *Reader) applicability(d *diag.Diagnostic) diag.Applicability {
	for _, e := range d.Edits {
		if strings.Contains(e.Replacement, "…") {
			return diag.Placeholder
		}
	}
	switch {
	case len(d.Edits) == 0:
		return ""
	case d.Applicability == diag.Certain && !rep.anchored():
		return diag.Certain
	}
	return diag.Maybe
}

// anchored reports whether one text of the file may have several places in the plan.
func (rep *Reader) anchored() bool {
	if rep.anchors == nil {
		found := anchor.Match(rep.Src.Text)
		rep.anchors = &found
	}
	return *rep.anchors
}
