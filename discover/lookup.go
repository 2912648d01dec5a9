package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ServerName is the name of a server in an MCP registry, such as io.github.user/server, with the
// version that is meant, or "" for the newest.
type ServerName struct{ Name, Version string }

// serverVersion is the form of a version of a server: the registry API allows what is none of
// semantic versioning, and no ranges.
var serverVersion = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,254}$`)

// maxServerName bounds a name, in bytes.
const maxServerName = 200

// serverName is the form of a name: a domain from its end, and a name in it.
var serverName = regexp.MustCompile(`^[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+/[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// ParseServerName reads NAME or NAME@VERSION. It reports false if text is not of that form.
func ParseServerName(text string) (ServerName, bool) {
	name, version, has := strings.Cut(text, "@")
	ok := len(name) <= maxServerName && serverName.MatchString(name) && (!has || serverVersion.MatchString(version))
	return ServerName{name, version}, ok
}

// String is NAME or NAME@VERSION.
func (n ServerName) String() string {
	if n.Version == "" {
		return n.Name
	}
	return n.Name + "@" + n.Version
}

// Lookup finds a server in an MCP registry, by its name. base is the registry's address, such as
// https://registry.modelcontextprotocol.io, to which the version of the API, v0.1, is added unless
// the address ends in one.
//
// An answer about another server, or another version, is an error; so is a server that the registry
// has deleted, or of which it says what nobody here knows. A server that is not there is
// [ErrNotFound], with the names of some that are similar.
func (r Resolver) Lookup(ctx context.Context, base string, name ServerName) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	base = strings.TrimSuffix(base, "/")
	if !strings.HasSuffix(base, "/v0") && !strings.HasSuffix(base, "/v0.1") {
		base += "/v0.1"
	}
	found, err := r.lookup(ctx, base, name)
	if err != nil {
		return Found{}, fmt.Errorf("looking up server %s: %w", quote(name.String()), err)
	}
	return found, nil
}

func (r Resolver) lookup(ctx context.Context, base string, name ServerName) (Found, error) {
	if known, ok := ParseServerName(name.String()); !ok || known != name {
		return Found{}, errMalformed
	}
	version := cmp.Or(name.Version, "latest")
	raw, _, err := r.get(ctx, base+"/servers/"+url.PathEscape(name.Name)+"/versions/"+url.PathEscape(version), "application/json", "")
	switch {
	case errors.Is(err, ErrNotFound):
		return Found{}, fmt.Errorf("%w%s", err, r.similar(ctx, base, name.Name))
	case err != nil:
		return Found{}, err
	}
	answer, err := decode(raw)
	if err != nil {
		return Found{}, err
	}
	server, _ := answer["server"].(map[string]any)
	is, _ := server["name"].(string)
	has, _ := server["version"].(string)
	switch {
	case is != name.Name:
		return Found{}, fmt.Errorf("the registry answers for %s", quote(is))
	case !serverVersion.MatchString(has):
		return Found{}, fmt.Errorf("the registry answers with the version %s, which is none", quote(has))
	case name.Version != "" && has != name.Version:
		return Found{}, fmt.Errorf("the registry answers with the version %s", quote(has))
	}
	found, err := ServerJSON(raw)
	if err != nil {
		return Found{}, err
	}
	notes := []Note{{Text: fmt.Sprintf("the registry has %s in version %s", name.Name, has)}}
	switch status, said := status(answer); {
	case !said, status == "active":
	case status == "deprecated":
		notes = append(notes, Note{Text: "the registry says that the server is deprecated"})
	case status == "deleted":
		return Found{}, fmt.Errorf("the registry has deleted it: %w", ErrNotFound)
	default:
		return Found{}, fmt.Errorf("the registry says that it is %s, which is not known here", quote(status))
	}
	found.Notes = append(notes, found.Notes...)
	return found, nil
}

// status is what the registry says of a server, if it does.
func status(answer map[string]any) (string, bool) {
	meta, _ := answer["_meta"].(map[string]any)
	official, _ := meta["io.modelcontextprotocol.registry/official"].(map[string]any)
	v, said := official["status"]
	status, _ := v.(string)
	return status, said
}

// similar names servers that are called like one, as far as the first page of the registry tells.
func (r Resolver) similar(ctx context.Context, base, name string) string {
	_, short, _ := strings.Cut(name, "/")
	query := url.Values{"search": {short}, "version": {"latest"}, "limit": {fmt.Sprint(searchLimit)}}
	raw, _, err := r.get(ctx, base+"/servers?"+query.Encode(), "application/json", "")
	if err != nil {
		return ""
	}
	answer, err := decode(raw)
	if err != nil {
		return ""
	}
	var names []string
	servers, _ := answer["servers"].([]any)
	for _, item := range servers {
		entry, _ := item.(map[string]any)
		server, _ := entry["server"].(map[string]any)
		full, _ := server["name"].(string)
		if serverName.MatchString(full) && len(full) <= maxServerName && full != name && !slices.Contains(names, full) && len(names) < maxCandidates {
			names = append(names, full)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; similar are " + strings.Join(names, ", ")
}
