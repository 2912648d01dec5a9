package fingerprint_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/fingerprint"
)

// Two tools of a server.
var (
	one = fingerprint.Print{Tool: "a", Digest: "sha256:11"}
	two = fingerprint.Print{Tool: "b", Digest: "sha256:22"}
)

// inAnyOrder checks a digest of tools, which is want of the text of their list. It returns that of
// both tools.
func inAnyOrder(t *testing.T, want func(tools string) string, digest func([]fingerprint.Print) (string, error)) string {
	t.Helper()
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
		got, err := digest(c.prints)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		require.Equal(t, before, c.prints, name)
	}
	_, err := digest([]fingerprint.Print{one, two, one})
	require.EqualError(t, err, `two tools are called "a"`)
	_, err = digest([]fingerprint.Print{{Tool: "\xff"}})
	require.Error(t, err)
	return both
}

func TestTools(t *testing.T) {
	inAnyOrder(t, func(tools string) string { return sum("mcp-server-tools/1\x00" + tools) }, fingerprint.Tools)
}
