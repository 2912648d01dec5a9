package causal

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSimulate: whatever the model, there is an error, or a prediction that is JSON with a risk from 0 to 1, which is
// that of the same model and seed again.
func FuzzSimulate(f *testing.F) {
	for _, g := range goldens() {
		raw, err := json.Marshal(g.Model)
		require.NoError(f, err)
		do, err := json.Marshal(g.Do)
		require.NoError(f, err)
		f.Add(raw, do)
	}
	f.Fuzz(func(t *testing.T, raw, set []byte) {
		var m Model
		var do []Intervention
		if json.Unmarshal(raw, &m) != nil || json.Unmarshal(set, &do) != nil {
			return
		}
		m.Samples = MinSamples
		s, err := New(&m)
		if err != nil {
			return
		}
		for _, force := range []Method{"", MonteCarlo} {
			s.force = force
			p, err := s.Simulate(do, "seed")
			if err != nil {
				require.Nil(t, p)
				continue
			}
			risk, err := p.Risk.Float64()
			require.NoError(t, err)
			require.True(t, risk >= 0 && risk <= 1)
			require.LessOrEqual(t, len(p.Summary), 500)
			first, err := json.Marshal(p)
			require.NoError(t, err)
			p, err = s.Simulate(do, "seed")
			require.NoError(t, err)
			again, err := json.Marshal(p)
			require.NoError(t, err)
			require.Equal(t, string(first), string(again))
		}
	})
}
