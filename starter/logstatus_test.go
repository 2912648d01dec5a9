package main

import (
	"bytes"
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
		"added":         {func(x *logStatus) { x.Passed = 1 }, "has not signed 1 later checkpoint: somebody has added it"},
		"standing":      {func(x *logStatus) { x.Waiting, x.Since = 1, &late }, "no worker signs checkpoints"},
		"lost":          {func(x *logStatus) { x.Lost = 2 }, "2 entries are lost: somebody has taken them out of those that wait for a place"},
		"one lost":      {func(x *logStatus) { x.Lost = 1 }, "1 entry is lost: somebody has taken it out of those that wait for a place"},
		"set aside":     {func(x *logStatus) { x.Aside = 1 }, "1 row was set aside: somebody has added it by hand"},
		"two set aside": {func(x *logStatus) { x.Aside = 2 }, "2 rows were set aside: somebody has added them by hand"},
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

// TestSayStatus: numbers and what is said of them agree.
func TestSayStatus(t *testing.T) {
	var out bytes.Buffer
	p := &Program{Stdout: &out}
	one := logStatus{Origin: "o"}
	one.Waiting, one.Lost, one.Aside = 1, 1, 1
	p.sayStatus(one, time.Now())
	require.Contains(t, out.String(), "  1 entry waits for a place; 1 entry is lost\n  1 row was set aside\n")
	out.Reset()
	p.sayStatus(logStatus{Origin: "o"}, time.Now())
	require.Contains(t, out.String(), "  0 entries wait for a place; 0 entries are lost\n  0 rows were set aside\n")
}
