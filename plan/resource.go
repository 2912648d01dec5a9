package plan

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"chimera.ai/engine/internal/excerpt"
)

// Resource says that an operation of an MCP server is no tool, but reads its resources, or lists
// them.
//
// A URI is read only in normal form: a scheme, "://", an authority without a user, which may be
// empty, and segments of a path, each after a slash. Scheme and authority are in small letters. No
// segment is empty, "." or "..". What a segment may hold as it is, it does not encode; what it
// encodes is UTF-8 with capital digits, and no slash, backslash, percent sign, semicolon or control
// character. There is no query and no fragment.
//
// A pattern is such a URI, in whose segments "*" stands for any characters, and "**" as a segment
// for one or more segments.
type Resource struct {
	// URIs are the patterns of the URIs that may be read, and that a list holds, sorted.
	URIs []string `json:"uris"`
	// As is the form of what is read, or "" for a list.
	As ResourceForm `json:"as,omitempty"`
}

// ResourceForm says what the text of a resource is.
type ResourceForm string

// The forms of resources.
const (
	AsText ResourceForm = "text"
	AsJSON ResourceForm = "json"
)

// Bounds of resources: the patterns of one operation, and the bytes of a pattern and of a URI.
const (
	MaxURIPatterns = 16
	MaxURIPattern  = 256
	MaxURI         = 2048
)

// Expressions for characters of a segment, but the dot; of those that are encoded, the ones beyond
// ASCII are not looked at.
const (
	notDot  = `(?:[A-Za-z0-9_~!$&'()*+,=:@-]|%(?:[89A-F][0-9A-F]|2[023]|3[CEF]|5[BDE]|60|7[BCD]))`
	anyChar = `(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%(?:[89A-F][0-9A-F]|2[023]|3[CEF]|5[BDE]|60|7[BCD]))`
	segment = `(?:\.{0,2}` + notDot + `|\.{3})` + anyChar + `*`
)

var uriForm = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://(?:[a-z0-9._~-]+(?::[0-9]+)?)?(?:/` + segment + `)*$`)

// CheckPattern says what is wrong with a pattern of URIs, or returns nil.
func CheckPattern(pattern string) error {
	if len(pattern) > MaxURIPattern {
		return fmt.Errorf("it is longer than %d bytes", MaxURIPattern)
	}
	if err := normal(pattern); err != nil {
		return err
	}
	for _, s := range segmentsOf(pattern) {
		if s != "**" && strings.Contains(s, "**") {
			return errors.New("`**` is a segment of its own")
		}
	}
	return nil
}

// normal returns an error unless a URI is in normal form.
func normal(uri string) error {
	if len(uri) > MaxURI {
		return fmt.Errorf("it is longer than %d bytes", MaxURI)
	}
	if !uriForm.MatchString(uri) {
		return errors.New("it is not a URI in normal form (scheme://authority/path)")
	}
	for _, s := range segmentsOf(uri) {
		if text := decoded(s); !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("it encodes what is not text in UTF-8, or a control character")
		}
	}
	return nil
}

// segmentsOf returns the segments of a URI in normal form.
func segmentsOf(uri string) []string {
	_, rest, _ := strings.Cut(uri, "://")
	return strings.Split(rest, "/")[1:]
}

// decoded is a segment in normal form without its encoding.
func decoded(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte(digit(s[i+1])<<4 | digit(s[i+2]))
		i += 2
	}
	return b.String()
}

func digit(c byte) byte {
	if c >= 'A' {
		return c - 'A' + 10
	}
	return c - '0'
}

// Allows returns why a URI may not be read, or nil.
func (r *Resource) Allows(uri string) error { return r.Matcher().Allows(uri) }

// A Matcher matches URIs with the patterns of a [Resource], which are compiled once.
type Matcher struct {
	URIs []string
	all  *regexp.Regexp
	err  error
}

// Matcher compiles the patterns, for whoever matches many URIs.
func (r *Resource) Matcher() *Matcher {
	all, err := regexp.Compile(r.Pattern()) // the expression is one of RE2 as well
	return &Matcher{r.URIs, all, err}
}

// Allows is [Resource.Allows].
func (m *Matcher) Allows(uri string) error {
	if err := normal(uri); err != nil {
		return fmt.Errorf("%s is not to be read: %w", excerpt.Quote(uri, 200), err)
	}
	if m.err != nil || !m.all.MatchString(uri) {
		return fmt.Errorf("%s is not to be read: no pattern of the operation matches it", excerpt.Quote(uri, 200))
	}
	return nil
}

// Pattern is a regular expression for a JSON Schema. It matches the URIs that the patterns match,
// and may match some that are not in normal form.
func (r *Resource) Pattern() string {
	all := make([]string, len(r.URIs))
	for i, p := range r.URIs {
		all[i] = expression(p)
	}
	return "^(?:" + strings.Join(all, "|") + ")$"
}

// expression is a regular expression for one pattern.
func expression(pattern string) string {
	scheme, rest, _ := strings.Cut(pattern, "://")
	parts := strings.Split(rest, "/")
	var b strings.Builder
	b.WriteString(regexp.QuoteMeta(scheme + "://" + parts[0]))
	for _, s := range parts[1:] {
		switch s {
		case "**":
			b.WriteString("(?:/" + segment + ")+")
		case "*":
			b.WriteString("/" + segment)
		default:
			b.WriteString("/" + strings.ReplaceAll(regexp.QuoteMeta(s), `\*`, anyChar+"*"))
		}
	}
	return b.String()
}

// Literal returns the one URI that may be read, or "" if there may be several.
func (r *Resource) Literal() string {
	if len(r.URIs) == 1 && !strings.Contains(r.URIs[0], "*") {
		return r.URIs[0]
	}
	return ""
}

func (r *Resource) verify(n *Node) error {
	switch {
	case n.ProviderType != MCP || n.Effect != Pure || n.Mode != Deter:
		return errors.New("a resource is a pure deterministic operation of an MCP server")
	case r.As != "" && r.As != AsText && r.As != AsJSON:
		return fmt.Errorf("unknown form of a resource %q", r.As)
	case len(r.URIs) == 0 || len(r.URIs) > MaxURIPatterns:
		return errors.New("the patterns of a resource are out of range")
	case !ascending(r.URIs):
		return errors.New("the patterns of a resource are not sorted")
	case n.Fingerprint != "" && (r.As == "" || r.Literal() == ""):
		return errors.New("a fingerprint is that of one resource")
	}
	for _, p := range r.URIs {
		if err := CheckPattern(p); err != nil {
			return fmt.Errorf("the pattern %s: %w", excerpt.Quote(p, 200), err)
		}
	}
	return nil
}
