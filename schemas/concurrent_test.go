package schemas_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

func TestConcurrentUse(t *testing.T) {
	shared := make([]*schemas.Schema, 4)
	for i := range shared {
		var err error
		shared[i], err = schemas.Compile(fmt.Appendf(nil, `{"patternProperties":{"^k":{"anyOf":[{"const":%d},{"$ref":"#"}]}},"additionalProperties":false}`, i))
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				_, err := shared[(i+w)%len(shared)].ValidateJSON([]byte(`{"k":{"k":1,"x":2},"y":3}`))
				if err == nil || err.Error() == "" {
					t.Error("valid")
				}
			}
		})
	}
	wg.Wait()
}
