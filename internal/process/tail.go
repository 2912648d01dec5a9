package process

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// Tail is a writer that keeps the end of what a child wrote. It may be used
// from several goroutines.
type Tail struct {
	// Limit bounds the retained text, in bytes.
	Limit int

	mu   sync.Mutex
	kept []byte
	cut  bool
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.Limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns the retained text as valid UTF-8, without a truncated first line. If
// there is only that line, it begins with "…".
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := string(t.kept)
	if t.cut {
		if _, rest, ok := strings.Cut(s, "\n"); ok {
			s = rest
		} else {
			s = "…" + s
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Clip bounds text that a child wrote to about n bytes of valid UTF-8.
func Clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
