package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/discover"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/schemas"
)

// plainValue stands for the value of a variable in what is kept of where a server is.
const plainValue = "a value"

// kept is what is kept of where a server is: what identifies it but the values of variables and all of an
// address behind its host, any of which may be a secret, and of each argument a mark by which to see that it is
// another one. endpoint is the digest of the whole.
func kept(endpoint string, place map[string]any) map[string]any {
	all := maps.Clone(place)
	delete(all, "args")
	if args, ok := place["args"].([]any); ok {
		marks := make([]any, len(args))
		for i, arg := range args {
			marks[i] = mark(endpoint, i, arg)
		}
		all["arguments"] = marks
	}
	if env, ok := place["env"].(map[string]any); ok {
		names := map[string]any{}
		for name, value := range env {
			if names[name] = nil; value != nil {
				names[name] = plainValue
			}
		}
		all["env"] = names
	}
	for _, name := range []string{"url", "issuer", "token_url"} {
		if text, ok := place[name].(string); ok {
			all[name] = origin(text)
		}
	}
	return all
}

// mark is a few bits of the digest of an argument at its place: enough to see that it is another one, and too
// few to find out a secret by trying.
func mark(endpoint string, i int, arg any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%v", endpoint, i, arg))
	return hex.EncodeToString(sum[:2])
}

// origin is an address up to its host, or "" if it has none.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// placeWords are the parts of where a server is, in the order in which they are shown, in words.
var placeWords = []struct{ name, words string }{
	{"transport", "the transport"}, {"command", "the program"}, {"executable", "the digest of the program"},
	{"cwd", "the working directory"}, {"env", "the variable"}, {"pin", "the digest of the pinned"}, {"url", "the address"},
	{"ca", "the keys of the authorities"}, {"pins", "the pinned keys"}, {"server_name", "the name in the certificate"},
	{"issuer", "the issuer of tokens"}, {"token_url", "the address of tokens"},
}

// moves says in words how a place differs from what is kept of another, whose digest is endpoint. Earlier
// builds kept more.
func moves(endpoint string, was, place map[string]any) (lines []string) {
	was, is := kept(endpoint, was), kept(endpoint, place)
	for _, part := range placeWords {
		a, b := was[part.name], is[part.name]
		x, before := a.(map[string]any)
		y, after := b.(map[string]any)
		if !before && !after {
			lines = append(lines, move(part.words, has(was, part.name), a, has(is, part.name), b)...)
			continue
		}
		names := slices.Sorted(maps.Keys(x))
		for _, name := range slices.Sorted(maps.Keys(y)) {
			if !has(x, name) {
				names = append(names, name)
			}
		}
		for _, name := range names {
			lines = append(lines, move(part.words+" "+name, has(x, name), x[name], has(y, name), y[name])...)
		}
	}
	if before, ok := was["arguments"].([]any); ok {
		after, _ := is["arguments"].([]any)
		args, _ := place["args"].([]any)
		if len(before) != len(after) {
			lines = append(lines, fmt.Sprintf("the arguments: %d, and now %d", len(before), len(after)))
		}
		for i := range min(len(before), len(after)) {
			if before[i] != after[i] {
				lines = append(lines, fmt.Sprintf("argument %d: another, and now %s", i+1, shownArgument(args, i)))
			}
		}
	}
	if len(lines) == 0 {
		lines = []string{"what is not kept of it differs: values of variables, or an address behind its host"}
	}
	return lines
}

// shownArgument is an argument for people, unless it looks like a secret.
func shownArgument(args []any, i int) string {
	text, before := fmt.Sprint(args[i]), ""
	if i > 0 {
		before = fmt.Sprint(args[i-1])
	}
	if discover.HoldsSecret(before, text) {
		return "what looks like a secret"
	}
	return text
}

func has(of map[string]any, name string) bool { _, ok := of[name]; return ok }

// move says how one part of a place differs from what it was, if it does.
func move(what string, before bool, was any, after bool, is any) []string {
	text := func(v any) string {
		switch v := v.(type) {
		case string:
			if v == "" {
				return "none"
			}
			return v
		case nil:
			return "a secret"
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return "?"
		}
		return string(raw)
	}
	switch {
	case !before && !after, before && after && text(was) == text(is):
		return nil
	case !before:
		return []string{fmt.Sprintf("%s: not there, and now %s", what, text(is))}
	case !after:
		return []string{fmt.Sprintf("%s: %s, and now not there", what, text(was))}
	}
	return []string{fmt.Sprintf("%s: %s, and now %s", what, text(was), text(is))}
}

// movedFrom says in words how where a server is differs from where it was when it was imported; nothing if
// that is not known, or is not one of some places, of which there may be none.
func movedFrom(was *catalog.Server, places []string, is map[string]any) []string {
	if was == nil || was.Place == nil || len(places) > 0 && !slices.Contains(places, was.Endpoint) {
		return nil
	}
	v, err := schemas.Decode(was.Place)
	if err != nil {
		return nil
	}
	place, _ := v.(map[string]any)
	return moves(was.Endpoint, place, is)
}

// templatesOf are the templates of a server as the catalog keeps them, and nil if they are not known.
func templatesOf(s *introduced) (json.RawMessage, error) {
	if s.Unlisted != nil {
		return nil, nil
	}
	all := []any{}
	for _, t := range slices.SortedFunc(slices.Values(s.Templates), func(a, b mcp.ResourceTemplate) int { return strings.Compare(a.URITemplate, b.URITemplate) }) {
		one := map[string]any{"uriTemplate": t.URITemplate, "name": t.Name}
		if t.MIMEType != "" {
			one["mimeType"] = t.MIMEType
		}
		if t.Description != "" {
			one["description"] = t.Description
		}
		all = append(all, one)
	}
	return json.Marshal(all)
}

// byTemplate is a list of templates as an object by their URI templates, so that they are compared one by one.
func byTemplate(list json.RawMessage) (json.RawMessage, error) {
	v, err := schemas.Decode(list)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	items, _ := v.([]any)
	for _, item := range items {
		one, _ := item.(map[string]any)
		uri, _ := one["uriTemplate"].(string)
		all[uri] = one
	}
	return json.Marshal(all)
}

// said is what a server says of itself, and where it is.
func (i *introduced) said() (*serverSaid, error) {
	templates, err := templatesOf(i)
	if err != nil {
		return nil, err
	}
	place, err := json.Marshal(kept(i.Introduction.Endpoint, i.place))
	if err != nil {
		return nil, err
	}
	print, err := serverPrint(i.Server)
	if err != nil {
		return nil, err
	}
	return &serverSaid{print, i.Introduction.Raw, i.Introduction.Endpoint, place, templates}, nil
}
