package blob

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Not every file system syncs folders; one that does not is no reason to store nothing.
func TestAFolderThatIsNotSynced(t *testing.T) {
	require.NoError(t, sync("/proc"))
	require.Error(t, sync("/proc/no/such/folder"))
}
