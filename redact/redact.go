// Package redact removes secrets from output: what a child process was given in
// confidence must appear neither in its answers nor in the log.
//
// A secret is found as it is and as programs usually write it: escaped for JSON
// (also twice, as JSON in a JSON string), for Go, for HTML and for URLs, in hex,
// and in base64 at any offset of the encoded text. If a secret has several lines,
// each long line is found too. Secrets shorter than [MinBytes] are ignored, since
// they would be found everywhere.
//
// This stops accidents: error messages, debug output, a tool that prints its
// environment. A program that intends to reveal a secret can always write it in a
// way that nobody foresees.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// Mark replaces a secret.
	Mark = "[redacted]"
	// MinBytes is the length of the shortest secret that is searched for.
	MinBytes = 8
	// minLine is the length of the shortest line of a secret that is searched for by
	// itself, and minCut that of the shortest piece at a cut.
	minLine = 20
	minCut  = 4
	// cut marks where a text was cut; see [Secrets.Text].
	cut = "…"
)

// Secrets is a set of secrets to remove. A nil one removes nothing. It is safe for
// concurrent use.
type Secrets struct {
	forms    []string
	replacer *strings.Replacer
	pieces   pieces
	passing  passing
}

// Format hides the secrets from every verb.
func (s *Secrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Mark) }

// LogValue hides the secrets from slog.
func (s *Secrets) LogValue() slog.Value { return slog.StringValue(Mark) }

// New returns a set of the secrets that are at least [MinBytes] long. Others may be added while
// they are in use: see [Secrets.Add].
func New(secrets []string) *Secrets {
	found := map[string]bool{}
	for _, secret := range secrets {
		for _, s := range []string{secret, strings.TrimSpace(secret)} {
			if len(s) >= MinBytes {
				spell(found, s)
			}
		}
		for _, line := range linesOf(secret) {
			spell(found, line)
		}
	}
	s := &Secrets{}
	for form := range found {
		s.forms = append(s.forms, form)
	}
	// Of two forms at one place the longer one is replaced.
	slices.SortFunc(s.forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(s.forms))
	for _, form := range s.forms {
		pairs = append(pairs, form, Mark)
		s.pieces.add(form)
	}
	s.replacer = strings.NewReplacer(pairs...)
	return s
}

// linesOf returns the long lines of a secret that has several, such as a key in
// PEM, without their armour.
func linesOf(secret string) []string {
	parts := strings.Split(strings.NewReplacer(`\r`, "\n", `\n`, "\n", "\r", "\n").Replace(secret), "\n")
	if len(parts) < 2 {
		return nil
	}
	var out []string
	for _, line := range parts {
		if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

// spell adds the forms in which a secret is written.
func spell(found map[string]bool, secret string) {
	add := func(forms ...string) {
		for _, form := range forms {
			if len(form) >= MinBytes {
				found[form] = true
			}
		}
	}
	escaped := inJSON(secret)
	add(secret)
	add(escaped...)
	for _, form := range escaped {
		add(inJSON(form)...)
	}
	for _, quoted := range []string{strconv.Quote(secret), strconv.QuoteToASCII(secret)} {
		add(quoted[1 : len(quoted)-1])
	}
	add(html.EscapeString(secret))
	query := url.QueryEscape(secret)
	for _, form := range []string{query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(secret)} {
		add(form, lowerEscapes(form))
	}
	digits := hex.EncodeToString([]byte(secret))
	add(digits, strings.ToUpper(digits))
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			add(inside(encoding, secret, before))
		}
	}
}

// inJSON returns a text as the inside of a JSON string, as different programs write it.
func inJSON(s string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return nil
	}
	text := strings.Trim(plain.String(), "\n")
	text = text[1 : len(text)-1]
	out := []string{text, strings.ReplaceAll(text, "/", `\/`), ascii(text)}
	if safe, err := json.Marshal(s); err == nil {
		out = append(out, string(safe[1:len(safe)-1]))
	}
	return out
}

// ascii escapes what is not ASCII, as programs do that write JSON in ASCII.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r <= 0xffff:
			b.WriteString(`\u` + hex.EncodeToString([]byte{byte(r >> 8), byte(r)}))
		default:
			r -= 0x10000
			for _, half := range []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff} {
				b.WriteString(`\u` + hex.EncodeToString([]byte{byte(half >> 8), byte(half)}))
			}
		}
	}
	return b.String()
}

// lowerEscapes returns s with lower-case hex digits in percent escapes.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// inside returns the digits of base64 that depend on the secret alone, if the given number
// of bytes precedes it in the encoded text.
func inside(encoding *base64.Encoding, secret string, before int) string {
	padded := append(make([]byte, before), secret...)
	digits := encoding.EncodeToString(padded)
	// The digits in which the secret begins and ends also depend on the bytes around
	// it.
	from := (8*before + 5) / 6
	to := 8 * len(padded) / 6
	if from >= to {
		return ""
	}
	return digits[from:to]
}

// Text removes secrets from a text. If the text was cut, as "…" shows, it also removes
// pieces of secrets at the cuts.
func (s *Secrets) Text(text string) string {
	if s == nil {
		return text
	}
	text = s.replace(text)
	if strings.Contains(text, cut) {
		text = s.atCuts(text)
	}
	return text
}

// replace replaces the secrets that stand in a text as a whole.
func (s *Secrets) replace(text string) string {
	if len(s.forms) > 0 {
		text = s.replacer.Replace(text)
	}
	return s.passing.replace(text)
}

// maxCuts bounds the cuts of a text that are examined.
const maxCuts = 32

func (s *Secrets) atCuts(text string) string {
	parts := strings.SplitN(text, cut, maxCuts)
	for i := range parts {
		if i < len(parts)-1 {
			if n := max(s.pieces.atEnd(parts[i]), s.passing.atEnd(parts[i])); n > 0 {
				parts[i] = parts[i][:len(parts[i])-n] + Mark
			}
		}
		if i > 0 {
			if n := max(s.pieces.atStart(parts[i]), s.passing.atStart(parts[i])); n > 0 {
				parts[i] = Mark + parts[i][n:]
			}
		}
	}
	return strings.Join(parts, cut)
}

// JSON removes secrets from the strings, keys and numbers of a JSON text. It returns all
// other bytes unchanged, white space included.
func (s *Secrets) JSON(raw json.RawMessage) json.RawMessage {
	if s == nil {
		return raw
	}
	return s.json(raw, s.replace)
}

// Details is like [Secrets.JSON], for the details of a failure, whose texts may have been
// cut: see [Secrets.Text].
func (s *Secrets) Details(raw json.RawMessage) json.RawMessage {
	if s == nil {
		return raw
	}
	return s.json(raw, s.Text)
}

func (s *Secrets) json(raw []byte, clean func(string) string) []byte {
	var out []byte
	copied := 0
	replace := func(from, to int, with []byte) {
		out = append(append(out, raw[copied:from]...), with...)
		copied = to
	}
	for i := 0; i < len(raw); {
		if raw[i] == '"' {
			end, escaped := closing(raw, i+1)
			if with, ok := literal(raw[i:end], escaped, clean); ok {
				replace(i, end, with)
			}
			i = end
			continue
		}
		end := i
		for end < len(raw) && raw[end] != '"' && !separates(raw[end]) {
			end++
		}
		if end-i >= MinBytes {
			if token := string(raw[i:end]); clean(token) != token {
				replace(i, end, []byte(`"`+Mark+`"`))
			}
		}
		i = max(end, i+1)
	}
	if copied == 0 {
		return raw
	}
	return append(out, raw[copied:]...)
}

func separates(b byte) bool { return strings.IndexByte(" \t\r\n,:[]{}", b) >= 0 }

// closing returns the index after a string that begins before from, and whether it has
// escapes.
func closing(raw []byte, from int) (end int, escaped bool) {
	for i := from; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			return i + 1, escaped
		}
	}
	return len(raw), escaped
}

// literal removes secrets from a JSON string. ok is false if there is none.
func literal(raw []byte, escaped bool, clean func(string) string) (_ []byte, ok bool) {
	var text string
	// What is no string is taken as it is.
	if !escaped || json.Unmarshal(raw, &text) != nil {
		text = strings.Trim(string(raw), `"`)
	}
	without := clean(text)
	if without == text {
		return nil, false
	}
	with, err := json.Marshal(without)
	return with, err == nil
}

// Error removes secrets from an error's text. [errors.Is] still works on the result.
func (s *Secrets) Error(err error) error {
	if s == nil || err == nil {
		return err
	}
	text := err.Error()
	if clean := s.Text(text); clean != text {
		return hidden{clean, err}
	}
	return err
}

// hidden is an error that hides its text and those of its causes.
type hidden struct {
	text string
	err  error
}

func (h hidden) Error() string        { return h.text }
func (h hidden) Is(target error) bool { return errors.Is(h.err, target) }
