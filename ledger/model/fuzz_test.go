package model_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Whatever a body holds is taken or refused, never a panic, and a body that is
// taken is written in one way.
func FuzzApply(f *testing.F) {
	kinds := ledger.Kinds()
	for i, x := range life() {
		e, data, err := entry(x, 0)
		require.NoError(f, err)
		f.Add(uint8(slices.Index(kinds, e.Kind)), uint8(i), e.Chain, e.Key, e.Node, e.Visit, []byte(data))
	}
	f.Add(uint8(0), uint8(200), chain, "invocation.settled/", "", 0, []byte(`{"attempt":-1,"id":""}`))
	f.Add(uint8(0), uint8(200), "run/", "/", "", -1, []byte(`null`))
	story := life()
	told := func(t *testing.T, n int) *log {
		l := start()
		for _, x := range story[:min(n, len(story))] {
			require.NoError(t, l.say(x))
		}
		return l
	}
	f.Fuzz(func(t *testing.T, kind, after uint8, chain, key, node string, visit int, data []byte) {
		l := told(t, int(after))
		k := kinds[int(kind)%len(kinds)]
		e := &ledger.Entry{Format: ledger.EntryFormat, Origin: "o", Chain: chain, Key: key, Kind: k, Class: k.Class(), Node: node, Visit: visit, Body: sum("x")}
		err := l.Apply(e, ledger.Hash{1}, data)
		if err != nil {
			require.ErrorIs(t, err, model.ErrImpossible)
			require.Less(t, len(err.Error()), 4096+2*len(chain)+2*len(data), "what is wrong is said briefly")
			require.Equal(t, told(t, int(after)).State, l.State, "what is refused changes nothing")
		}
		// Whatever came before, the next entry is accepted or refused.
		for _, x := range story {
			if err := l.say(x); err != nil {
				require.ErrorIs(t, err, model.ErrImpossible)
			}
		}
	})
}

// The fast reader and the general reader agree.
func FuzzOutcome(f *testing.F) {
	for _, o := range []ledger.Outcome{
		{Node: "x", Kind: ledger.NodeSucceeded}, {Node: "", Kind: ledger.NodeSkipped, Visit: 3, Element: 1},
		{Node: "x", Kind: ledger.NodeFailed, Activity: "a/b", Attempts: 3, InputDigest: sum("i"), OutputDigest: sum("o"), Visit: 1},
		{Node: "n", Kind: ledger.NodeSucceeded, OutputDigest: sum("o"), Snapshots: &contract.Snapshots{Before: sum("b"), After: sum("a")}, Visit: 1},
		{Node: "n", Kind: ledger.NodeSucceeded, Snapshots: &contract.Snapshots{Before: sum("b")}},
		{Node: "n", Kind: ledger.NodeSucceeded, Snapshots: new(contract.Snapshots)},
		{Node: "é\u2028<\"", Kind: ledger.NodeFailed, Error: json.RawMessage(`{"a":1}`)},
	} {
		_, data, err := entry(fact{kind: o.Kind, chain: chain, key: "k", data: o}, 0)
		require.NoError(f, err)
		f.Add([]byte(data))
		for _, change := range [][2]string{{`{`, `{"activity":"",`}, {`}`, `,"visit":0}`}, {`}`, `,"visit":01}`}, {`}`, `,"visit":-1}`}, {`"kind"`, `"element":1e3,"kind"`}, {`node.`, `run.`}, {`,"node"`, `,"x":1,"node"`}, {`}`, `} `}} {
			f.Add([]byte(strings.Replace(string(data), change[0], change[1], 1)))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fast, ok := model.ScanOutcome(data)
		if !ok {
			return
		}
		slow, err := model.DecodeOutcome(data)
		require.NoError(t, err)
		require.Equal(t, slow, fast)
	})
}

// Snapshots are digests, and read as fast as the rest of an outcome.
func TestSnapshots(t *testing.T) {
	for _, c := range []struct {
		is   contract.Snapshots
		fast bool
		why  string
	}{
		{contract.Snapshots{Before: sum("b")}, true, ""},
		{contract.Snapshots{After: sum("a")}, true, ""},
		{contract.Snapshots{Before: sum("b"), After: sum("a")}, true, ""},
		{contract.Snapshots{}, false, "its snapshots are empty"},
		{contract.Snapshots{Before: "b"}, true, `a snapshot has the digest "b"`},
	} {
		o := ledger.Outcome{Node: "n", Kind: ledger.NodeSucceeded, OutputDigest: sum("o"), Snapshots: &c.is, Visit: 1}
		raw, err := json.Marshal(o)
		require.NoError(t, err)
		v, err := schemas.Decode(raw)
		require.NoError(t, err)
		raw, err = plan.Canonical(v)
		require.NoError(t, err)
		got, fast := model.ScanOutcome(raw)
		require.Equal(t, c.fast, fast)
		if fast {
			require.Equal(t, &o, got)
		}
		l := start()
		for _, x := range life()[:8] {
			require.NoError(t, l.say(x))
		}
		err = l.say(fact{kind: ledger.NodeSucceeded, chain: chain, key: "node/n/1/0", node: "n", visit: 1, data: o})
		if c.why == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.why)
		}
	}
}
