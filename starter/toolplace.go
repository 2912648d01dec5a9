package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/discover"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/schemas"
)

// hiddenValue stands for what looks like a secret in what is kept of where a server is.
const hiddenValue = "[hidden]"

// kept is what identifies where a server is, without what looks like a secret.
func kept(place map[string]any) map[string]any {
	all := maps.Clone(place)
	if args, ok := place["args"].([]any); ok {
		shown, before := make([]any, len(args)), ""
		for i, arg := range args {
			text, _ := arg.(string)
			if shown[i] = arg; discover.HoldsSecret(before, text) {
				shown[i] = hiddenValue
			}
			before = text
		}
		all["args"] = shown
	}
	if env, ok := place["env"].(map[string]any); ok {
		shown := maps.Clone(env)
		for name, value := range env {
			if text, ok := value.(string); ok && discover.HoldsSecret("-"+name, text) {
				shown[name] = hiddenValue
			}
		}
		all["env"] = shown
	}
	for _, name := range []string{"command", "url", "issuer", "token_url"} {
		if text, ok := place[name].(string); ok && discover.HoldsSecret("", text) {
			all[name] = hiddenValue
		}
	}
	return all
}

// placeWords are the parts of where a server is, in the order in which they are shown, in words.
var placeWords = []struct{ name, words string }{
	{"transport", "the transport"}, {"command", "the program"}, {"executable", "the digest of the program"}, {"args", "the arguments"},
	{"cwd", "the working directory"}, {"env", "the variable"}, {"pin", "the digest of the pinned"}, {"url", "the address"},
	{"ca", "the keys of the authorities"}, {"pins", "the pinned keys"}, {"server_name", "the name in the certificate"},
	{"issuer", "the issuer of tokens"}, {"token_url", "the address of tokens"},
}

// moves says in words how a place differs from another, of both of which it is known without what looks like
// a secret.
func moves(was, is map[string]any) (lines []string) {
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
	if len(lines) == 0 {
		lines = []string{"what is hidden of it, since it looks like a secret, differs"}
	}
	return lines
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
	return moves(place, kept(is))
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
	place, err := json.Marshal(kept(i.place))
	if err != nil {
		return nil, err
	}
	print, err := serverPrint(i.Server)
	if err != nil {
		return nil, err
	}
	return &serverSaid{print, i.Introduction.Raw, i.Introduction.Endpoint, place, templates}, nil
}
