package compiler

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// TestEveryCode: every code of the compiler has an example among the test files.
func TestEveryCode(t *testing.T) {
	text, err := os.ReadFile("../diag/codes.go")
	require.NoError(t, err)
	codes := regexp.MustCompile(`Code = "((?:plan|type|effect|trust)/[a-z-]+)"`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, codes)
	shown := map[diag.Code]bool{}
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, e := range expectations(t, text) {
			shown[e.code] = true
		}
	}
	// An expression that may fail is known only once schemas are proved.
	shown[diag.TypeExprMayFail] = true
	for _, c := range codes {
		require.True(t, shown[diag.Code(c[1])], "no example of %s", c[1])
	}
}
