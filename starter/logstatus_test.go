package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// TestJudgeStatus: each thing that is wrong with the log makes its status no.
func TestJudgeStatus(t *testing.T) {
	now := time.Now()
	signed, early, late := ledger.At(now), ledger.At(now.Add(-maxWait/2)), ledger.At(now.Add(-2*maxWait))
	for name, c := range map[string]struct {
		change func(*logStatus)
		says   string
	}{
		"healthy":       {func(*logStatus) {}, ""},
		"waiting":       {func(x *logStatus) { x.Waiting, x.Since = 1, &early }, ""},
		"nothing yet":   {func(x *logStatus) { x.Signed, x.Verified = nil, false }, ""},
		"unverified":    {func(x *logStatus) { x.Verified = false }, "was not verified"},
		"added":         {func(x *logStatus) { x.Passed = 1 }, "has not signed 1 later checkpoint"},
		"standing":      {func(x *logStatus) { x.Waiting, x.Since = 1, &late }, "no worker signs checkpoints"},
		"lost":          {func(x *logStatus) { x.Lost = 2 }, "lost: 2 entries"},
		"set aside":     {func(x *logStatus) { x.Aside = 1 }, "1 row set aside"},
		"a longer past": {func(x *logStatus) { x.Witnesses = []witnessStatus{{Name: "w", Size: 10}} }, "the witness w has cosigned more"},
	} {
		x := logStatus{Size: 9, Signed: &signed, Verified: true}
		c.change(&x)
		x.judge(now)
		require.Equal(t, c.says == "", x.OK, name)
		require.NotNil(t, x.Problems, "JSON has a list")
		if c.says != "" {
			require.Len(t, x.Problems, 1, name)
			require.Contains(t, x.Problems[0], c.says, name)
		}
	}
}
