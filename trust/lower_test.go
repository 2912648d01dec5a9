package trust

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
)

// TestLowering: what makes a tool freer to call takes two persons in production, as every statement
// does: no bootstrap and no act lets one person be enough. In development one is, and the statement
// says for whom it counts.
func TestLowering(t *testing.T) {
	w := newWorld(t)
	print := plan.DigestOf([]byte("tool"))
	tool := func(status, facts string) *TrustTool {
		return &TrustTool{ToolID: "mail/send@" + print, Fingerprint: print, Status: status, Facts: json.RawMessage(facts)}
	}
	const strict = `{"effect_class":"irreversible"}`
	first := w.sign(w.state().Draft(day, tool("manual_review", strict)))
	s := w.state(first)
	for name, act := range map[string]*TrustTool{
		"the effect class falls":    tool("manual_review", `{"effect_class":"pure"}`),
		"the output is attested":    tool("manual_review", `{"effect_class":"irreversible","trusted_output":true}`),
		"it endorses its input":     tool("manual_review", `{"effect_class":"irreversible","endorses":true}`),
		"nobody reviews it":         tool("allow_auto", strict),
		"the facts are taken away":  {ToolID: "mail/send@" + print, Fingerprint: print, Status: "allow_auto"},
		"a tool of another address": tool("allow_auto", `{"effect_class":"pure","endpoints":["x"]}`),
	} {
		t.Run(name, func(t *testing.T) {
			for who, keys := range map[string][]*Key{"one person": {w.ada}, "two keys of one person": {w.ada, w.too}, "an admin and somebody else": {w.ben, ed(t)}} {
				raw := w.sign(s.Draft(day, act), keys...)
				_, err := s.Next(raw)
				require.ErrorIs(t, err, ErrInvalid, who)
				require.ErrorContains(t, err, "1 of the admins' persons have signed", who)
				have, err := Chain(w.b, [][]byte{first, raw})
				require.ErrorIs(t, err, ErrInvalid, who)
				require.Equal(t, s, have, who)
				require.NoError(t, have.Stated(act.ToolID, print, json.RawMessage(strict), true), who)
			}
			next, err := s.Next(w.sign(s.Draft(day, act)))
			require.NoError(t, err)
			require.Equal(t, *act, next.Tools[act.ToolID])
		})
	}
	// No way leads to a quorum of one.
	alone := *w.b
	alone.Quorum = 1
	require.ErrorContains(t, alone.Check(), "a quorum of 1 is below 2")
	_, err := s.Next(w.sign(s.Draft(day, &SetAdmins{w.b.Admins, 1})))
	require.ErrorContains(t, err, "a quorum of 1 is below 2")

	dev, err := DevBootstrap("example", "ada", w.ada, w.b.Log, day)
	require.NoError(t, err)
	d, err := Start(dev)
	require.NoError(t, err)
	raw := w.sign(d.Draft(day, tool("allow_auto", `{"effect_class":"pure"}`)), w.ada)
	d, err = d.Next(raw)
	require.NoError(t, err)
	st, _, err := ParseStatement(raw)
	require.NoError(t, err)
	require.Equal(t, Dev, st.Audience)
	_, err = w.state().Next(raw)
	require.ErrorContains(t, err, "its audience is \"dev\", not prod")
	require.Equal(t, "allow_auto", d.Tools["mail/send@"+print].Status)
}

// TestDifference: what differs is told by its name.
func TestDifference(t *testing.T) {
	w := newWorld(t)
	print := plan.DigestOf([]byte("tool"))
	s := w.state(w.sign(w.state().Draft(day, &TrustTool{ToolID: "a/b@" + print, Fingerprint: print, Status: "allow_auto", Facts: json.RawMessage(`{"effect_class":"pure","mode":"deter"}`)})))
	for facts, want := range map[string]*Difference{
		`{"mode":"deter","effect_class":"pure"}`:                       nil,
		`{"effect_class":"staged","mode":"deter"}`:                     {Fact: "effect_class", Have: `"staged"`, Said: `"pure"`},
		`{"effect_class":"pure"}`:                                      {Fact: "mode", Said: `"deter"`},
		`{"effect_class":"pure","mode":"deter","egress_allowed":true}`: {Fact: "egress_allowed", Have: "true"},
	} {
		err := s.Stated("a/b@"+print, print, json.RawMessage(facts), false)
		if want == nil {
			require.NoError(t, err)
			continue
		}
		want.Tool = "a/b@" + print
		var have *Difference
		require.ErrorAs(t, err, &have)
		require.Equal(t, want, have)
		require.ErrorIs(t, err, ErrInvalid)
		require.Equal(t, 1, strings.Count(err.Error(), ErrInvalid.Error()))
	}
}
