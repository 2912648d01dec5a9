package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
)

// TestUnserved: whoever follows a run learns once that a worker is missing for which it waits, and again
// when that is so another time.
func TestUnserved(t *testing.T) {
	guardian, queue := contract.Wait{Kind: contract.WaitGuardian, Node: "write"}, contract.Wait{Kind: contract.WaitQueue, Node: "write"}
	call := contract.Wait{Kind: contract.WaitCall, Node: "write"}
	const none, decides, takes = "", "waits for the guardian", "no worker takes the call of write"
	for name, steps := range map[string][]struct {
		second int
		waits  contract.Wait
		want   string
	}{
		"a guardian that answers": {{0, guardian, none}, {4, guardian, none}, {5, call, none}, {60, guardian, none}},
		"none":                    {{0, guardian, none}, {5, guardian, decides}, {6, guardian, none}, {60, queue, none}, {62, guardian, none}, {63, call, none}, {64, guardian, none}, {70, guardian, decides}},
		"no worker":               {{0, call, none}, {60, queue, takes}, {62, call, none}, {120, queue, takes}},
	} {
		t.Run(name, func(t *testing.T) {
			var u unserved
			for _, s := range steps {
				got := u.note([]contract.Wait{s.waits}, time.Unix(int64(s.second), 0))
				if s.want == none {
					require.Empty(t, got, s.second)
				} else {
					require.Contains(t, got, s.want, s.second)
				}
			}
		})
	}
	var b bytes.Buffer
	show := (&Program{Stderr: &b}).watch(&connection{}, "r")
	for range 3 {
		show(client.Progress{State: &contract.State{Waiting: []contract.Wait{queue}}})
	}
	require.Equal(t, 1, strings.Count(b.String(), takes), b.String())
}

// TestAStoreThatIsAway: what a driver says twice is shown once.
func TestAStoreThatIsAway(t *testing.T) {
	err := storeError(fmt.Errorf("%w: connecting:\n\trefused\n\trefused\n\tlate", ledger.ErrUnavailable))
	var f *failure
	require.True(t, errors.As(err, &f))
	require.True(t, strings.HasSuffix(f.message, "connecting:\n\trefused\n\tlate"), f.message)
}
