package audit_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/schemas"
)

// feed exports a range of events and returns its lines.
func (w *world) feed(t testing.TB, from, to int64) (audit.Fed, [][]byte) {
	dir := filepath.Join(t.TempDir(), "events")
	fed, err := audit.ExportEvents(t.Context(), w.store, dir, from, to)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(dir, audit.EventsFile))
	require.NoError(t, err)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	return fed, linesOf(raw)
}

func schema(t testing.TB, file string) *schemas.Schema {
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	s, err := schemas.Compile(raw)
	require.NoError(t, err)
	return s
}

// cloudEvent is what the tests read of an event.
type cloudEvent struct {
	ID       string
	Source   string
	Type     string
	Subject  string
	Time     time.Time
	Sequence string
	Data     json.RawMessage
}

// TestEventsAreWhatTheirStandardsSay: every kind there is, held against
// CloudEvents' own schema and against OCSF's classes.
func TestEventsAreWhatTheirStandardsSay(t *testing.T) {
	w := newWorld(t)
	records, err := w.store.Records(t.Context(), 0, 10_000)
	require.NoError(t, err)
	seen := map[ledger.Kind]bool{}
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		seen[e.Kind] = true
	}
	for _, k := range ledger.Kinds() {
		if seen[k] {
			continue
		}
		// Kinds that the story lacks, with an empty body, in the chain that takes them.
		d := ledger.Draft{
			Key: string(k) + "/x", Kind: k, Run: "w", Node: "n", Visit: 1, Element: 2, Task: "t", Refs: []ledger.Ref{{Name: "input", Digest: ledger.BodyDigest(nil)}},
			Data: json.RawMessage(`{}`),
		}
		for _, d.Chain = range []string{ledger.RunChain("w", "more"), ledger.AuthorityChain, ledger.AgentsChain, ledger.ToolsChain, ledger.LedgerChain, ledger.RulesChain, ledger.BudgetChain("USD"), ledger.SnapshotsChain("x")} {
			if d.Entry(ledgertest.Origin, 0, ledger.Hash{}, ledger.Time{}, ledger.BodyDigest(nil)).Misplaced() == "" {
				break
			}
		}
		_, err := w.store.Append(t.Context(), d)
		require.NoError(t, err)
	}
	ledgertest.Drain(t, w.store, w.key)
	records, err = w.store.Records(t.Context(), 0, 10_000)
	require.NoError(t, err)

	envelope, classes := schema(t, "cloudevents-1.0.json"), schema(t, "ocsf-1.8.0.json")
	fed, lines := w.feed(t, 0, -1)
	require.EqualValues(t, len(records), fed.Events)
	require.Equal(t, audit.Fed{Events: fed.Size, From: 0, Next: fed.Size, Size: fed.Size}, fed)
	kinds := map[string]bool{}
	last := ""
	for i, line := range lines {
		_, err := envelope.ValidateJSON(line)
		require.NoError(t, err, string(line))
		var x cloudEvent
		require.NoError(t, json.Unmarshal(line, &x))
		_, err = classes.ValidateJSON(x.Data)
		require.NoError(t, err, string(line))

		e, err := ledger.DecodeEntry(records[i].Bytes)
		require.NoError(t, err)
		require.Equal(t, records[i].Hash.String(), x.ID)
		require.Equal(t, "ledger://"+ledgertest.Origin, x.Source)
		require.Equal(t, "ai.chimera.ledger."+string(e.Kind)+".v1", x.Type)
		require.Equal(t, e.Chain, x.Subject)
		require.True(t, e.At.Time().Equal(x.Time))
		require.Greater(t, x.Sequence, last)
		last = x.Sequence
		kinds[x.Type] = true
	}
	require.Len(t, kinds, len(ledger.Kinds()))
}

// TestTheSchemasCanRefuse: the tests above hold what is written against
// something.
func TestTheSchemasCanRefuse(t *testing.T) {
	w := newWorld(t)
	_, lines := w.feed(t, 0, 1)
	envelope, classes := schema(t, "cloudevents-1.0.json"), schema(t, "ocsf-1.8.0.json")
	_, err := envelope.ValidateJSON(bytes.Replace(lines[0], []byte(`"specversion":"1.0",`), nil, 1))
	require.Error(t, err)
	var x cloudEvent
	require.NoError(t, json.Unmarshal(lines[0], &x))
	for old, wrong := range map[string]string{
		`"severity_id":1`: `"severity_id":7`, `"metadata":`: `"mettadata":`, `"activity_id":`: `"activity":`, `"type_uid":`: `"type_uid":1`, `"time":`: `"time":"x","t":`,
	} {
		bad := strings.Replace(string(x.Data), old, wrong, 1)
		require.NotEqual(t, string(x.Data), bad)
		_, err := classes.ValidateJSON([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestEventsOfARange(t *testing.T) {
	w := newWorld(t)
	all, lines := w.feed(t, 0, -1)
	var pieces [][]byte
	for from := int64(0); from < all.Size; {
		fed, part := w.feed(t, from, min(from+17, all.Size))
		pieces = append(pieces, part...)
		require.Equal(t, from, fed.From)
		from = fed.Next
	}
	require.Equal(t, lines, pieces, "pieces make the whole")
	fed, part := w.feed(t, all.Size, -1)
	require.Empty(t, part, "nothing is new")
	require.Equal(t, all.Size, fed.Next)

	for _, bad := range [][2]int64{{-1, 3}, {3, 2}, {0, all.Size + 1}, {all.Size + 1, -1}} {
		dir := filepath.Join(t.TempDir(), "events")
		_, err := audit.ExportEvents(t.Context(), w.store, dir, bad[0], bad[1])
		require.ErrorIs(t, err, audit.ErrRange)
		require.NoDirExists(t, dir)
	}
	_, err := audit.ExportEvents(t.Context(), w.store, w.dir, 0, -1)
	require.ErrorIs(t, err, os.ErrExist)
}

// TestEventsTellNothingThatCanBeErased: bodies stay in the ledger; of those that
// everybody may read, terms of closed sets come along.
func TestEventsTellNothingThatCanBeErased(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	r := ledger.Run{Workflow: "told", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil), Requester: "erika@example.com"}
	require.NoError(t, w.store.OpenRun(ctx, r))
	require.NoError(t, w.store.RecordOutcomes(ctx, "told", "r", []ledger.Outcome{
		{Node: "n", Kind: ledger.NodeFailed, Activity: "crm/find", Error: json.RawMessage(`{"kind":"tool_error","message":"no Erika in Bonn"}`)},
		{Node: "o", Kind: ledger.NodeFailed, Activity: "Erika, in prose", Error: json.RawMessage(`"Erika"`)},
	}))
	r.State, r.Failure = ledger.RunFailed, json.RawMessage(`{"kind":"tool_error","node":"n","message":"no Erika in Bonn"}`)
	_, _, err := w.store.CloseRun(ctx, r, nil)
	require.NoError(t, err)
	sealed := ledger.Run{Workflow: "sealed", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil), Subject: "erika"}
	require.NoError(t, w.store.OpenRun(ctx, sealed))
	require.NoError(t, w.store.RecordOutcomes(ctx, "sealed", "r", []ledger.Outcome{{Node: "n", Kind: ledger.NodeFailed, Activity: "crm/sealed", Error: json.RawMessage(`{"kind":"tool_error"}`)}}))
	ledgertest.Drain(t, w.store, w.key)
	find := func(lines [][]byte, text string) string {
		for _, l := range lines {
			if bytes.Contains(l, []byte(text)) {
				return string(l)
			}
		}
		t.Fatalf("no event has %s", text)
		return ""
	}
	_, lines := w.feed(t, 0, -1)
	all := string(bytes.Join(lines, nil))
	for _, secret := range []string{"Erika", "erika", "Bonn", "salt", "crm/sealed"} {
		require.NotContains(t, all, secret)
	}
	failed := find(lines, `"operation":"crm/find"`)
	require.Contains(t, failed, `"status_code":"tool_error"`)
	require.Contains(t, failed, `"status_id":2`)
	ended := find(lines, `"event_code":"run.closed"`)
	require.Contains(t, find(lines, `"state":"failed"`), `"run":"told"`)
	require.NotEmpty(t, ended)

	// Pruned bodies are no longer exported.
	_, err = w.store.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	ledgertest.Drain(t, w.store, w.key)
	_, lines = w.feed(t, 0, -1)
	all = string(bytes.Join(lines, nil))
	require.NotContains(t, all, "crm/find")
	require.NotContains(t, all, `"state":"failed"`)
	require.Contains(t, all, `"event_code":"body.pruned"`)
}
