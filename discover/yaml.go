package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/internal/syntax"
)

// YAML writes servers as mcpServers of chimera.yaml: into a new file if existing is empty,
// or else into that file, of which everything else stays as it is, comments too.
//
// It refuses a server whose name is in the file already, and a file that cannot be changed
// without changing more than mcpServers.
func YAML(existing []byte, servers []Server) ([]byte, error) {
	const file = "chimera.yaml"
	before, root, err := parse(file, existing)
	if err != nil {
		return nil, err
	}
	at := root.Get("mcpServers")
	if root.Kind != syntax.Map && root.Kind != syntax.Null {
		return nil, fmt.Errorf("%s: the configuration is a %s, but must be a map", file, root.Kind)
	}
	if at != nil && at.Kind != syntax.Map && at.Kind != syntax.Null {
		return nil, fmt.Errorf("%s:%d: mcpServers is a %s, but must be a map", file, at.Range().Start.Line, at.Kind)
	}
	want := map[string]any{}
	for i, s := range servers {
		if slices.ContainsFunc(servers[:i], func(o Server) bool { return o.Name == s.Name }) {
			return nil, fmt.Errorf("writing servers: there are two called %s", quote(s.Name))
		}
		if there := at.Get(s.Name); there != nil {
			return nil, fmt.Errorf("%s:%d: there is a server %s already", file, there.Range().Start.Line, quote(s.Name))
		}
		want[s.Name] = s.fields().any()
	}
	if len(servers) == 0 {
		return existing, nil
	}
	out := insert(existing, root, at, servers)
	if len(out) > MaxFile {
		return nil, fmt.Errorf("%s: the file would have %d bytes; at most %d are read", file, len(out), MaxFile)
	}
	after, _, err := parse(file, out)
	if err != nil {
		return nil, fmt.Errorf("writing servers: %w", err)
	}
	// What was read back must be what was there and the servers, and nothing else.
	if old, ok := before["mcpServers"].(map[string]any); ok {
		maps.Copy(want, old)
	}
	before["mcpServers"] = want
	if !reflect.DeepEqual(after, before) {
		return nil, errors.New("writing servers: this " + file + " cannot be changed safely; add the servers by hand")
	}
	return out, nil
}

// Set sets a key that a server in chimera.yaml does not have to a text or a list of texts. Everything else
// stays as it is, comments too.
func Set[T string | []string](existing []byte, server, key string, value T) ([]byte, error) {
	one := fields{{key, value}}
	const file = "chimera.yaml"
	before, root, err := parse(file, existing)
	if err != nil {
		return nil, err
	}
	at := root.Get("mcpServers").Get(server)
	switch {
	case at == nil || at.Kind != syntax.Map || len(at.Fields) == 0:
		return nil, fmt.Errorf("%s: there is no server %s", file, quote(server))
	case at.Get(key) != nil:
		return nil, fmt.Errorf("%s:%d: the server %s has the key %s already", file, at.Range().Start.Line, quote(server), key)
	}
	last := at.Fields[len(at.Fields)-1].Value.Range().End.Byte
	var out []byte
	if existing[at.Range().Start.Byte] == '{' {
		out = slices.Concat(existing[:last], []byte(", "+double(key)+": "+compact(value)), existing[last:])
	} else {
		end := "\n"
		if bytes.Contains(existing, []byte("\r\n")) {
			end = "\r\n"
		}
		line := strings.Repeat(" ", at.Fields[0].Key.Range().Start.Column-1) + key + ": " + inBlock(value) + end
		if n := bytes.IndexByte(existing[last:], '\n'); n >= 0 {
			last += n + 1
		} else {
			last, line = len(existing), end+line
		}
		out = slices.Concat(existing[:last], []byte(line), existing[last:])
	}
	after, _, err := parse(file, out)
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", key, err)
	}
	servers, _ := before["mcpServers"].(map[string]any)
	if fields, ok := servers[server].(map[string]any); ok {
		fields[key] = one.any()[key]
	}
	if !reflect.DeepEqual(after, before) {
		return nil, fmt.Errorf("setting %s: this %s cannot be changed safely", key, file)
	}
	return out, nil
}

// parse reads chimera.yaml within the bounds of package config.
func parse(file string, src []byte) (map[string]any, *syntax.Value, error) {
	docs, found := syntax.Parse(file, src, syntax.Limits{Bytes: MaxFile, Depth: 32, Nodes: maxNodes})
	if len(found) > 0 {
		start := found[0].Subject.Start
		return nil, nil, fmt.Errorf("%s:%d:%d: %s", file, start.Line, start.Column, found[0].Summary)
	}
	switch {
	case len(docs) > 1:
		return nil, nil, fmt.Errorf("%s: the file holds more than one document", file)
	case len(docs) == 0:
		return map[string]any{}, new(syntax.Value{Parts: &syntax.Parts{}}), nil
	}
	values, ok := docs[0].Root.Any().(map[string]any)
	if !ok {
		values = map[string]any{}
	}
	return values, docs[0].Root, nil
}

// insert puts servers where mcpServers are, or else at the end of the file.
func insert(src []byte, root, at *syntax.Value, servers []Server) []byte {
	end := "\n"
	if bytes.Contains(src, []byte("\r\n")) {
		end = "\r\n"
	}
	block := func(indent int) string {
		var b strings.Builder
		for _, s := range servers {
			s.block(&b, indent)
		}
		return strings.ReplaceAll(b.String(), "\n", end)
	}
	splice := func(from, to int, text string) []byte {
		return slices.Concat(src[:from], []byte(text), src[to:])
	}
	// below puts text on the lines below the one that holds offset.
	below := func(offset int, text string) []byte {
		if n := bytes.IndexByte(src[offset:], '\n'); n >= 0 {
			offset += n + 1
			return splice(offset, offset, text)
		}
		return splice(len(src), len(src), end+text)
	}
	flow := func(v *syntax.Value) bool { return v.Kind == syntax.Map && src[v.Range().Start.Byte] == '{' }
	// inside puts text into a map in braces.
	inside := func(v *syntax.Value, text string) []byte {
		if n := len(v.Fields); n > 0 {
			offset := v.Fields[n-1].Value.Range().End.Byte
			return splice(offset, offset, ", "+text)
		}
		offset := v.Range().Start.Byte + 1
		return splice(offset, offset, text)
	}
	switch {
	case at == nil && flow(root):
		return inside(root, `"mcpServers": {`+inline(servers)+"}")
	case at == nil:
		text := "mcpServers:" + end + block(2)
		if len(src) > 0 && src[len(src)-1] != '\n' {
			text = end + text
		}
		return splice(len(src), len(src), text)
	case at.Kind == syntax.Map && len(at.Fields) > 0 && flow(at), flow(root) && at.Kind == syntax.Map:
		return inside(at, inline(servers))
	case flow(root):
		return splice(at.Range().Start.Byte, at.Range().End.Byte, "{"+inline(servers)+"}")
	case len(at.Fields) > 0:
		column := at.Fields[0].Key.Range().Start.Column - 1
		return below(at.Fields[len(at.Fields)-1].Value.Range().End.Byte, block(column))
	default: // mcpServers: or mcpServers: {}
		from, to := at.Range().Start.Byte, at.Range().End.Byte
		src = slices.Concat(src[:from], src[to:])
		return below(from, block(2))
	}
}

// field is a key of an entry with its value: a string, a list of strings, or a map of
// strings.
type field struct {
	name  string
	value any
}

type fields []field

// fields are the keys of a server that are set, in the order in which they are written.
func (s Server) fields() fields {
	var list fields
	for _, f := range []field{{"command", s.Command}, {"args", s.Args}, {"cwd", s.Dir}, {"type", s.Type}, {"url", s.URL}, {"env", s.Env}, {"headers", s.Headers}} {
		if !reflect.ValueOf(f.value).IsZero() {
			list = append(list, f)
		}
	}
	return list
}

// any is the fields as they are read back.
func (l fields) any() map[string]any {
	out := make(map[string]any, len(l))
	for _, f := range l {
		switch value := f.value.(type) {
		case []string:
			items := make([]any, len(value))
			for i, s := range value {
				items[i] = s
			}
			out[f.name] = items
		case map[string]string:
			entries := make(map[string]any, len(value))
			for name, s := range value {
				entries[name] = s
			}
			out[f.name] = entries
		default:
			out[f.name] = value
		}
	}
	return out
}

// block writes a server as a map in block style.
func (s Server) block(b *strings.Builder, indent int) {
	pad := strings.Repeat(" ", indent)
	fmt.Fprintf(b, "%s%s:\n", pad, scalar(s.Name))
	for _, f := range s.fields() {
		fmt.Fprintf(b, "%s  %s:", pad, f.name)
		switch value := f.value.(type) {
		case string, []string:
			fmt.Fprintf(b, " %s\n", inBlock(value))
		case map[string]string:
			b.WriteString("\n")
			for _, name := range slices.Sorted(maps.Keys(value)) {
				fmt.Fprintf(b, "%s    %s: %s\n", pad, scalar(name), scalar(value[name]))
			}
		}
	}
}

// inline writes servers as the inside of a map in braces.
func inline(servers []Server) string {
	texts := make([]string, len(servers))
	for i, s := range servers {
		var keys []string
		for _, f := range s.fields() {
			keys = append(keys, double(f.name)+": "+compact(f.value))
		}
		texts[i] = double(s.Name) + ": {" + strings.Join(keys, ", ") + "}"
	}
	return strings.Join(texts, ", ")
}

// inBlock writes a text or a list of texts in one line, with as few quotes as every reader takes.
func inBlock(value any) string {
	list, ok := value.([]string)
	if !ok {
		return scalar(value.(string))
	}
	texts := make([]string, len(list))
	for i, text := range list {
		texts[i] = scalar(text)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// compact writes a value of a field as JSON.
func compact(value any) string {
	switch value := value.(type) {
	case []string:
		texts := make([]string, len(value))
		for i, text := range value {
			texts[i] = double(text)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case map[string]string:
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(value)) {
			texts = append(texts, double(name)+": "+double(value[name]))
		}
		return "{" + strings.Join(texts, ", ") + "}"
	}
	return double(value.(string))
}

var (
	plainScalar = regexp.MustCompile(`^(?:[A-Za-z_/]|\.\.?/)[A-Za-z0-9_./@-]*$`)
	// meaning matches texts that mean something else to one reader or the other.
	meaning = regexp.MustCompile(`^(?i:true|false|null|yes|no|on|off|y|n)$`)
)

// scalar writes a text without quotes if every reader takes it for one.
func scalar(text string) string {
	if plainScalar.MatchString(text) && !meaning.MatchString(text) {
		return text
	}
	return double(text)
}

// double writes a text in double quotes.
func double(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string
	out := strings.TrimSuffix(b.String(), "\n")
	return strings.ReplaceAll(out, "\x7f", `\u007f`)
}
