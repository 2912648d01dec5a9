package host

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// aged is a log of which only the head and the first that waits are asked.
type aged struct {
	ledger.Log
	head    time.Time
	waiting []ledger.Candidate
}

func (a *aged) Heads(context.Context, ledger.Head, int) ([]ledger.Head, error) {
	return []ledger.Head{{At: ledger.At(a.head)}}, nil
}

func (a *aged) Candidates(context.Context, int) ([]ledger.Candidate, error) { return a.waiting, nil }

type gauge float64

func (g *gauge) Update(v float64) { *g = gauge(v) }

func TestLogAge(t *testing.T) {
	now := time.Unix(1000, 0)
	log, head, waiting := &aged{head: now}, new(gauge), new(gauge)
	a := logAge{log: log, head: head, waiting: waiting}
	for _, step := range []struct {
		serial        int64
		head, waiting gauge
	}{{0, 0, 0}, {7, 10, 0}, {7, 20, 10}, {7, 30, 20}, {8, 40, 0}, {8, 50, 10}, {0, 60, 0}} {
		log.waiting = nil
		if step.serial > 0 {
			log.waiting = []ledger.Candidate{{Serial: step.serial}}
		}
		a.measure(t.Context(), now)
		require.Equal(t, step.head, *head)
		require.Equal(t, step.waiting, *waiting)
		now = now.Add(10 * time.Second)
	}
}
