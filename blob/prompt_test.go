package blob_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/blob"
)

// hanging is a store that answers when its gate is open, whatever its context says.
type hanging struct{ gate chan struct{} }

func (h hanging) Put(context.Context, []byte) (string, error) { <-h.gate; return "sha256:0", nil }
func (h hanging) Get(context.Context, string) ([]byte, error) { <-h.gate; return []byte("x"), nil }
func (h hanging) Check(context.Context) error                 { <-h.gate; return errors.New("full") }

// TestPrompt: a store that hangs fails in time, as often as it is asked, and works
// again when it answers.
func TestPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := blob.Prompt(hanging{gate}, 5*time.Second)
		for range 100 {
			_, err := s.Put(t.Context(), nil)
			require.ErrorIs(t, err, blob.ErrHangs)
		}
		_, err := s.Get(t.Context(), "sha256:0")
		require.ErrorIs(t, err, blob.ErrHangs)
		require.ErrorIs(t, s.Check(t.Context()), blob.ErrHangs)
		close(gate)
		synctest.Wait()
		digest, err := s.Put(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "sha256:0", digest)
		b, err := s.Get(t.Context(), "sha256:0")
		require.NoError(t, err)
		require.Equal(t, "x", string(b))
		require.EqualError(t, s.Check(t.Context()), "full")
	})
}
