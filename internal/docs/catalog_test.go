package docs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/host"
)

// catalog is that of a worker without a catalog file.
func operations(t *testing.T) *catalog.Catalog {
	t.Helper()
	_, cat, err := host.Catalog(nil, nil)
	require.NoError(t, err)
	return cat
}
