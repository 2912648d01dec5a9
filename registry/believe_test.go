package registry_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// TestBelieve: a catalog is believed as far as the statements that it carries go, read from a file as
// it was written, and whoever changes one of the two is found.
func TestBelieve(t *testing.T) {
	ada, _, err := trust.NewKey()
	require.NoError(t, err)
	ben, _, err := trust.NewKey()
	require.NoError(t, err)
	_, log, err := ledger.NewKey("example.com/log")
	require.NoError(t, err)
	now := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	b := &trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: "example", Audience: trust.Prod, Quorum: 2, Log: trust.LogKey{Origin: "example.com/log", Key: log},
		Witnesses: trust.Witnesses{Keys: []string{}}, Issued: ledger.At(now), Admins: []trust.Admin{{ID: "ada", Person: "ada", Key: ada.Public()}, {ID: "ben", Person: "ben", Key: ben.Public()}},
	}
	var chain []json.RawMessage
	s, err := trust.Start(b)
	require.NoError(t, err)
	state := func(keys []*trust.Key, acts ...trust.Act) json.RawMessage {
		e, err := s.Draft(now, acts...).Envelope(keys...)
		require.NoError(t, err)
		raw, err := e.Encode()
		require.NoError(t, err)
		return raw
	}
	both := []*trust.Key{ada, ben}
	add := func(acts ...trust.Act) {
		raw := state(both, acts...)
		s, err = s.Next(raw)
		require.NoError(t, err)
		chain = append(chain, raw)
	}
	read, write := imported(t, "read", "reads", plan.Pure), imported(t, "write", "writes", plan.Irreversible)
	act := func(x *catalog.Template) *trust.TrustTool {
		a, err := registry.Act(x)
		require.NoError(t, err)
		return a
	}
	add(act(read), act(write))
	skill := &catalog.Template{ProviderType: plan.Skill, Provider: "bank", Operation: "pay", Mode: plan.Deter, Effect: plan.Committing, Status: plan.AllowAuto}
	add(act(skill))

	// parsed is the file with these templates and statements, as it is read.
	parsed := func(statements []json.RawMessage, templates ...*catalog.Template) *catalog.Catalog {
		var entries []catalog.Entry
		for _, x := range templates {
			facts, err := x.Facts()
			require.NoError(t, err)
			entries = append(entries, catalog.Entry{Operation: x.Name(), Definition: x.Definition, Status: x.Status, Facts: facts})
		}
		text, err := catalog.Write(entries, statements...)
		require.NoError(t, err)
		all, ds := compiler.ParseCatalog(compiler.Source{Name: "tools.yaml", Text: text})
		require.False(t, ds.HasErrors(), "%v", ds)
		return all
	}
	have, differ, err := registry.Believe(parsed(chain, read, write), b)
	require.NoError(t, err)
	require.Empty(t, differ)
	require.Equal(t, s, have)

	changed := func(x *catalog.Template, f func(*catalog.Template)) *catalog.Template {
		y := *x
		f(&y)
		return &y
	}
	for name, c := range map[string]struct {
		template *catalog.Template
		field    string
		says     string
	}{
		"class":        {changed(write, func(x *catalog.Template) { x.Effect = plan.Pure }), "effect_class", `effect_class "pure", and the admins have stated "irreversible"`},
		"status":       {changed(write, func(x *catalog.Template) { x.Status = plan.ManualReview }), "status", "status manual_review, and the admins have stated allow_auto"},
		"output":       {changed(read, func(x *catalog.Template) { x.TrustedOutput = true }), "trusted_output", "trusted_output true"},
		"endorses":     {changed(read, func(x *catalog.Template) { x.Endorses = true }), "endorses", "endorses true"},
		"egress":       {changed(read, func(x *catalog.Template) { x.EgressAllowed = true }), "egress", "egress_allowed true"},
		"world":        {changed(read, func(x *catalog.Template) { x.OpenWorld = true }), "open_world", "open_world true"},
		"endpoint":     {changed(read, func(x *catalog.Template) { x.Endpoints = []string{plan.DigestOf([]byte("x"))} }), "endpoints", "endpoints"},
		"instructions": {changed(read, func(x *catalog.Template) { x.Instructions = plan.DigestOf([]byte("x")) }), "instructions", "instructions"},
		"commit":       {changed(write, func(x *catalog.Template) { x.Commit = &catalog.CommitPolicy{Waived: "it is fine"} }), "commit_policy", "no_rollback"},
		"timeout":      {changed(read, func(x *catalog.Template) { x.TimeoutMS = 1000 }), "timeout_ms", "timeout_ms 1000"},
		"schema": {changed(read, func(x *catalog.Template) {
			x.OutputSchema, x.Given = json.RawMessage(`{"type":"object"}`), true
		}), "output_schema", "given_output_schema"},
		"definition": {imported(t, "read", "reads all", plan.Pure), "definition", "other fingerprints of notes/read"},
		"another":    {imported(t, "erase", "erases", plan.Pure), "", "no statement of the admins is about notes/erase"},
	} {
		t.Run(name, func(t *testing.T) {
			_, differ, err := registry.Believe(parsed(chain, c.template), b)
			require.NoError(t, err)
			require.Len(t, differ, 1)
			require.Equal(t, c.field, differ[0].Field)
			require.ErrorIs(t, differ[0].Err, trust.ErrInvalid)
			require.ErrorContains(t, differ[0].Err, c.says)
		})
	}

	// Of another file, only what needs a statement is held against them.
	all := parsed(chain, read)
	own := catalog.Template{ProviderType: plan.Skill, Provider: "engine", Operation: "free", Effect: plan.Pure, InProcess: true}
	all.Templates = append(all.Templates, *skill, own)
	_, differ, err = registry.Believe(all, b)
	require.NoError(t, err)
	require.Empty(t, differ)
	all.Templates[1].Effect = plan.Staged
	_, differ, err = registry.Believe(all, b)
	require.NoError(t, err)
	require.Len(t, differ, 1)
	require.Equal(t, "effect_class", differ[0].Field)

	// A chain whose end was cut off says what was true then; one with a hole, or with what one person
	// alone has signed, says nothing.
	blocked := *act(read)
	blocked.Status = string(plan.Block)
	before := chain
	add(&blocked)
	_, differ, err = registry.Believe(parsed(before, read), b)
	require.NoError(t, err)
	require.Empty(t, differ)
	_, differ, err = registry.Believe(parsed(chain, read), b)
	require.NoError(t, err)
	require.Equal(t, "status", differ[0].Field)
	for name, statements := range map[string][]json.RawMessage{
		"a hole":         chain[1:],
		"another order":  {chain[1], chain[0]},
		"one has signed": append(before[:2:2], state([]*trust.Key{ada}, act(read))),
		"no envelope":    {json.RawMessage(`{}`)},
	} {
		_, _, err = registry.Believe(parsed(statements, read), b)
		require.ErrorIs(t, err, trust.ErrInvalid, name)
	}
	other := *b
	other.Deployment = "other"
	_, _, err = registry.Believe(parsed(chain, read), &other)
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, differ, err = registry.Believe(parsed(nil, write), b)
	require.NoError(t, err)
	require.Len(t, differ, 1, "nothing is stated")
}
