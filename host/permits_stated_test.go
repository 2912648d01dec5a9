package host_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/trust"
)

// TestAGuardianThatNobodyHasStated: the guardian says at its start that the admins do not let its key sign
// permits, and says when they do.
func TestAGuardianThatNobodyHasStated(t *testing.T) {
	stage.Parallel(t)
	a := produce(t, "book", writes, actingCatalog, actingPolicy)
	log := new(lines)
	o := a.role(t, a.options, host.RoleGuardian)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	const says = "no statement of the admins lets this guardian's key sign permits"
	for _, stated := range []bool{true, false} {
		if !stated {
			var err error
			o.GuardianKey, _, err = trust.NewKey()
			require.NoError(t, err)
		}
		h := stage.Host(t, o)
		if stated {
			require.NoError(t, h.Close())
			require.NotContains(t, log.String(), says)
			continue
		}
		stage.Until(t, "it says so", func() bool { return strings.Contains(log.String(), says) })
		require.Contains(t, log.String(), "key="+o.GuardianKey.ID())
		require.NotContains(t, log.String(), "sign permits now")
		a.state(t, &trust.AddGuardian{ID: "g2", Key: o.GuardianKey.Public()})
		stage.Until(t, "it says that they do", func() bool { return strings.Contains(log.String(), "sign permits now\" guardian=g2") })
		require.Equal(t, 1, strings.Count(log.String(), says))
	}
}
