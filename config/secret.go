package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/internal/process"
)

// Secret is a text that may hold references to secrets, or, after [Config.Resolve], the
// secrets themselves. It always prints as "[hidden]".
type Secret string

const hidden = "[hidden]"

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the text.
func (s Secret) String() string { return hidden }

// GoString hides the text from %#v.
func (s Secret) GoString() string { return hidden }

// Format hides the text from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides the text from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// maxSecret bounds a file that holds a secret, in bytes.
const maxSecret = 64 << 10

// part is a piece of a secret's text: literal text, or a reference.
type part struct {
	literal string
	// scheme is "env" or "file", or "" for literal text.
	scheme, name string
}

// malformed says what is wrong with a reference, and where, in bytes.
type malformed struct {
	offset, end int
	message     string
}

func (m *malformed) Error() string { return m.message }

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// split reads the references in text. "$${" stands for "${" itself.
func split(text string) ([]part, error) {
	var parts []part
	var literal strings.Builder
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			literal.WriteString("${")
			i += 3
		case strings.HasPrefix(rest, "${"):
			length := strings.IndexByte(rest, '}')
			if length < 0 {
				return nil, &malformed{i, len(text), "the reference has no closing }"}
			}
			end := i + length + 1
			scheme, name, _ := strings.Cut(rest[2:length], ":")
			switch {
			case scheme == "env" && variableName.MatchString(name):
			case scheme == "env":
				return nil, &malformed{i, end, "a reference to a variable is ${env:NAME}"}
			case scheme == "file" && name != "" && !strings.ContainsRune(name, 0):
			case scheme == "file":
				return nil, &malformed{i, end, "a reference to a file is ${file:PATH}"}
			default:
				return nil, &malformed{i, end, "a reference is ${env:NAME} or ${file:PATH}; write $${ for the text ${"}
			}
			if literal.Len() > 0 {
				parts = append(parts, part{literal: literal.String()})
				literal.Reset()
			}
			parts = append(parts, part{scheme: scheme, name: name})
			i = end
		default:
			literal.WriteByte(text[i])
			i++
		}
	}
	if literal.Len() > 0 {
		parts = append(parts, part{literal: literal.String()})
	}
	return parts, nil
}

// resolver reads secrets.
type resolver struct {
	// dir is the folder to which relative paths are relative.
	dir    string
	lookup func(string) (string, bool)
	// found, if not nil, is called with the value of every reference, and opened with the path of every
	// file.
	found, opened func(string)
}

// resolve returns the text with every reference replaced. Its error names the
// reference, never a secret.
func (r resolver) resolve(s Secret) (Secret, error) {
	parts, err := split(string(s))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range parts {
		value := p.literal
		switch p.scheme {
		case "env":
			var ok bool
			if value, ok = r.lookup(p.name); !ok {
				return "", fmt.Errorf("the variable %s is not set", p.name)
			}
		case "file":
			if value, err = r.file(p.name); err != nil {
				return "", err
			}
		}
		if p.scheme != "" && r.found != nil && !(p.scheme == "env" && slices.Contains(process.Inherited(), p.name)) {
			r.found(value)
		}
		b.WriteString(value)
	}
	if strings.ContainsRune(b.String(), 0) {
		return "", errors.New("the value holds a zero byte")
	}
	return Secret(b.String()), nil
}

// file reads a secret from a regular file, without the final line end that editors add.
func (r resolver) file(name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.dir, name)
	}
	if r.opened != nil {
		r.opened(name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("reading a secret: %s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	if len(raw) > maxSecret {
		return "", fmt.Errorf("reading a secret: %s is over %d bytes", name, maxSecret)
	}
	if !utf8.Valid(raw) {
		return "", fmt.Errorf("reading a secret: %s is not UTF-8 text", name)
	}
	text := strings.TrimSuffix(string(raw), "\n")
	return strings.TrimSuffix(text, "\r"), nil
}
