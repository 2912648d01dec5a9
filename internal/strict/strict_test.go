package strict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/strict"
)

func TestDecode(t *testing.T) {
	var v struct {
		A int `json:"a"`
	}
	require.NoError(t, strict.Decode([]byte(" {\"a\": 1}\n"), &v))
	require.Equal(t, 1, v.A)
	for _, bad := range []string{``, `{`, `{"a": 1, "b": 2}`, `{"a": 1} {}`, `{"a": 1}]`, `{"a": "1"}`} {
		require.Error(t, strict.Decode([]byte(bad), &v), bad)
	}
}
