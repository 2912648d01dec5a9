package pkcs11

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a URI, in bytes; those of its parts count what is decoded. PKCS #11 gives a
// token's label and manufacturer 32 bytes, its model and serial number 16. With these
// bounds [URI.String] is never longer than maxURI.
const (
	maxURI   = 4096
	maxLabel = 32
	maxShort = 16
	maxName  = 128
	maxPath  = 400
)

// URI names a private key on a token.
type URI struct {
	// Token is the token's label, Serial its serial number, and Manufacturer and Model who
	// made it; what is "" is not compared. One of Token and Serial is given.
	Token, Serial, Manufacturer, Model string
	// Object is the key's label (CKA_LABEL), and ID the bytes of its identifier (CKA_ID);
	// what is "" is not compared. One of them is given.
	Object, ID string
	// Module is the absolute path of the token's module, or "".
	Module string
	// PINSource is the absolute path of the file that holds the PIN, or "".
	PINSource string
}

// attribute is what a URI may say.
type attribute struct {
	name  string
	most  int
	at    func(*URI) *string
	check func(value string) (string, error)
}

var pathAttributes = []attribute{
	{"token", maxLabel, func(u *URI) *string { return &u.Token }, printable},
	{"manufacturer", maxLabel, func(u *URI) *string { return &u.Manufacturer }, printable},
	{"model", maxShort, func(u *URI) *string { return &u.Model }, printable},
	{"serial", maxShort, func(u *URI) *string { return &u.Serial }, printable},
	{"object", maxName, func(u *URI) *string { return &u.Object }, printable},
	{"id", maxName, func(u *URI) *string { return &u.ID }, nil},
	{"type", maxShort, nil, private},
}

var queryAttributes = []attribute{
	{"module-path", maxPath, func(u *URI) *string { return &u.Module }, absolute},
	{"pin-source", maxPath, func(u *URI) *string { return &u.PINSource }, source},
}

// refused are attributes of RFC 7512 that this package does not support, and what to do
// instead.
var refused = map[string]string{
	"pin-value":            "a URI is no secret, so it must not hold a PIN: give pin-source",
	"module-name":          "give module-path",
	"slot-id":              "slots change: name the token by token or serial",
	"slot-description":     "slots change: name the token by token or serial",
	"slot-manufacturer":    "slots change: name the token by token or serial",
	"library-description":  "give module-path",
	"library-manufacturer": "give module-path",
	"library-version":      "give module-path",
}

// Characters that RFC 7512, section 2.3, allows beside letters, digits and %XX in the
// values of attributes: "unreserved" of RFC 3986 with pk11-path-res-avail and "&", and
// with pk11-query-res-avail.
const (
	unreserved = "-._~:[]@!$'()*+,="
	inPath     = unreserved + "&"
	inQuery    = unreserved + "/?|"
)

// Parse reads a URI of RFC 7512 that names a private key:
//
//	pkcs11:token=LABEL;object=LABEL?module-path=/PATH&pin-source=file:/PATH
//
// The path has token or serial, or both, and object or id, or both; manufacturer and model
// narrow the token down, and type may only be private. The query may have module-path and
// pin-source, which is a file with an absolute path: programs ("|…") are not run. Bytes may
// be written as %XX; "+" is a plus. Any other attribute is refused, as is one that is
// empty or given twice: a key must not be chosen by less than what was asked for. The error
// is [ErrURI], and does not repeat values.
func Parse(uri string) (URI, error) {
	if !IsURI(uri) {
		return URI{}, fmt.Errorf("%w: it does not begin with %s", ErrURI, scheme)
	}
	if len(uri) > maxURI {
		return URI{}, fmt.Errorf("%w: it has %d bytes, more than %d", ErrURI, len(uri), maxURI)
	}
	var u URI
	inside, query, queried := strings.Cut(uri[len(scheme):], "?")
	if err := u.read(inside, ";", inPath, pathAttributes); err != nil {
		return URI{}, err
	}
	if queried {
		if err := u.read(query, "&", inQuery, queryAttributes); err != nil {
			return URI{}, err
		}
	}
	switch {
	case u.Token == "" && u.Serial == "":
		return URI{}, fmt.Errorf("%w: it names no token: give token or serial", ErrURI)
	case u.Object == "" && u.ID == "":
		return URI{}, fmt.Errorf("%w: it names no key: give object or id", ErrURI)
	}
	return u, nil
}

// read reads the attributes of the path or of the query.
func (u *URI) read(text, between, allowed string, known []attribute) error {
	seen := make(map[string]bool, len(known))
	for part := range strings.SplitSeq(text, between) {
		name, raw, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%w: it must consist of NAME=VALUE, with %q between them", ErrURI, between)
		}
		a, err := find(name, known)
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("%w: %s is given twice", ErrURI, name)
		}
		seen[name] = true
		value, err := unescape(raw, allowed)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s: %w", ErrURI, name, err)
		case value == "":
			return fmt.Errorf("%w: %s is empty", ErrURI, name)
		case len(value) > a.most:
			return fmt.Errorf("%w: %s has %d bytes, more than %d", ErrURI, name, len(value), a.most)
		}
		if a.check != nil {
			if value, err = a.check(value); err != nil {
				return fmt.Errorf("%w: %s: %w", ErrURI, name, err)
			}
		}
		if a.at != nil {
			*a.at(u) = value
		}
	}
	return nil
}

func find(name string, known []attribute) (attribute, error) {
	for _, a := range known {
		if a.name == name {
			return a, nil
		}
	}
	if why, ok := refused[name]; ok {
		return attribute{}, fmt.Errorf("%w: %s is not supported: %s", ErrURI, name, why)
	}
	names := make([]string, len(known))
	for i, a := range known {
		names[i] = a.name
	}
	return attribute{}, fmt.Errorf("%w: there is no attribute %.40q here; there are %s", ErrURI, name, strings.Join(names, ", "))
}

// unescape decodes %XX, and refuses characters that must be written so.
func unescape(raw, allowed string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '%':
			if i+2 >= len(raw) {
				return "", errors.New("%XX is cut off")
			}
			high, low := hexDigit(raw[i+1]), hexDigit(raw[i+2])
			if high < 0 || low < 0 {
				return "", errors.New("%XX needs two hexadecimal digits")
			}
			b.WriteByte(byte(high<<4 | low))
			i += 2
		case plain(c, allowed):
			b.WriteByte(c)
		default:
			return "", fmt.Errorf("the byte 0x%02X must be written as %%%02X", c, c)
		}
	}
	return b.String(), nil
}

func plain(c byte, allowed string) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte(allowed, c) >= 0
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func printable(value string) (string, error) {
	if !utf8.ValidString(value) {
		return "", errors.New("it is not UTF-8")
	}
	if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", errors.New("it has characters that cannot be printed")
	}
	return value, nil
}

func private(value string) (string, error) {
	if value != "private" {
		return "", errors.New("the key must be private")
	}
	return value, nil
}

func absolute(value string) (string, error) {
	if !path.IsAbs(value) {
		return "", errors.New("the path must be absolute")
	}
	return printable(value)
}

// source returns the path of the file that a pin-source names: file:/PATH, file:///PATH or
// the path alone.
func source(value string) (string, error) {
	if strings.HasPrefix(value, "|") {
		return "", errors.New("programs are not run: name a file")
	}
	if strings.Contains(value, "%") {
		// Whether a URI within the URI is escaped once more is said nowhere.
		return "", errors.New("the path must not have %")
	}
	value, file := strings.CutPrefix(value, "file:")
	if file && strings.HasPrefix(value, "///") {
		value = value[2:] // of an empty host
	}
	if strings.HasPrefix(value, "//") {
		return "", errors.New("the path must begin with one /, as in file:/PATH")
	}
	return absolute(value)
}

// String returns the URI in one form, which [Parse] reads back.
func (u URI) String() string {
	var b strings.Builder
	write := func(before, between, allowed string, known []attribute) {
		for _, a := range known {
			if a.at == nil {
				continue
			}
			value := *a.at(&u)
			if value == "" {
				continue
			}
			b.WriteString(before)
			before = between
			b.WriteString(a.name + "=")
			if a.name == "pin-source" {
				b.WriteString("file:")
			}
			for i := range len(value) {
				if plain(value[i], allowed) {
					b.WriteByte(value[i])
				} else {
					fmt.Fprintf(&b, "%%%02X", value[i])
				}
			}
		}
	}
	b.WriteString(scheme)
	write("", ";", inPath, pathAttributes)
	write("?", "&", inQuery, queryAttributes)
	return b.String()
}
