package discover

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Lookup finds a server in an MCP registry, by its whole name or by the part of it behind
// the slash, and reads its newest version. base is the address of the registry, such as
// https://registry.modelcontextprotocol.io; unless it ends in the version of the API, that is
// /v0.
//
// Several servers of one name are an error that names them; none is [ErrNotFound].
func (r Resolver) Lookup(ctx context.Context, base, name string) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	base = strings.TrimSuffix(base, "/")
	if !strings.HasSuffix(base, "/v0") && !strings.HasSuffix(base, "/v0.1") {
		base += "/v0"
	}
	found, err := r.lookup(ctx, base, name)
	if err != nil {
		return Found{}, fmt.Errorf("looking up server %s: %w", quote(name), err)
	}
	return found, nil
}

func (r Resolver) lookup(ctx context.Context, base, name string) (Found, error) {
	if !strings.Contains(name, "/") {
		full, err := r.search(ctx, base, name)
		if err != nil {
			return Found{}, err
		}
		name = full
	}
	if !registryName.MatchString(name) {
		return Found{}, errMalformed
	}
	raw, _, err := r.get(ctx, base+"/servers/"+url.PathEscape(name)+"/versions/latest", "application/json", "")
	if err != nil {
		return Found{}, err
	}
	answer, err := decode(raw)
	if err != nil {
		return Found{}, err
	}
	server, _ := answer["server"].(map[string]any)
	if found, _ := server["name"].(string); found != name {
		return Found{}, fmt.Errorf("the registry answers for %s", quote(found))
	}
	meta, _ := answer["_meta"].(map[string]any)
	official, _ := meta["io.modelcontextprotocol.registry/official"].(map[string]any)
	status, _ := official["status"].(string)
	if status == "deleted" {
		return Found{}, fmt.Errorf("it was deleted: %w", ErrNotFound)
	}
	found, err := ServerJSON(raw)
	if err == nil && status == "deprecated" {
		found.Notes = slices.Insert(found.Notes, 0, Note{Text: "the registry says that the server is deprecated"})
	}
	return found, err
}

// search returns the whole name of the one server that is called so.
func (r Resolver) search(ctx context.Context, base, name string) (string, error) {
	query := url.Values{"search": {name}, "version": {"latest"}, "limit": {fmt.Sprint(searchLimit)}}
	raw, _, err := r.get(ctx, base+"/servers?"+query.Encode(), "application/json", "")
	if err != nil {
		return "", err
	}
	answer, err := decode(raw)
	if err != nil {
		return "", err
	}
	var exact, near []string
	servers, _ := answer["servers"].([]any)
	for _, item := range servers {
		entry, _ := item.(map[string]any)
		server, _ := entry["server"].(map[string]any)
		full, _ := server["name"].(string)
		switch {
		case !registryName.MatchString(full) || slices.Contains(exact, full) || slices.Contains(near, full):
		case strings.HasSuffix(full, "/"+name):
			exact = append(exact, full)
		default:
			near = append(near, full)
		}
	}
	more := ""
	if metadata, _ := answer["metadata"].(map[string]any); metadata["nextCursor"] != nil && metadata["nextCursor"] != "" {
		more = ", and more"
	}
	list := func(names []string) string { return strings.Join(names[:min(len(names), maxCandidates)], ", ") }
	switch {
	case len(exact) == 1 && more == "":
		return exact[0], nil
	case len(exact) > 0:
		return "", fmt.Errorf("there are %s%s: give the whole name", list(exact), more)
	case len(near) > 0:
		return "", fmt.Errorf("%w; similar are %s%s", ErrNotFound, list(near), more)
	}
	return "", ErrNotFound
}
