package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chimera.ai/engine/contract"
)

const (
	// refresh is how often a followed run is asked for its state.
	refresh = 250 * time.Millisecond
	// patience is how long a run may fail to answer before its queue is examined.
	patience = 3 * time.Second
	// silence is how long the server may be unreachable while a run is followed: it may
	// be restarting.
	silence = time.Minute
)

// Progress is an observation of a followed run: one of its fields is set.
type Progress struct {
	// State is the state as the run reports it.
	State *contract.State
	// Stuck describes why the run does not answer and makes no progress.
	Stuck *Stuck
	// Away reports that Temporal does not answer, and will be asked again.
	Away bool
}

// Follow waits until a run ends, and meanwhile calls show with its progress several
// times a second. Calls of show, which may be nil, do not overlap, and none is made
// after Follow has returned. If ctx ends first, Follow returns its error, and the run
// goes on. The error is a [LostError] if Temporal has not answered for a minute.
func (c *Client) Follow(ctx context.Context, run Run, show func(Progress)) (Ending, error) {
	if show == nil {
		show = func(Progress) {}
	}
	watched, stop := context.WithCancelCause(ctx)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		if err := c.watch(watched, run.ID, show); err != nil {
			stop(err)
		}
	}()
	e, err := c.wait(watched, run)
	stop(nil)
	<-shown
	var lost *LostError
	switch {
	case err != nil && ctx.Err() != nil:
		return Ending{}, fmt.Errorf("following the run %s: %w", run.ID, ctx.Err())
	case err != nil && errors.As(context.Cause(watched), &lost):
		return Ending{}, lost
	}
	return e, err
}

// watch shows a run until ctx ends. It fails if the server does not answer for too long.
func (c *Client) watch(ctx context.Context, id string, show func(Progress)) error {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	// When the run last answered, and when the server last did.
	answered := time.Now()
	server := answered
	var looked time.Time
	for {
		state, err := c.query(ctx, id)
		switch {
		case err == nil:
			answered, server = time.Now(), time.Now()
			show(Progress{State: &state})
		case ctx.Err() == nil && time.Since(answered) > patience:
			if time.Since(looked) > patience {
				looked = time.Now()
				if stuck, err := c.Stuck(ctx, id); err == nil {
					server = time.Now()
					if stuck != nil {
						show(Progress{Stuck: stuck})
					}
				} else if ctx.Err() == nil {
					show(Progress{Away: true})
				}
			}
			if time.Since(server) > silence {
				return &LostError{Run: id, Silent: silence}
			}
		}
		select {
		case <-ctx.Done():
			// Show the final state, with the latest changes.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			if state, err := c.query(last, id); err == nil {
				show(Progress{State: &state})
			}
			return nil
		case <-tick.C:
		}
	}
}
