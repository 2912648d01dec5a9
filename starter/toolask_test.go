package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/config"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/mcp"
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

	// What a flag names is not asked about: with a pattern, if nothing was flagged.
	all := tools()
	all[3].flagged = true
	a = &asker{p: &Program{Stderr: new(bytes.Buffer)}, in: bufio.NewReader(strings.NewReader("s\n")), ask: true}
	require.NoError(t, a.decide(&intakeOptions{accept: []string{"*"}}, "s", all, false))
	require.Equal(t, []string{toolNew, toolNew, toolNew, toolLeftOut, toolChanged}, []string{all[0].State, all[1].State, all[2].State, all[3].State, all[4].State})
	require.Equal(t, plan.Committing, all[4].Effect)
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

	// Nor does a manifest lower what the server says of itself below what it says now.
	loud := `,"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}`
	fresh, changed := tool("same", loud, nil), tool("kept", loud, said("kept"))
	changed.heeded = true
	for _, x := range []*importedTool{fresh, changed} {
		require.NoError(t, x.propose(false))
		x.publish(v)
		require.Equal(t, plan.Irreversible, x.proposal.Effect)
		require.Equal(t, plan.ManualReview, x.proposal.Status)
		require.True(t, x.look)
	}
}

// TestAskerPlace: where a server is counts as a flag says, or on a terminal. Where the catalog pins
// another place, a terminal asks which counts, and a flag says so.
func TestAskerPlace(t *testing.T) {
	const was, is = "sha256:there", "sha256:here"
	type pins = []string
	for _, c := range []struct {
		name    string
		ask     bool
		here    string
		pinned  pins   // what the catalog has
		changed bool   // the tool is not the one that the catalog has
		answers string // of a terminal
		want    pins   // what the catalog has then
		state   string
		settled bool
		said    string
	}{
		{name: "terminal", ask: true, want: pins{is}, said: "s: tools are called only where the server is now"},
		{name: "terminal, flag", ask: true, here: hereYes, want: pins{is}, said: "s: pinned are the program node, its arguments and its environment. What it loads is not: for that set pin: [dist/index.js] in mcpServers.s, and import again"},
		{name: "terminal, no", ask: true, here: hereNo},
		{name: "no terminal", said: "s: where the server is does not count"},
		{name: "no terminal, flag", here: hereYes, want: pins{is}, said: "s: pinned are"},
		{name: "no terminal, only", here: hereOnly, want: pins{is}, said: "s: pinned are"},
		{name: "no terminal, no", here: hereNo},
		{name: "there", ask: true, pinned: pins{is}, changed: true, want: pins{is}},
		{name: "among others", ask: true, pinned: pins{is, was}, changed: true, want: pins{is, was}},
		{name: "among others, only", here: hereOnly, pinned: pins{is, was}, settled: true, want: pins{is}},
		{name: "moved, only", ask: true, pinned: pins{was}, answers: "x\nO\n", want: pins{is}, settled: true, said: "It called itself s 1, and calls itself s 2 now."},
		{name: "moved, both", ask: true, pinned: pins{was}, answers: "both\n", want: pins{is, was}, settled: true, said: "  node dist/index.js\n"},
		{name: "moved, keep", ask: true, pinned: pins{was}, answers: "k\n", want: pins{was}, settled: true, state: toolLeftOut, said: "s: 1 tool is still pinned to the old place"},
		{name: "moved and changed", ask: true, pinned: pins{was}, changed: true, answers: "o\n", want: pins{is}, said: "not where the catalog pins 1 tool"},
		{name: "moved and changed, keep", ask: true, pinned: pins{was}, changed: true, answers: "k\n", want: pins{was}, said: "--here=only the new one alone"},
		{name: "moved, flag", ask: true, here: hereOnly, pinned: pins{was}, want: pins{is}, settled: true, said: "s: pinned are"},
		{name: "moved, no terminal", pinned: pins{was}, want: pins{was}, settled: true, state: toolLeftOut, said: "s: 1 tool is still pinned to the old place"},
		{name: "moved, no terminal, no", here: hereNo, pinned: pins{was}, want: pins{was}, settled: true, state: toolLeftOut, said: "still pinned"},
		{name: "moved, no terminal, flag", here: hereYes, pinned: pins{was}, want: pins{is, was}, said: "s: pinned are"},
		{name: "moved, no terminal, only", here: hereOnly, pinned: pins{was}, want: pins{is}, said: "s: pinned are"},
		{name: "moved and changed, no terminal", pinned: pins{was}, changed: true, want: pins{was}, said: "still pinned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			definition := func(title string) json.RawMessage {
				return json.RawMessage(`{"name":"x","title":"` + title + `","inputSchema":{"type":"object"}}`)
			}
			have, raw := map[string]catalog.Template{}, definition("a")
			if c.pinned != nil {
				print, err := fingerprint.Tool(raw)
				require.NoError(t, err)
				have["s/x"] = catalog.Template{ProviderType: plan.MCP, Provider: "s", Operation: "x", Mode: plan.Deter, Effect: plan.Pure, Status: plan.AllowAuto,
					Definition: raw, Fingerprint: print.Digest, Endpoints: c.pinned, TimeoutMS: 1, Retry: plan.Retry{MaxAttempts: 1}}
			}
			if c.changed {
				raw = definition("b")
			}
			x := examine(where{server: "s", endpoint: is, said: c.here}, mcp.Tool{Name: "x", Raw: raw}, have, nil)
			require.NotEqual(t, toolSame, x.State)
			server := introduced{place: map[string]any{"command": "node", "args": []any{"dist/index.js"}}, files: []string{"dist/index.js"}}
			server.Introduction.Endpoint = is
			var screen bytes.Buffer
			a := &asker{p: &Program{Stderr: &screen}, in: bufio.NewReader(strings.NewReader(c.answers)), ask: c.ask}
			require.NoError(t, a.place("s", server, c.here, []*importedTool{x}, "It called itself s 1, and calls itself s 2 now."))
			e, err := x.entry("s", config.ServerDefaults{})
			require.NoError(t, err)
			var facts struct{ Endpoints []string }
			require.NoError(t, json.Unmarshal(e.Facts, &facts))
			require.Equal(t, c.want, facts.Endpoints)
			if c.state == "" {
				c.state = toolNew
				if c.pinned != nil {
					c.state = toolChanged
				}
			}
			require.Equal(t, c.state, x.State)
			require.Equal(t, c.settled, x.settled)
			if c.said == "" {
				require.Empty(t, screen.String())
			} else {
				require.Contains(t, screen.String(), c.said)
			}
		})
	}
}

// TestConfirm: an answer that was not offered is asked about again.
func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		answers     string
		usual, want bool
		asked       int
	}{
		{"\n", true, true, 1}, {"\n", false, false, 1}, {"Yes\n", false, true, 1}, {"n\n", true, false, 1}, {"a\nwhat\ny\n", false, true, 3},
	} {
		var screen bytes.Buffer
		a := &asker{p: &Program{Stderr: &screen}, in: bufio.NewReader(strings.NewReader(c.answers)), ask: true}
		got, err := a.confirm(c.usual, "Well?")
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		require.Equal(t, c.asked, strings.Count(screen.String(), "Well?"))
	}
	a := &asker{p: &Program{Stderr: new(bytes.Buffer)}, in: bufio.NewReader(strings.NewReader("a\n")), ask: true}
	_, err := a.confirm(true, "Well?")
	require.ErrorContains(t, err, "the answers end")
}

// TestNamed: a pattern does not name what was flagged or has changed.
func TestNamed(t *testing.T) {
	o := &intakeOptions{accept: []string{"read_*", "odd"}}
	for _, c := range []struct {
		name    string
		flagged bool
		want    bool
	}{{"read_a", false, true}, {"read_a", true, false}, {"odd", true, true}, {"write", false, false}} {
		require.Equal(t, c.want, o.named("s", &importedTool{Name: c.name, flagged: c.flagged}), c.name)
	}
	o.accept = []string{"s/*"}
	require.True(t, o.named("s", &importedTool{Name: "write"}))
	require.False(t, o.named("t", &importedTool{Name: "write"}))
}
