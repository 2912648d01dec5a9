package fingerprint_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/fingerprint"
)

func TestTools(t *testing.T) {
	one := fingerprint.Print{Tool: "a", Digest: "sha256:11"}
	two := fingerprint.Print{Tool: "b", Digest: "sha256:22"}
	want := func(text string) string {
		sum := sha256.Sum256([]byte("mcp-server-tools/1\x00" + text))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	both := want(`[{"fingerprint":"sha256:11","name":"a"},{"fingerprint":"sha256:22","name":"b"}]`)
	for name, c := range map[string]struct {
		prints []fingerprint.Print
		want   string
	}{
		"none":     {nil, want(`[]`)},
		"one":      {[]fingerprint.Print{one}, want(`[{"fingerprint":"sha256:11","name":"a"}]`)},
		"two":      {[]fingerprint.Print{one, two}, both},
		"no order": {[]fingerprint.Print{two, one}, both},
	} {
		before := slices.Clone(c.prints)
		got, err := fingerprint.Tools(c.prints)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		require.Equal(t, before, c.prints, name)
	}
	_, err := fingerprint.Tools([]fingerprint.Print{one, two, one})
	require.EqualError(t, err, `two tools are called "a"`)
	_, err = fingerprint.Tools([]fingerprint.Print{{Tool: "\xff"}})
	require.Error(t, err)
}
