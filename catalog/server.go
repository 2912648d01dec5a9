package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/schemas"
)

// Server is what an MCP server said of itself when its tools were imported. It is for people to
// compare with what it says now, and nothing depends on it.
type Server struct {
	Name string
	// Fingerprint is that of the server, with its endpoint and its tools: see [fingerprint.Server].
	Fingerprint string
	// Initialize is the result of initialize, or of server/discover.
	Initialize json.RawMessage
	// Endpoint is the digest of where it was, by [fingerprint.Endpoint], and Place, an object, what identified
	// that, without what may be a secret. Templates, a list, are those of its resources. They are "" and nil
	// if that was not kept.
	Endpoint         string
	Place, Templates json.RawMessage
}

// ServerFields is the table of an entry of `servers`.
var ServerFields = &fields.Table{What: "an entry of `servers`", Fields: []fields.Field{
	fields.Required("name", fields.FormText, "the name of the MCP server"),
	fields.Required("fingerprint", fields.FormText, "its fingerprint when it was imported: `sha256:` and 64 hex digits"),
	fields.Required("initialize", fields.FormMap, "how it introduced itself: name, version, protocol, capabilities, instructions"),
	fields.Optional("endpoint", fields.FormText, "the digest of where it was: `sha256:` and 64 hex digits"),
	fields.Optional("place", fields.FormMap, "where it was: its program and the names of its variables, or the host of its address"),
	fields.Optional("resource_templates", fields.FormList, "the templates of its resources: their URI templates, names, media types and descriptions"),
}}

// MaxServers bounds the servers of a catalog file, and MaxInitialize what one said, in bytes of JSON: of each,
// its introduction, its place and its templates.
const (
	MaxServers    = 1000
	MaxInitialize = 256 << 10
)

// readServers reads what servers said of themselves.
func (f *File) readServers(rep *fields.Reader, list *syntax.Value) {
	if list == nil {
		return
	}
	for _, item := range rep.AtMost(list.Items, MaxServers, "servers") {
		r := rep.Read(item, ServerFields, "")
		if r == nil {
			continue
		}
		s := Server{
			Fingerprint: rep.Named(r.Get("fingerprint"), "fingerprint", fields.Fingerprints),
			Endpoint:    rep.Named(r.Get("endpoint"), "endpoint", fields.Fingerprints),
		}
		if x := r.Get("name"); rep.Name(x, "name", fields.ProviderNames) {
			s.Name = x.Text
		}
		said := r.Get("initialize")
		if s.Name == "" || s.Fingerprint == "" || said == nil || said.Kind != syntax.Map {
			continue
		}
		var err error
		for name, at := range map[string]*json.RawMessage{"initialize": &s.Initialize, "place": &s.Place, "resource_templates": &s.Templates} {
			if v := r.Get(name); v != nil && err == nil {
				*at, err = json.Marshal(v.Any())
			}
		}
		if err == nil {
			err = s.Check()
		}
		if err != nil {
			rep.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: err.Error(), Subject: fields.Head(said)})
			continue
		}
		if slices.ContainsFunc(f.Servers, func(o Server) bool { return o.Name == s.Name }) {
			rep.Report(diag.Diagnostic{Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("the server %s is in the catalog already", fields.Quote(s.Name)), Subject: fields.Head(item)})
			continue
		}
		f.Servers = append(f.Servers, s)
	}
}

// Check says what no catalog file has of a server.
func (s *Server) Check() error {
	for _, part := range []json.RawMessage{s.Initialize, s.Place, s.Templates} {
		if len(part) > MaxInitialize {
			return fmt.Errorf("what the server %s says of itself has %d bytes, and %d are the most", fields.Quote(s.Name), len(part), MaxInitialize)
		}
	}
	_, err := s.fields()
	return err
}

// fields are those of the entry, without its name.
func (s *Server) fields() (map[string]any, error) {
	said, err := object(s.Initialize)
	if err != nil {
		return nil, fmt.Errorf("the server %s: %w", fields.Quote(s.Name), err)
	}
	all := map[string]any{"fingerprint": s.Fingerprint, "initialize": said}
	if s.Endpoint != "" {
		all["endpoint"] = s.Endpoint
	}
	if s.Place != nil {
		if all["place"], err = object(s.Place); err != nil {
			return nil, fmt.Errorf("where the server %s is: %w", fields.Quote(s.Name), err)
		}
	}
	if s.Templates == nil {
		return all, nil
	}
	v, err := schemas.Decode(s.Templates)
	if err != nil {
		return nil, fmt.Errorf("the templates of the server %s: %w", fields.Quote(s.Name), err)
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("the templates of the server %s are not a list", fields.Quote(s.Name))
	}
	all["resource_templates"] = list
	return all, nil
}

// Server returns what a server said when it was imported, or nil.
func (c *Catalog) Server(name string) *Server {
	for i := range c.Servers {
		if c.Servers[i].Name == name {
			return &c.Servers[i]
		}
	}
	return nil
}

// UpdateServers returns a catalog file with what servers said of themselves. What it has of other
// servers, and everything else, stays as it is. Its error is as that of [Update], whose result is read
// again, too.
func UpdateServers(existing []byte, servers []Server) ([]byte, error) {
	docs, found := syntax.Parse("", existing, fields.Limits)
	if len(found) > 0 || len(docs) != 1 || docs[0].Root == nil || docs[0].Root.Kind != syntax.Map {
		return nil, errors.New("it is not one YAML document with a map")
	}
	root := docs[0].Root
	if at := root.Range().Start; at.Column != 1 || existing[at.Byte] == '{' {
		return nil, errors.New("its fields do not stand in lines of their own")
	}
	u := updater{text: existing, end: "\n", pad: "  "}
	if bytes.Contains(existing, []byte("\r\n")) {
		u.end = "\r\n"
	}
	list := root.Get("servers")
	there := map[string]*syntax.Value{}
	if list != nil && len(list.Items) > 0 {
		start := list.Range().Start
		if existing[start.Byte] != '-' {
			return nil, errors.New("its servers stand in brackets")
		}
		u.pad = strings.Repeat(" ", start.Column-1)
		for _, item := range list.Items {
			if name := item.Get("name"); name != nil {
				there[name.Text] = item
			}
		}
	} else if list != nil {
		return nil, errors.New("its list of servers is empty")
	}
	var more writer
	for _, s := range servers {
		said, err := s.fields()
		if err != nil {
			return nil, err
		}
		said["name"] = s.Name
		item := there[s.Name]
		if item != nil && reflect.DeepEqual(item.Any(), any(said)) {
			continue
		}
		w := &more
		if item != nil {
			w = new(writer)
		}
		mark := u.pad + "- "
		for _, f := range ServerFields.Fields {
			if v, ok := said[f.Name]; ok {
				w.WriteString(mark)
				w.field(f.Name, v, u.pad+"  ")
				mark = u.pad + "  "
			}
		}
		if item != nil {
			u.replaceItem(item, w.String())
		}
	}
	switch text := more.String(); {
	case text == "":
	case list != nil:
		u.below(list.Items[len(list.Items)-1].Range().End.Byte, text)
	default:
		u.below(root.Range().End.Byte, "servers:\n"+text)
	}
	return u.apply(), nil
}

// replaceItem writes other lines in the place of those of an item of a list.
func (u *updater) replaceItem(item *syntax.Value, lines string) {
	r := item.Range()
	from, to := bytes.LastIndexByte(u.text[:r.Start.Byte], '\n')+1, r.End.Byte
	if u.text[to-1] != '\n' {
		if n := bytes.IndexByte(u.text[to:], '\n'); n >= 0 {
			to += n + 1
		} else {
			to = len(u.text)
		}
	}
	u.put(from, to, lines)
}
