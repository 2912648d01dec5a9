package task_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/task"
)

func at(minute int) time.Time { return time.Date(2026, 11, 1, 9, minute, 0, 0, time.UTC) }

func draft() task.Draft {
	return task.Draft{
		TaskID: "t-1", AgentID: "agent-42", Description: "Render hero video", Resources: []string{}, CostEstimate: "150.0",
		Priority: task.Medium, State: task.StateDraft, CreatedAt: at(0),
	}
}

func signature() task.Signature {
	return task.Signature{SignerID: "orchestrator:alice", SigType: "HITL", Signature: "sig-bytes", SignedAt: at(1)}
}

// The example of the specification that the Task comes from.
func TestLife(t *testing.T) {
	signed, err := draft().Sign(signature())
	require.NoError(t, err)
	executed, err := signed.Execute(json.RawMessage(`{"artifact_url":"https://example.com/v"}`), "ledger://tx/123", at(2))
	require.NoError(t, err)
	raw, err := json.Marshal(executed)
	require.NoError(t, err)
	again, err := task.ParseExecuted(raw)
	require.NoError(t, err)
	require.Equal(t, executed, again)
	require.Equal(t, json.Number("150.0"), again.CostEstimate)

	_, err = signed.Sign(signature())
	require.ErrorContains(t, err, "/state", "a signed task is not signed again")
	_, err = task.ParseSigned(raw)
	require.ErrorContains(t, err, `/state: must be "signed" at this stage, not "executed"`)
	for name, bad := range map[string]func() error{
		"signed before it was drafted": func() error { s := signature(); s.SignedAt = at(-1); _, err := draft().Sign(s); return err },
		"an empty signature":           func() error { s := signature(); s.Signature = ""; _, err := draft().Sign(s); return err },
		"a result that is a list":      func() error { _, err := signed.Execute(json.RawMessage(`[]`), "ledger://x/y", at(2)); return err },
		"no reference":                 func() error { _, err := signed.Execute(json.RawMessage(`{}`), "", at(2)); return err },
		"executed before it was signed": func() error {
			_, err := signed.Execute(json.RawMessage(`{}`), "ledger://x/y", at(0))
			return err
		},
		"a draft that says it is signed": func() error { d := draft(); d.State = task.StateSigned; _, err := d.Sign(signature()); return err },
	} {
		var faults task.Faults
		require.ErrorAs(t, bad(), &faults, name)
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := task.Parse([]byte(`{"state":"executed","task_id":7,"agent_id":"","priority":"urgent","resources":["a",1],"created_at":"yesterday",
		"cost_estimate":-1,"signature":{"signer_id":"a","signed_at":"2026-11-01T09:00:00Z"},"executed_at":"2026-11-01T08:00:00Z","result":[]}`))
	var faults task.Faults
	require.ErrorAs(t, err, &faults)
	paths := map[string]bool{}
	for _, f := range faults {
		paths[f.Path] = true
	}
	for _, want := range []string{
		"/task_id", "/agent_id", "/priority", "/resources/1", "/created_at", "/cost_estimate", "/signature/sig_type", "/signature/signature",
		"/executed_at", "/result", "",
	} {
		require.True(t, paths[want], "%s in %v", want, err)
	}
	for _, raw := range []string{``, `[]`, `null`, `{}`, `{"state":"done"}`, `{"state":"draft","state":"signed"}`, `{"task_id":"\ud800"}`} {
		_, err := task.Parse([]byte(raw))
		require.Error(t, err, raw)
	}
}

// Only the three transitions exist, whatever the fields.
func TestRoundTrip(t *testing.T) {
	word := rapid.StringMatching(`[a-zé]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		d := draft()
		d.TaskID, d.AgentID, d.Description = word.Draw(t, "id"), word.Draw(t, "agent"), word.Draw(t, "text")
		d.Resources = rapid.SliceOfN(word, 0, 3).Draw(t, "resources")
		if len(d.Resources) == 0 {
			d.Resources = []string{}
		}
		d.Priority = rapid.SampledFrom([]task.Priority{task.Low, task.Medium, task.High}).Draw(t, "priority")
		raw, err := json.Marshal(d)
		require.NoError(t, err)
		back, err := task.ParseDraft(raw)
		require.NoError(t, err)
		require.Equal(t, d, back)
		s, err := back.Sign(signature())
		require.NoError(t, err)
		raw, err = json.Marshal(s)
		require.NoError(t, err)
		_, err = task.ParseDraft(raw)
		require.Error(t, err)
		got, err := task.ParseSigned(raw)
		require.NoError(t, err)
		require.Equal(t, s, got)
	})
}

func FuzzParse(f *testing.F) {
	for _, instant := range []string{
		"2026-11-01T09:00:00Z", "2026-11-01T09:00:00.5+23:59", "2026-11-01T09:00:00,5Z", "2026-11-01T9:00:00Z", "2026-11-01T09:00:00+24:00", "2026-11-01T09:00:60Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00",
	} {
		f.Add([]byte(`{"task_id":"t","agent_id":"a","description":"","state":"draft","created_at":"` + instant + `"}`))
	}
	signed, err := draft().Sign(signature())
	require.NoError(f, err)
	executed, err := signed.Execute(json.RawMessage(`{"b":1.50,"a":["\u2028"]}`), "ledger://tx/123", at(2))
	require.NoError(f, err)
	for _, v := range []task.Task{signed, executed} {
		raw, err := json.Marshal(v)
		require.NoError(f, err)
		f.Add(raw)
		f.Add(bytes.Replace(raw, []byte("2026-11-01T09:01:00Z"), []byte("2026-11-01T09:01:00+24:00"), 1))
		f.Add(bytes.Replace(raw, []byte(`"cost_estimate":150.0`), []byte(`"cost_estimate":1e400`), 1))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := task.Parse(raw)
		if err != nil {
			return
		}
		out, err := json.Marshal(v)
		require.NoError(t, err)
		again, err := task.Parse(out)
		require.NoError(t, err, "%s", out)
		require.Equal(t, v, again)
	})
}
