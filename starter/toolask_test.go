package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestAsker answers as somebody on a terminal does.
func TestAsker(t *testing.T) {
	definition := func(name, description string) json.RawMessage {
		raw, err := json.Marshal(map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}})
		require.NoError(t, err)
		return raw
	}
	tools := func() []*importedTool {
		all := []*importedTool{
			{Name: "get_a", State: toolNew, definition: definition("get_a", "Gets a.")}, {Name: "get_b", State: toolNew, definition: definition("get_b", "Gets b.")},
			{Name: "send", State: toolNew, definition: definition("send", "Sends a mail.")},
			{Name: "odd", State: toolNew, definition: definition("odd", "Gets\u200b c."), look: true, Warnings: []string{"/description: something"}},
			{Name: "kept", State: toolChanged, definition: definition("kept", "Gets d, now."), look: true,
				was: &catalog.Template{Operation: "kept", Effect: plan.Committing, Status: plan.ManualReview, Definition: definition("kept", "Gets d.")}},
		}
		for _, x := range all {
			require.NoError(t, x.propose(false))
		}
		return all
	}
	for _, c := range []struct {
		name, answers string
		want          []string // of each tool, its class and status or what became of it
	}{
		{"accept", "a\na\na\na\n", []string{"pure allow_auto", "pure allow_auto", "irreversible manual_review", "irreversible manual_review", "committing manual_review"}},
		{"skip", "skip\ns\ns\ns\n", []string{toolLeftOut, toolLeftOut, toolLeftOut, toolLeftOut, toolLeftOut}},
		{"each", "e\na\ns\nwhat?\nACCEPT\ns\na\n", []string{"pure allow_auto", toolLeftOut, "irreversible manual_review", toolLeftOut, "committing manual_review"}},
		{"said", "pure manual_review\ncommitting block\nno status\npure allow_auto\nirreversible block\n", []string{"pure manual_review", "pure manual_review", "committing block", "pure allow_auto", "irreversible block"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var screen bytes.Buffer
			a := &asker{p: &Program{Stderr: &screen}, in: bufio.NewReader(strings.NewReader(c.answers)), ask: true}
			all := tools()
			require.NoError(t, a.decide(&intakeOptions{}, "s", all, false), screen.String())
			for i, x := range all {
				got := string(x.Effect) + " " + string(x.Status)
				if x.State == toolLeftOut {
					got = toolLeftOut
				}
				require.Equal(t, c.want[i], got, "%s\n%s", x.Name, screen.String())
			}
			require.Contains(t, screen.String(), "(a guess)")
			require.Contains(t, screen.String(), "! /description: something")
			require.Contains(t, screen.String(), `! prose: /description was "Gets d." and is "Gets d, now."`)
			require.NotContains(t, screen.String(), "\u200b")
		})
	}
	a := &asker{p: &Program{Stderr: new(bytes.Buffer)}, in: bufio.NewReader(strings.NewReader("a\n")), ask: true}
	require.ErrorContains(t, a.decide(&intakeOptions{}, "s", tools(), false), "the answers end")
}

// TestAskerPublished: what a publisher says is asked about by effect class, and what it says too
// mildly by itself.
func TestAskerPublished(t *testing.T) {
	v := &verified{Publisher: "max", Manifest: trust.Manifest{Version: "1.2.0", Tools: []trust.ManifestTool{
		{Name: "drop", Effect: plan.Committing}, {Name: "kept", Effect: plan.Committing}, {Name: "list_a", Effect: plan.Pure}, {Name: "list_b", Effect: plan.Pure}, {Name: "same", Effect: plan.Pure},
	}}}
	tool := func(name, more string, was *catalog.Template) *importedTool {
		return &importedTool{Name: name, State: toolNew, definition: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}` + more + `}`), look: was != nil, was: was}
	}
	said := func(name string) *catalog.Template {
		return &catalog.Template{Operation: name, Effect: plan.Pure, Status: plan.AllowAuto, Definition: tool(name, "", nil).definition}
	}
	all := []*importedTool{
		tool("drop", `,"annotations":{"destructiveHint":true}`, nil), tool("kept", `,"title":"x"`, said("kept")), tool("list_a", "", nil), tool("list_b", "", nil), tool("same", `,"title":"x"`, said("same")),
	}
	for _, x := range all {
		require.NoError(t, x.propose(false))
		x.publish(v)
	}
	var screen bytes.Buffer
	a := &asker{p: &Program{Stderr: &screen}, in: bufio.NewReader(strings.NewReader("a\na\na\na\n")), ask: true}
	require.NoError(t, a.decide(&intakeOptions{}, "s", all, false), screen.String())
	var got []string
	for _, x := range all {
		got = append(got, string(x.Effect)+" "+string(x.Status))
	}
	require.Equal(t, []string{"committing manual_review", "committing manual_review", "pure allow_auto", "pure allow_auto", "pure allow_auto"}, got)
	require.Contains(t, screen.String(), "s: list_a, list_b\n  Its publisher max says so, in the manifest 1.2.0.\n  proposed: pure, allow_auto (its publisher's word)")
	require.Contains(t, screen.String(), "! its manifest says committing, and the server itself irreversible")
	require.Contains(t, screen.String(), "That is what the catalog says of it so far.")
	require.NotContains(t, screen.String(), "(a guess)")
}

// TestAskerPlace: where a server is counts as a flag says, or on a terminal, and for a tool that it
// counts for already nothing changes. Nobody is asked.
func TestAskerPlace(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name   string
		ask    bool
		here   *bool
		pinned bool // the catalog has an endpoint
		want   string
		said   string
	}{
		{"terminal", true, nil, false, "sha256:here", "s: tools are called only where the server is now"},
		{"terminal, flag", true, &yes, false, "sha256:here", ""},
		{"terminal, no", true, &no, false, "", ""},
		{"terminal, pinned", true, nil, true, "", ""},
		{"no terminal", false, nil, false, "", "s: where the server is does not count"},
		{"no terminal, flag", false, &yes, false, "sha256:here", ""},
		{"no terminal, no", false, &no, false, "", ""},
		{"no terminal, pinned", false, nil, true, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var screen bytes.Buffer
			a := &asker{p: &Program{Stderr: &screen}, in: bufio.NewReader(strings.NewReader("")), ask: c.ask}
			x := &importedTool{Name: "x"}
			if c.pinned {
				x.was = &catalog.Template{Endpoints: []string{"sha256:there"}}
			}
			a.place("s", "sha256:here", c.here, []*importedTool{x})
			require.Equal(t, c.want, x.endpoint)
			if c.said == "" {
				require.Empty(t, screen.String())
			} else {
				require.Contains(t, screen.String(), c.said)
			}
		})
	}
}
