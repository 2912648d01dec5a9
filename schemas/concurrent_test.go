package schemas_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

func digest(raw string) string {
	sum := sha256.Sum256([]byte(raw))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestCache(t *testing.T) {
	c := schemas.Cache{Entries: 2}
	get := func(raw string) *schemas.Schema {
		s, err := c.Get(digest(raw), []byte(raw))
		require.NoError(t, err)
		return s
	}
	a, b := `{"const":"a"}`, `{"const":"b"}`
	first := get(a)
	require.Same(t, first, get(a))
	second := get(b)
	require.Same(t, first, get(a)) // a is now the one used last
	get(`{"const":"c"}`)
	require.Same(t, first, get(a))
	require.NotSame(t, second, get(b), "b was dropped")

	_, err := c.Get(digest(`{"type":1}`), []byte(`{"type":1}`))
	require.Error(t, err)
	_, again := c.Get(digest(`{"type":1}`), []byte(`{"type":1}`))
	require.EqualError(t, again, err.Error())

	var other schemas.Cache
	_, err = other.Get(digest(a), []byte(b))
	require.ErrorContains(t, err, "the digest is given as")
	s, err := other.Get(digest(a), []byte(a))
	require.NoError(t, err, "a wrong text does not stay in the cache")
	require.NoError(t, s.Validate("a"))
}

func TestConcurrentUse(t *testing.T) {
	c := schemas.Cache{Entries: 4}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				raw := fmt.Sprintf(`{"patternProperties":{"^k":{"anyOf":[{"const":%d},{"$ref":"#"}]}},"additionalProperties":false}`, (i+w)%8)
				s, err := c.Get(digest(raw), []byte(raw))
				if err != nil {
					t.Error(err)
					return
				}
				_, err = s.ValidateJSON([]byte(`{"k":{"k":1,"x":2},"y":3}`))
				if err == nil || err.Error() == "" {
					t.Error("valid")
				}
			}
		})
	}
	wg.Wait()
}
