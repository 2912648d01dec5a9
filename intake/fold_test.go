package intake

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Lookalikes are not ASCII, and look like one character of it.
func TestLookalikes(t *testing.T) {
	for r, like := range lookalikes {
		require.Greater(t, r, rune(unicode.MaxASCII), "%q", r)
		require.Len(t, like, 1)
	}
	for text, want := range map[string]string{
		"Ｓａｆｅ ﬁｌｅ": "safe file", "𝐈gnore": "ignore", "Іgnоrе": "ignore", "Rеаd\u200b \n THE** `fílе`": "read the file", "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ": "abezhikmnoptyx",
		"Größe Ждэ": "große ждэ", "\U000E0041\U000E0062": "ab",
	} {
		f := fold(text)
		require.Equal(t, want, f.text)
		require.Len(t, f.from, len(f.text))
	}
}
