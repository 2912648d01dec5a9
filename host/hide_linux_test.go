package host_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"golang.org/x/sys/unix"

	"chimera.ai/engine/host"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// TestHostsInProductionHide: what embeds a host is not dumpable, as a worker is not, once it may have keys.
func TestHostsInProductionHide(t *testing.T) {
	const again = "HOST_TEST_HIDES"
	if os.Getenv(again) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostsInProductionHide$", "-test.v")
		cmd.Env = append(os.Environ(), again+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestHostsInProductionHide")
		return
	}
	part, err := payload.RoleKey(keys(t, "k1")[0], "tools")
	require.NoError(t, err)
	o := host.Options{
		Store: store.Options{Driver: store.Postgres, URL: "postgres://127.0.0.1:1/x", Origin: "example.com/log", Dir: t.TempDir(), InDatabase: true},
		Roles: []host.Role{host.RoleTools}, Sealing: sealing(t, part), Client: client.Options{HostPort: "127.0.0.1:1"}, Dev: true,
	}
	for _, dev := range []bool{true, false} {
		o.Dev = dev
		_, err := host.New(t.Context(), o)
		require.Error(t, err, "there is no database")
		dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		require.NoError(t, err)
		require.Equal(t, dev, dumpable == 1)
	}
}
