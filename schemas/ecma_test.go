package schemas_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// withPattern compiles {"pattern": p}.
func withPattern(p string) (*schemas.Schema, error) {
	raw, err := json.Marshal(map[string]any{"pattern": p})
	if err != nil {
		return nil, err
	}
	return schemas.Compile(raw)
}

// White space and line terminators of ECMA-262, sections 12.2 and 12.3.
const (
	ecmaSpace = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
	ecmaLines = "\n\r\u2028\u2029"
)

func TestPatternClasses(t *testing.T) {
	const space = ecmaSpace
	tests := []struct {
		pattern string
		is      func(r rune) bool
	}{
		{`^.$`, func(r rune) bool { return !strings.ContainsRune(ecmaLines, r) }},
		{`^[.]$`, func(r rune) bool { return r == '.' }},
		{`^\.$`, func(r rune) bool { return r == '.' }},
		{`^\s$`, func(r rune) bool { return strings.ContainsRune(space, r) }},
		{`^\S$`, func(r rune) bool { return !strings.ContainsRune(space, r) }},
		{`^[\s]$`, func(r rune) bool { return strings.ContainsRune(space, r) }},
		{`^[^\s]$`, func(r rune) bool { return !strings.ContainsRune(space, r) }},
		{`^[\S]$`, func(r rune) bool { return !strings.ContainsRune(space, r) }},
		{`^[^\S]$`, func(r rune) bool { return strings.ContainsRune(space, r) }},
		{`^[\s\S]$`, func(rune) bool { return true }},
		{`^[\sx-z]$`, func(r rune) bool { return strings.ContainsRune(space+"xyz", r) }},
		{`^[\s-z]$`, func(r rune) bool { return strings.ContainsRune(space+"-z", r) }},
		{`^[a\s-]$`, func(r rune) bool { return strings.ContainsRune(space+"a-", r) }},
		{`^[-\s]$`, func(r rune) bool { return strings.ContainsRune(space+"-", r) }},
		{`^\d$`, func(r rune) bool { return '0' <= r && r <= '9' }},
		{`^\w$`, func(r rune) bool {
			return r < 128 && (r == '_' || regexp.MustCompile(`[0-9A-Za-z]`).MatchString(string(r)))
		}},
		{`^[^]$`, func(rune) bool { return true }},
		{`^[]$`, func(rune) bool { return false }},
		{`^(?:[]|a)$`, func(r rune) bool { return r == 'a' }},
		{`^[[]$`, func(r rune) bool { return r == '[' }},
		{`^[[:a]$`, func(r rune) bool { return r == '[' || r == ':' || r == 'a' }},
		{`^[\]\\]$`, func(r rune) bool { return r == ']' || r == '\\' }},
		{`^[a^]$`, func(r rune) bool { return r == 'a' || r == '^' }},
		{`^[\b]$`, func(r rune) bool { return r == '\b' }},
		{`^[+--]$`, func(r rune) bool { return '+' <= r && r <= '-' }},
		{`^\cJ$`, func(r rune) bool { return r == '\n' }},
		{`^[\cA-\cC]$`, func(r rune) bool { return 1 <= r && r <= 3 }},
		{`^\u00e9$`, func(r rune) bool { return r == 'é' }},
		{`^[\u0041-\u{43}]$`, func(r rune) bool { return 'A' <= r && r <= 'C' }},
		{`^\uD83D\uDE00$`, func(r rune) bool { return r == '😀' }},
		{`^[\uD83D\uDE00a]$`, func(r rune) bool { return r == '😀' || r == 'a' }},
		{`^\u{1F600}$`, func(r rune) bool { return r == '😀' }},
		{`^\x41$`, func(r rune) bool { return r == 'A' }},
		{`^\0$`, func(r rune) bool { return r == 0 }},
		{`^[\0]$`, func(r rune) bool { return r == 0 }},
		{`^\p{Lu}$`, func(r rune) bool { return regexp.MustCompile(`\p{Lu}`).MatchString(string(r)) }},
		{`^[^\p{Script=Greek}]$`, func(r rune) bool { return !regexp.MustCompile(`\p{Greek}`).MatchString(string(r)) }},
		{`^\P{gc=L}$`, func(r rune) bool { return regexp.MustCompile(`\PL`).MatchString(string(r)) }},
		{`^(?i)[a]$`, func(r rune) bool { return r == 'a' || r == 'A' }},
		{`^(?s).$`, func(rune) bool { return true }},
		{`^(?s:.)$`, func(rune) bool { return true }},
		{`^(?:(?s).)$`, func(rune) bool { return true }},
		{`^(?:(?s)(?:))(?:.)$`, func(r rune) bool { return !strings.ContainsRune(ecmaLines, r) }},
		{`^(?s)(?-s:.)$`, func(r rune) bool { return !strings.ContainsRune(ecmaLines, r) }},
		{`^(?<n>.)$`, func(r rune) bool { return !strings.ContainsRune(ecmaLines, r) }},
		{`^\Q.\E$`, func(r rune) bool { return r == '.' }},
	}
	runes := ecmaSpace + "\x00\x01\x02\x03\baAbBC09_.:-,+*[]^\\&~xyz ~éſKαΩÀ\u0085\u180e\u200b\u2027\u202a\u2060\ufefe\uff00😀\U0010ffff"
	for _, tt := range tests {
		s, err := withPattern(tt.pattern)
		require.NoError(t, err, tt.pattern)
		for _, r := range runes {
			require.Equal(t, tt.is(r), s.Validate(string(r)) == nil, "%s of %U", tt.pattern, r)
		}
	}
}

func TestPatternTexts(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{`^a$`, "a\n", false}, {`^a$`, "a", true}, {`^b`, "a\nb", false}, {`a`, "bab", true}, {`^\S+@\S+$`, "a@b", true}, {`^\S+@\S+$`, "a\u00a0@b", false},
		{`^[]a]$`, "]", false}, {`x{,2}`, "x{,2}", true}, {`^é.\b`, "é\r", false}, {`^.*$`, "a\u2028b", false}, {`a\.b`, "a.b", true}, {`a\.b`, "axb", false},
		{`\\.`, `\n`, true}, {`\\.`, "\\\n", false}, {`^\/\-$`, "/-", true},
	} {
		s, err := withPattern(tt.pattern)
		require.NoError(t, err, tt.pattern)
		require.Equal(t, tt.want, s.Validate(tt.text) == nil, "%s of %q", tt.pattern, tt.text)
	}
}

func TestPatternsStandEverywhere(t *testing.T) {
	for _, schema := range []string{
		`{"pattern":"^.$"}`, `{"not":{"not":{"pattern":"^.$"}}}`, `{"$ref":"#/x/0","x":[{"pattern":"^.$"}]}`,
		`{"$dynamicRef":"#n","$defs":{"a":{"$dynamicAnchor":"n","pattern":"^.$"}}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","allOf":[{"pattern":"^.$"}]}`, `{"if":true,"then":{"pattern":"^\\u{0}?.$"}}`,
	} {
		s := mustCompile(t, schema)
		require.NoError(t, s.Validate("a"), schema)
		require.Error(t, s.Validate("\u2028"), schema)
	}
	s := mustCompile(t, `{"patternProperties":{"^.$":{"type":"null"},"^a\\s":false},"additionalProperties":{"type":"string"}}`)
	require.NoError(t, s.Validate(map[string]any{"x": nil, "\u2028": "long"}))
	err := s.Validate(map[string]any{"x": "", "a\u00a0": ""})
	require.EqualError(t, err, `/a`+"\u00a0"+`: no value is allowed here; /x: expected null, but got string`)
	require.Equal(t, `{patternProperties: {"^.$": {type: null}, "^a\\s": false}, additionalProperties: {type: string}}`, s.Describe())
	// A schema that is also a value stays a value.
	_, err = schemas.Compile([]byte(`{"$defs":{"a":{"const":{"pattern":"\\u0041"}}},"$ref":"#/$defs/a/const"}`))
	require.ErrorContains(t, err, "is not RE2")
}

func TestPatternAuthor(t *testing.T) {
	for author, want := range map[string]string{
		`^.\s$`: `does not match pattern '^.\\s$'`, `^\u0041$`: `does not match pattern '^\\u0041$'`, `^a$`: `does not match pattern '^a$'`, `^'".$`: `does not match pattern '^\'".$'`,
	} {
		s, err := withPattern(author)
		require.NoError(t, err)
		require.EqualError(t, s.Validate("long text"), want)
		quoted, err := json.Marshal(author)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("{pattern: %s}", quoted), s.Describe())
		// Parts of documents say the same.
		made := schemas.Make(schemas.Keywords{All: []*schemas.Schema{schemas.Wrap(s.Compiled())}})
		require.EqualError(t, made.Validate("long text"), want)
	}
}

func TestPatternsRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		`(?=a)`: `"(?="`, `a(?!b)`: `"(?!"`, `(?<=a)b`: `"(?<="`, `(?<!a)b`: `"(?<!"`, `(a)\1`: `\\1`, `(a)\12`: `back reference`, `(?<n>a)\k<n>`: `\\k`,
		`\uD83D`: `\\u`, `\uDE00\uD83D`: `\\u`, `[a-\s]`: `\\s`, `[\u0000-\s]`: "RE2", `[b-a]`: "range", `[a`: "]", `(`: ")", `\`: "RE2", `\c`: `\\c`, `\c1`: `\\c`,
		`\u{110000}`: `\\u`, `\u00`: `\\u`, `a**`: "RE2", `[\`: "RE2", `[\q]`: `\\q`,
	} {
		raw, err := json.Marshal(map[string]any{"properties": map[string]any{"a": map[string]any{"pattern": pattern}}})
		require.NoError(t, err)
		_, err = schemas.Compile(raw)
		require.ErrorContains(t, err, `at "/properties/a": `, pattern)
		require.ErrorContains(t, err, want, pattern)
		require.NotContains(t, err.Error(), `x{`, pattern)
	}
	// What only the names of members could tell stays refused.
	_, err := schemas.Compile([]byte(`{"patternProperties":{"\\u0041":true}}`))
	require.ErrorContains(t, err, "is not RE2")
	// The bounds hold for what is run.
	for _, pattern := range []string{strings.Repeat(`[\s]{500}`, 40), `(?:` + strings.Repeat(".", 400) + `){20}`, strings.Repeat(".", schemas.MaxPattern+1)} {
		_, err := withPattern(pattern)
		require.ErrorIs(t, err, schemas.ErrTooLarge)
	}
	_, err = withPattern(strings.Repeat(".", 2000))
	require.NoError(t, err)
}

func FuzzPattern(f *testing.F) {
	for _, seed := range []string{`^.\s$`, `[^\s\S-]`, `[]a]`, `(?s:.)(?-s).`, `\uD83D\uDE00`, `\cA[\b]`, `\Q.\E`, `[\p{L}-z]`, `\p{sc=Greek}`, `[[:alpha:]]`, `(?<n>.)\1`} {
		f.Add(seed, "a")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		s, err := withPattern(pattern)
		if err != nil {
			if strings.Contains(err.Error(), "cannot be compiled") {
				t.Fatal(err)
			}
			return
		}
		if _, err := regexp.Compile(s.Compiled().Pattern.String()); err != nil {
			t.Fatal(err)
		}
		// A pattern without anything that the two languages write differently does not
		// change.
		own, err := regexp.Compile(pattern)
		if err == nil && !strings.ContainsAny(pattern, `\[.`) && own.String() != s.Compiled().Pattern.String() {
			t.Fatalf("%q became %q", pattern, s.Compiled().Pattern)
		}
		_ = s.Validate(text)
	})
}
