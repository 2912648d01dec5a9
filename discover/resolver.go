package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

// Bounds of a request.
const (
	requestTime   = 30 * time.Second
	maxAnswer     = 8 << 20
	maxRedirects  = 5
	searchLimit   = 100
	maxCandidates = 10
)

// ErrNotFound reports, by [errors.Is], that a registry does not know a package, or that nothing stands at an address.
var ErrNotFound = errors.New("not found")

// Resolver asks registries, over HTTPS only. An answer has a bounded size, a request a
// bounded time, and a redirect to another host is refused. The zero value asks the public
// registries.
type Resolver struct {
	// Client makes the requests; nil is a client of its own. Its cookies are not used.
	Client *http.Client
	// NPM, PyPI and NuGet are the addresses of the registries; "" is the public one.
	NPM, PyPI, NuGet string
}

// Version returns the newest exact version of a package that its registry has, or for an
// image the digest that its tag has now. For a tag of npm it is the version that has it;
// ranges are not heeded. Git repositories, addresses, modules of Go and JSR, and packages
// for which the arguments name another registry are refused.
func (r Resolver) Version(ctx context.Context, u Unpinned) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	ask, ok := map[string]func(context.Context, Unpinned) (string, error){
		"npm": r.npm, "pypi": r.pypi, "nuget": r.nuget, "oci": r.image,
	}[u.Manager]
	what := fmt.Sprintf("looking up %s %s", u.Manager, quote(u.Package))
	switch {
	case !ok:
		return "", fmt.Errorf("%s: no registry is known for it", what)
	case u.Registry != "":
		return "", fmt.Errorf("%s: its arguments name another registry (%s)", what, quote(u.Registry))
	}
	version, err := ask(ctx, u)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if !exact(u.Manager, version) {
		return "", fmt.Errorf("%s: the registry answers %s, which is no exact version", what, quote(version))
	}
	return version, nil
}

var errMalformed = errors.New("the name is malformed")

// npmTag is a tag of npm, as opposed to a range.
var npmTag = regexp.MustCompile(`^[a-z][a-z0-9._-]{1,63}$`)

func (r Resolver) npm(ctx context.Context, u Unpinned) (string, error) {
	if !npmName.MatchString(u.Package) {
		return "", errMalformed
	}
	tag := "latest"
	if npmTag.MatchString(u.Have) {
		tag = u.Have
	}
	answer, err := r.object(ctx, cmp.Or(r.NPM, "https://registry.npmjs.org"), url.PathEscape(u.Package), tag)
	if err != nil {
		return "", err
	}
	if name, _ := answer["name"].(string); name != u.Package {
		return "", fmt.Errorf("the registry answers for %s", quote(name))
	}
	version, _ := answer["version"].(string)
	return version, nil
}

func (r Resolver) pypi(ctx context.Context, u Unpinned) (string, error) {
	name, _, _ := strings.Cut(u.Package, "[")
	if !pypiName.MatchString(name) {
		return "", errMalformed
	}
	answer, err := r.object(ctx, cmp.Or(r.PyPI, "https://pypi.org"), "pypi", name, "json")
	if err != nil {
		return "", err
	}
	info, _ := answer["info"].(map[string]any)
	if found, _ := info["name"].(string); normal(found) != normal(name) {
		return "", fmt.Errorf("the registry answers for %s", quote(found))
	}
	if yanked, _ := info["yanked"].(bool); yanked {
		return "", errors.New("its newest version was withdrawn")
	}
	version, _ := info["version"].(string)
	return version, nil
}

var separators = regexp.MustCompile(`[-_.]+`)

// normal is the name of a Python package as PyPI compares it (PEP 503).
func normal(name string) string { return strings.ToLower(separators.ReplaceAllString(name, "-")) }

func (r Resolver) nuget(ctx context.Context, u Unpinned) (string, error) {
	if !nugetName.MatchString(u.Package) {
		return "", errMalformed
	}
	answer, err := r.object(ctx, cmp.Or(r.NuGet, "https://api.nuget.org"), "v3-flatcontainer", strings.ToLower(u.Package), "index.json")
	if err != nil {
		return "", err
	}
	newest := ""
	versions, _ := answer["versions"].([]any) // in ascending order
	for _, v := range versions {
		if version, _ := v.(string); version != "" && !strings.Contains(version, "-") {
			newest = version
		}
	}
	return newest, nil
}

// Fetch reads a server.json at an HTTPS address.
func (r Resolver) Fetch(ctx context.Context, address string) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	raw, _, err := r.get(ctx, address, "application/json", "")
	if err != nil {
		return Found{}, fmt.Errorf("fetching server.json: %w", err)
	}
	return ServerJSON(raw)
}

// object gets a JSON object at a path below a registry's address. Parts of the path are
// escaped already.
func (r Resolver) object(ctx context.Context, base string, parts ...string) (map[string]any, error) {
	raw, _, err := r.get(ctx, strings.TrimSuffix(base, "/")+"/"+strings.Join(parts, "/"), "application/json", "")
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

func decode(raw []byte) (map[string]any, error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("reading the answer: it is no JSON object")
	}
	return object, nil
}

// statusError is an answer other than 200.
type statusError struct {
	status int
	header http.Header
}

func (e *statusError) Error() string { return fmt.Sprintf("the registry answers %d", e.status) }

// Is reports whether target is [ErrNotFound] and the registry says so.
func (e *statusError) Is(target error) bool {
	return target == ErrNotFound && (e.status == http.StatusNotFound || e.status == http.StatusGone)
}

// get makes one request. authorization may be "".
func (r Resolver) get(ctx context.Context, address, accept, authorization string) ([]byte, http.Header, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, nil, fmt.Errorf("%s is no https address without a user", quote(hideUser(address)))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("asking %s: the address is malformed", quote(u.Host))
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "chimera")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	client := http.Client{Timeout: requestTime}
	if r.Client != nil {
		client = *r.Client
	}
	client.Jar = nil
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || next.URL.Scheme != "https" || next.URL.Host != u.Host || next.URL.User != nil {
			return errors.New("it redirects to another host, or too often")
		}
		return nil
	}
	res, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the address, whose parameters may be a secret
		}
		return nil, nil, fmt.Errorf("asking %s: %w", excerpt.Clip(u.Host, 80), err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("asking %s: %w", excerpt.Clip(u.Host, 80), &statusError{res.StatusCode, res.Header})
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, fmt.Errorf("asking %s: %w", excerpt.Clip(u.Host, 80), err)
	}
	if len(raw) > maxAnswer {
		return nil, nil, fmt.Errorf("asking %s: the answer is over %d bytes", excerpt.Clip(u.Host, 80), maxAnswer)
	}
	return raw, res.Header, nil
}

// hideUser removes the user and the parameters of an address.
func hideUser(address string) string {
	address, _, _ = strings.Cut(address, "?")
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		return "…" + address[i:]
	}
	return address
}
