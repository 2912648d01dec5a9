package docs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
)

// catalog is that of a worker without a catalog file.
func catalog(t *testing.T) *compiler.Catalog {
	t.Helper()
	_, cat, err := host.Catalog(nil, nil)
	require.NoError(t, err)
	return cat
}
