package activities

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShare: small sources are compiled side by side, and a large one by itself.
func TestShare(t *testing.T) {
	require.LessOrEqual(t, 2*share("a"), int64(maxCompiling))
	require.EqualValues(t, maxCompiling, share(strings.Repeat("x", maxCompiling)))
	require.EqualValues(t, maxCompiling, share(strings.Repeat("x", 3*maxCompiling)))
}

// TestALargeSourceIsCompiledAlone: after those before it, and before those after
// it.
func TestALargeSourceIsCompiledAlone(t *testing.T) {
	var all compilations
	begin := func(source string, let chan struct{}) *compilation {
		return all.join(source, DefaultCompileWithin, func(*compilation) { <-let })
	}
	small, large, next := make(chan struct{}), make(chan struct{}), make(chan struct{})
	one, two := begin("a", small), begin("b", small)
	<-one.begun
	<-two.begun
	require.False(t, all.room.TryAcquire(maxCompiling))
	three := begin(strings.Repeat("x", 3*maxCompiling), large)
	close(small)
	<-one.done
	<-two.done
	<-three.begun
	require.False(t, all.room.TryAcquire(1))
	four := begin("c", next)
	close(large)
	<-three.done
	<-four.begun
	close(next)
	<-four.done
}
