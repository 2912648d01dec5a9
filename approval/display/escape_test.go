package display

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		`{"a": "b\\n"}  `:          `{"a": "b\\n"}  `,
		"Zürich 東京 счёт":           "Zürich 東京 счёт",
		"a\u200bb":                 `a\u{200B}b`,
		"a\u202eb":                 `a\u{202E}b`,
		"a\U000E0041b":             `a\u{E0041}b`,
		"a\ufe00b":                 `a\u{FE00}b`,
		"re\u0430d":                `re\u{430}d`, // Cyrillic
		"x\ny\tz\x1b[2J\x7f":       `x\u{A}y\u{9}z\u{1B}[2J\u{7F}`,
		"\xff":                     `\x{FF}`,
		"\u2028":                   `\u{2028}`,
		"e\u0301":                  `e\u{301}`, // not in NFC
		strings.Repeat("x", 1<<12): strings.Repeat("x", 1<<12),
	} {
		require.Equal(t, want, Escape(text))
	}
	rapid.Check(t, func(t *rapid.T) {
		once := Escape(rapid.String().Draw(t, "text"))
		require.Equal(t, once, Escape(once))
	})
}
