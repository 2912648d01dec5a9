package payload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// BenchmarkSealing compares the way of an outcome into a history and back,
// plain, sealed, and compressed and sealed.
func BenchmarkSealing(b *testing.B) {
	for _, size := range []int{100, 10_000, 1_000_000} {
		value := contract.Outcome{Values: []contract.Value{contract.Value(`"` + strings.Repeat("some words ", size/11) + `"`)}}
		for _, c := range []struct {
			name    string
			sealing payload.Sealing
		}{{"plain", payload.Sealing{}}, {"sealed", payload.Sealing{Keys: ring(b, "a")}}, {"compressed", sealed(b, "a")}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, size), func(b *testing.B) {
				converter := at(b, c.sealing, inActivity)
				b.SetBytes(int64(size))
				for b.Loop() {
					p, err := converter.ToPayload(value)
					require.NoError(b, err)
					var back contract.Outcome
					require.NoError(b, converter.FromPayload(p, &back))
				}
			})
		}
	}
}
