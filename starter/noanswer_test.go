package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/redact"
)

// TestNoAnswer: the end of what a server wrote is shown without its secrets, within bounds, on lines that
// nothing in it can break out of.
func TestNoAnswer(t *testing.T) {
	of := func(message, stderr string) *contract.Error {
		raw, err := json.Marshal(map[string]string{"stderr": stderr})
		require.NoError(t, err)
		e := contract.Errorf(contract.Unsent, "%s", message)
		e.Details = raw
		return e
	}
	secrets := redact.New([]string{"hunter2hunter2"})
	long := strings.Repeat("a", maxSaid-5)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nothing":    {contract.Errorf(contract.Unsent, "it ended"), "it ended"},
		"no details": {of("it ended", ""), "it ended"},
		"lines":      {of("it ended", "one\r\n\n  two\n"), "it ended\n  one\n    two"},
		"secrets":    {of("it ended with hunter2hunter2", "key hunter2hunter2\nis wrong"), "it ended with [redacted]\n  key [redacted]\n  is wrong"},
		"control":    {of("it ended", "\x1b[31mred\u202eder"), "it ended\n  " + foreign("\x1b[31mred\u202eder")},
		"last lines": {of("it ended", "first\n"+long+"\nlast"), "it ended\n  " + long + "\n  last"},
		"one line":   {of("it ended", "x"+strings.Repeat("b", 2*maxSaid)), "it ended\n  ..." + strings.Repeat("b", maxSaid)},
		"several":    {errors.Join(of("a ended", "x"), fmt.Errorf("ask: %w", of("b ended", "y"))), "a ended\n  x; b ended\n  y"},
	} {
		t.Run(name, func(t *testing.T) {
			f := noAnswer(c.err, nil, secrets)
			require.Equal(t, exitUnanswered, f.code)
			require.Equal(t, c.want, f.message)
			require.NotContains(t, f.message, "\x1b")
		})
	}
}
