package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// What there is to do about an invocation in each state, and which moves it takes.
func TestInvocationMoves(t *testing.T) {
	now := ledger.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	after := func(d time.Duration) ledger.Time { return ledger.At(now.Time().Add(d)) }
	ask := func(n int, action string) ledger.Permission {
		return ledger.Permission{ID: "i", Origin: "o", ActionDigest: action, DecisionID: fmt.Sprint("i/", n), HoldID: "h", Until: after(time.Minute)}
	}
	permitted, err := ledger.Invocation{}.Allow(ask(1, "a"), now)
	require.NoError(t, err)
	calling, err := permitted.Claim("i/1", time.Second, now)
	require.NoError(t, err)
	require.Equal(t, after(time.Second), *calling.CallNotAfter)
	end := func(s ledger.InvocationState) ledger.Invocation {
		i, changed, err := calling.Settle(ledger.Settlement{Attempt: 1, State: s}, now)
		require.NoError(t, err)
		require.True(t, changed)
		return i
	}
	repeatable := func(i ledger.Invocation) ledger.Invocation { i.Repeatable = true; return i }
	over := after(time.Second + ledger.CallSkew + time.Millisecond)
	for _, c := range []struct {
		name   string
		i      ledger.Invocation
		action string
		now    ledger.Time
		want   ledger.Course // "": a conflict
	}{
		{"none", ledger.Invocation{}, "a", now, ledger.Decide},
		{"permitted", permitted, "a", now, ledger.Stands},
		{"permitted until the last instant", permitted, "a", after(time.Minute), ledger.Stands},
		{"permitted too long ago", permitted, "a", after(time.Minute + 1e6), ledger.Decide},
		{"permitted for another action", permitted, "b", now, ledger.Decide},
		{"calling", calling, "a", now, ledger.Wait},
		{"calling for another action", calling, "b", now, ""},
		{"calling within the skew", calling, "a", after(time.Second + ledger.CallSkew), ledger.Wait},
		{"over", calling, "a", over, ledger.Resolve},
		{"over, and repeatable", repeatable(calling), "a", over, ledger.Decide},
		{"over, and repeatable, for another action", repeatable(calling), "b", over, ""},
		{"released", end(ledger.Released), "b", now, ledger.Decide},
		{"settled", end(ledger.Settled), "a", now, ledger.Stands},
		{"settled for another action", end(ledger.Settled), "b", now, ""},
		{"unknown", end(ledger.Unknown), "a", now, ledger.Resolve},
		{"unknown, and repeatable", repeatable(end(ledger.Unknown)), "a", now, ledger.Decide},
		{"unknown for another action", end(ledger.Unknown), "b", now, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.i.Course(c.action, c.now)
			require.Equal(t, c.want, got)
			if c.want == "" {
				require.ErrorIs(t, err, ledger.ErrConflict)
			}
			// It is permitted again if that is its course, and never otherwise.
			p := ask(2, c.action)
			p.Repeatable = c.i.Repeatable
			next, err := c.i.Allow(p, c.now)
			require.Equal(t, c.want == ledger.Decide, err == nil, "%v", err)
			if err != nil {
				require.ErrorIs(t, err, ledger.ErrConflict)
				require.Equal(t, c.i, next)
				return
			}
			require.Equal(t, c.i.Attempt, next.Attempt)
			_, err = next.Claim("i/1", time.Second, c.now)
			require.ErrorIs(t, err, ledger.ErrConflict, "by the permit that was replaced")
			again, err := next.Claim("i/2", time.Second, after(0))
			require.Equal(t, c.now == over, err != nil, "too early: %v", err)
			if err == nil {
				require.Equal(t, c.i.Attempt+1, again.Attempt)
			}
		})
	}
	fails := func(want error, _ ledger.Invocation, err error) { t.Helper(); require.ErrorIs(t, err, want) }
	i, err := permitted.Claim("i/1", time.Second, after(2*time.Minute))
	fails(ledger.ErrExpired, i, err)
	i, err = calling.Claim("i/1", time.Second, over)
	fails(ledger.ErrConflict, i, err)
	p := ask(2, "a")
	p.Repeatable, p.HoldID = true, "another"
	i, err = repeatable(calling).Allow(p, over)
	fails(ledger.ErrConflict, i, err)
	p.HoldID, p.Origin = "h", "another"
	i, err = repeatable(calling).Allow(p, over)
	fails(ledger.ErrConflict, i, err)

	settle := func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (bool, error) {
		_, changed, err := i.Settle(s, now)
		return changed, err
	}
	for name, c := range map[string]struct {
		i    ledger.Invocation
		s    ledger.Settlement
		now  ledger.Time
		want error
	}{
		"never called":            {permitted, ledger.Settlement{State: ledger.Settled}, now, ledger.ErrConflict},
		"another attempt":         {calling, ledger.Settlement{Attempt: 2, State: ledger.Settled}, now, ledger.ErrConflict},
		"to no end":               {calling, ledger.Settlement{Attempt: 1, State: ledger.Calling}, now, ledger.ErrInvalid},
		"released with an output": {calling, ledger.Settlement{Attempt: 1, State: ledger.Released, OutputDigest: "x"}, now, ledger.ErrInvalid},
		"abandoned too early":     {calling, ledger.Settlement{Attempt: 1, State: ledger.Unknown, Abandoned: true}, now, ledger.ErrConflict},
		"abandoned":               {calling, ledger.Settlement{Attempt: 1, State: ledger.Unknown, Abandoned: true}, over, nil},
		"resolved":                {end(ledger.Unknown), ledger.Settlement{Attempt: 1, State: ledger.Released}, now, nil},
		"lost after its end":      {end(ledger.Settled), ledger.Settlement{Attempt: 1, State: ledger.Unknown}, now, ledger.ErrConflict},
		"released after its end":  {end(ledger.Settled), ledger.Settlement{Attempt: 1, State: ledger.Released}, now, ledger.ErrConflict},
	} {
		changed, err := settle(c.i, c.s, c.now)
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, c.want == nil, changed, name)
	}
	changed, err := settle(end(ledger.Settled), ledger.Settlement{Attempt: 1, State: ledger.Settled}, now)
	require.NoError(t, err)
	require.False(t, changed)
}
