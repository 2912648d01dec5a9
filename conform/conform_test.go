package conform_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/conform"
	"chimera.ai/engine/conform/verdict"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/mcp"
)

// target is the test's own server, broken in one way.
func target(t testing.TB, how string) conform.Target {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	// The race detector would hold up the end of each process by a second.
	return stdio(mcp.Server{Command: self, Env: map[string]string{serverVar: how, "GORACE": "atexit_sleep_ms=0"}})
}

func stdio(s mcp.Server) conform.Target {
	return conform.Target{Name: "test", Stdio: &s, Open: func() conform.Client {
		return mcp.NewPool(map[string]mcp.Server{"test": s}, mcp.Options{Logger: slog.New(slog.DiscardHandler), StartTimeout: bound, StopGrace: 100 * time.Millisecond})
	}}
}

// bound is far more time than any of these tests needs.
const bound = 5 * time.Minute

// examples are those of the author of the test's server.
const examples = `
- {tool: put, arguments: {path: b}}
- {tool: put, arguments: {path: missing}, expect_error: true}
`

func run(t testing.TB, target conform.Target, file string) conform.Report {
	t.Helper()
	opts := conform.Options{Timeout: bound}
	if file != "" {
		var ds diag.Diagnostics
		opts.Examples, ds = conform.ReadExamples(diag.Source{Name: "examples.yaml", Text: []byte(file)})
		require.Empty(t, ds)
	}
	report, err := conform.Run(t.Context(), target, opts)
	require.NoError(t, err)
	return report
}

func TestSound(t *testing.T) {
	report := run(t, target(t, ""), examples)
	var ids []string
	for _, c := range conform.Cases() {
		ids = append(ids, c.ID)
	}
	var have []string
	for _, r := range report.Cases {
		require.Equal(t, conform.Result{ID: r.ID, Verdict: conform.Passed}, r)
		have = append(have, r.ID)
	}
	require.Equal(t, ids, have)
	slices.Sort(ids)
	require.Equal(t, verdict.IDs(), ids)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, report.ServerFingerprint)
	require.Equal(t, report, run(t, target(t, ""), examples))

	// The hash is as it is defined, with the canonical JSON written by hand.
	sum := func(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
	var verdicts []string
	for _, id := range ids {
		verdicts = append(verdicts, `{"id":"`+id+`","verdict":"passed"}`)
	}
	require.Equal(t, sum(`{"examples":"`+sum(examples)+`","server_fingerprint":"`+report.ServerFingerprint+
		`","suite":"chimera-conform/1","verdicts":[`+strings.Join(verdicts, ",")+`]}`), report.Hash)

	// The hash is of the verdicts and of the examples.
	fewer := run(t, target(t, ""), "")
	require.Equal(t, report.ServerFingerprint, fewer.ServerFingerprint)
	require.NotEqual(t, report.Hash, fewer.Hash)
	worse := run(t, target(t, "chatty"), examples)
	require.Equal(t, report.ServerFingerprint, worse.ServerFingerprint)
	require.NotEqual(t, report.Hash, worse.Hash)
}

// Each server is broken in one way, for which it fails, or is warned, and for nothing else.
func TestBroken(t *testing.T) {
	for how, c := range map[string]struct {
		id      string
		verdict conform.Verdict
		tool    string
		detail  string
	}{
		"pages loop":              {"pages-end", conform.Failed, "", `has the cursor of an earlier one`},
		"page faults":             {"pages-end", conform.Failed, "", `error -32603`},
		"page without tools":      {"pages-end", conform.Failed, "", `page 1: it has no tools`},
		"twins":                   {"pages-end", conform.Failed, "", `two tools are called "read"`},
		"bad name":                {"names-valid", conform.Failed, "read note", `^/name: rename it`},
		"similar names":           {"names-valid", conform.Warned, "READ", `^/name: it differs from "read" only in case`},
		"changes":                 {"list-stable", conform.Failed, "put", `^/description is different in the second listing`},
		"loses":                   {"list-stable", conform.Failed, "put", `^it is missing in the second listing`},
		"gains":                   {"list-stable", conform.Failed, "put", `^it is new in the second listing`},
		"no second list":          {"list-stable", conform.Failed, "", `^the second tools/list of a session failed`},
		"shuffles":                {"list-stable", conform.Warned, "", `^the tools have another order`},
		"restarts":                {"restart-stable", conform.Failed, "", `^/inputSchema/description is different after a restart`},
		"large number":            {"definitions-pinnable", conform.Failed, "read", `"9007199254740993" at /inputSchema/x-limit`},
		"bad schema":              {"schemas-compile", conform.Failed, "read", `^/outputSchema/properties/text/type: `},
		"far schema":              {"schemas-compile", conform.Failed, "read", `^/outputSchema.*: the reference "https://example.com/text.json" leaves the document`},
		"other schema":            {"schemas-compile", conform.Failed, "read", `^/outputSchema/type: it must be "object"$`},
		"no schema":               {"schemas-compile", conform.Failed, "put", `^/inputSchema is missing`},
		"no hint":                 {"hints-complete", conform.Failed, "put", `^/annotations: say true or false as idempotentHint$`},
		"contradiction":           {"hints-complete", conform.Failed, "read", `readOnlyHint and destructiveHint are both true`},
		"no annotations":          {"hints-complete", conform.Failed, "read", `^/annotations is not an object$`},
		"takes any tool":          {"unknown-tool", conform.Failed, "", `succeeded: answer with the JSON-RPC error -32602$`},
		"dies of an unknown tool": {"unknown-tool", conform.Failed, "", `was not answered .*exit status 3`},
		"says isError":            {"unknown-tool", conform.Warned, "", `is refused with isError`},
		"other fault":             {"unknown-tool", conform.Warned, "", `error -32000`},
		"bad example":             {"examples-match", conform.Failed, "read", `^/inputSchema/examples/1: .*Path`},
		"takes any arguments":     {"bad-arguments", conform.Failed, "read", `^it took {}, which /inputSchema refuses`},
		"faults at bad arguments": {"bad-arguments", conform.Warned, "read", `^it refused {} otherwise`},
		"wrong output":            {"outputs-match", conform.Failed, "read", `^/structuredContent/text of a call with {"path":"a"} breaks /outputSchema/properties/text/type: `},
		"no output":               {"outputs-match", conform.Failed, "read", `has no structuredContent`},
		"undeclared output":       {"outputs-match", conform.Warned, "read", `declare it as /outputSchema`},
		"takes what is missing":   {"outputs-match", conform.Failed, "put", `succeeded, and the example expects an error`},
		"fails":                   {"outputs-match", conform.Failed, "read", `error -32603`},
		"fails a second time":     {"replay", conform.Failed, "read", `^a second call with {"path":"a"} failed`},
		"counts":                  {"replay", conform.Warned, "put", `^a second call with {"path":"b"} has another result`},
		"dies when cancelled":     {"cancel", conform.Failed, "", `^after a call of "read" was cancelled, tools/list failed: it closed its output`},
		"chatty":                  {"clean-output", conform.Failed, "", `no messages: 1, the first of which is "server is ready"`},
		"ends badly":              {"stops", conform.Warned, "", `ended with exit status 1`},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			file := examples
			if how == "gains" || how == "similar names" { // there is no tool put
				file = ""
			}
			report := run(t, target(t, how), file)
			blames(t, report, c.id, c.verdict, c.tool, c.detail)
		})
	}
}

// A server that does not answer, or end, costs the time that it may take, and one that writes without
// end no more memory than its bound.
func TestSilent(t *testing.T) {
	const brief = 200 * time.Millisecond
	for how, c := range map[string]struct {
		timeout          time.Duration
		id, tool, detail string
	}{
		"hangs of bad arguments":    {brief, "bad-arguments", "read", `did not answer`},
		"does not answer":           {brief, "outputs-match", "read", `the deadline passed`},
		"hangs when cancelled":      {brief, "cancel", "", `it did not answer in time`},
		"floods when cancelled":     {bound, "clean-output", "", `^lines of standard output that are no messages: [1-9]`},
		"writes a line without end": {bound, "clean-output", "", `^it wrote more than a line of 16777216`},
		"stays":                     {brief, "stops", "", `it still ran 200ms after its standard input was closed`},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			slow := target(t, how)
			open := slow.Open
			slow.Open = func() conform.Client { return patient{open(), c.tool} }
			report, err := conform.Run(t.Context(), slow, conform.Options{Timeout: c.timeout})
			require.NoError(t, err)
			require.Equal(t, conform.Failed, report.Verdicts()[c.id])
			for _, r := range report.Cases {
				if r.ID == c.id {
					require.Equal(t, c.tool, r.Tool)
					require.Regexp(t, c.detail, r.Detail)
				}
			}
		})
	}
}

// patient waits as long as it takes, but for the answer of one tool.
type patient struct {
	conform.Client
	but string
}

func (p patient) Introduction(ctx context.Context, server string) (mcp.Introduction, error) {
	return p.Client.Introduction(context.WithoutCancel(ctx), server)
}

func (p patient) Tools(ctx context.Context, server string) ([]mcp.Tool, error) {
	return p.Client.Tools(context.WithoutCancel(ctx), server)
}

func (p patient) Call(ctx context.Context, server, tool string, args json.RawMessage) (mcp.Result, error) {
	if tool != p.but {
		ctx = context.WithoutCancel(ctx)
	}
	return p.Client.Call(ctx, server, tool, args)
}

// blames checks that a case has the verdict for the reason, and that all others pass, or are
// skipped because of it.
func blames(t *testing.T, report conform.Report, id string, verdict conform.Verdict, tool, detail string) {
	t.Helper()
	found := false
	for _, r := range report.Cases {
		if r.ID != id {
			require.Contains(t, []conform.Verdict{conform.Passed, conform.Skipped}, r.Verdict, "%+v", r)
			continue
		}
		require.Equal(t, verdict, r.Verdict, "%+v", r)
		if !found && (tool == "" || r.Tool == tool) {
			found = true
			require.Regexp(t, detail, r.Detail)
		}
	}
	require.True(t, found, "%+v", report.Cases)
}

func TestUnreachable(t *testing.T) {
	_, err := conform.Run(t.Context(), stdio(mcp.Server{Command: "false"}), conform.Options{})
	var e *contract.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, contract.Unsent, e.Kind)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = conform.Run(ctx, target(t, ""), conform.Options{})
	require.Error(t, err)
}

// caller records which tools are called.
type caller struct {
	conform.Client
	called map[string]int
}

func (c caller) Call(ctx context.Context, server, tool string, args json.RawMessage) (mcp.Result, error) {
	c.called[tool]++
	return c.Client.Call(ctx, server, tool, args)
}

// What does not say that it only reads is called only if the file names it.
func TestCalled(t *testing.T) {
	for file, want := range map[string]bool{"": false, examples: true} {
		watched, called := target(t, ""), map[string]int{}
		open := watched.Open
		watched.Open = func() conform.Client { return caller{open(), called} }
		run(t, watched, file)
		require.Equal(t, want, called["put"] > 0)
		require.NotZero(t, called["read"])
	}
}

func TestReadExamples(t *testing.T) {
	read := func(text string) (conform.Examples, diag.Diagnostics) {
		return conform.ReadExamples(diag.Source{Name: "e.yaml", Text: []byte(text)})
	}
	e, ds := read(`[{"tool": "t", "arguments": {"n": 1.50, "a": [true, null]}, "expect_error": true}, {"tool": "u"}]`)
	require.Empty(t, ds)
	require.Equal(t, []conform.Example{
		{Tool: "t", Arguments: json.RawMessage(`{"a":[true,null],"n":1.50}`), ExpectError: true},
		{Tool: "u", Arguments: json.RawMessage(`{}`)},
	}, e.Calls)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, e.Digest)
	same, _ := read("- {tool: u}\n")
	require.NotEqual(t, e.Digest, same.Digest)

	for text, want := range map[string]string{
		``:                            "the file holds no list of examples",
		`tool: t`:                     "the file is not a list of examples",
		`- {arguments: {}}`:           "tool",
		`- {tool: t, argument: {}}`:   "argument",
		`- {tool: t, arguments: [1]}`: "arguments",
		`- t`:                         "",
		`- {tool: t`:                  "",
	} {
		e, ds := read(text)
		require.True(t, ds.HasErrors(), text)
		require.Contains(t, ds[0].Summary, want, text)
		require.Equal(t, conform.Examples{}, e, text)
	}
}
