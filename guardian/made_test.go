package guardian

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPredictionsAreMadeOnce(t *testing.T) {
	var p predictions
	calls := 0
	one := func() (*Simulation, error) { calls++; return &Simulation{ID: fmt.Sprint(calls)}, nil }
	for range 3 {
		s, err := p.of("a", one)
		require.NoError(t, err)
		require.Equal(t, "1", s.ID)
	}
	failing := errors.New("division by zero")
	for range 2 {
		_, err := p.of("b", func() (*Simulation, error) { calls++; return nil, failing })
		require.ErrorIs(t, err, failing)
	}
	require.Equal(t, 3, calls, "errors are not remembered")
	for i := range 3 * maxMade {
		_, err := p.of(fmt.Sprint("c", i), one)
		require.NoError(t, err)
	}
	require.Len(t, p.made, maxMade)
	require.Len(t, p.order, maxMade)
	require.NotNil(t, p.get(fmt.Sprint("c", 3*maxMade-1)))
	require.Nil(t, p.get("a"), "the oldest go first")
}
