package activities_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/trust"
)

// TestAGuardianThatIsNotStated: a guardian says at its start if the admins do not let its key
// sign permits, and says when they do.
func TestAGuardianThatIsNotStated(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	log := new(stage.Log)
	a.Options.Logger = slog.New(slog.NewTextHandler(log, nil))
	const says = "no statement of the admins lets this guardian's key sign permits"
	a.Again(t)
	require.NoError(t, a.Await(t, a.Start(t, "stated", a.Publish(t, stage.ActingPlan), `{"line":"a"}`), nil))
	require.NotContains(t, log.String(), says)

	key, _, err := trust.NewKey()
	require.NoError(t, err)
	a.Options.GuardianKey = key
	a.Again(t)
	stage.Until(t, "it says so", func() bool { return strings.Contains(log.String(), says) })
	require.Contains(t, log.String(), "key="+key.ID())
	require.NotContains(t, log.String(), "sign permits now")
	a.State(t, &trust.AddGuardian{ID: "g2", Key: key.Public()})
	stage.Until(t, "it says that they do", func() bool { return strings.Contains(log.String(), "sign permits now\" guardian=g2") })
	require.Equal(t, 1, strings.Count(log.String(), says))
}
