package conform

import (
	"context"
	"encoding/json"
	"errors"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/schemas"
)

// Case is a case of the suite.
type Case struct {
	ID string
	// Checks says what must hold, as a sentence without its full stop.
	Checks string
	needs  need
	run    func(s *suite, ctx context.Context) []Result
}

// need is what a case cannot run without.
type need int

const (
	needsNothing need = iota
	needsTools
	needsStdio
)

// cases are the suite, in the order in which it runs.
var cases = []Case{
	{"pages-end", "`tools/list` answers with well-formed pages, no cursor repeats, no two tools have one name, and the pages end", needsNothing, (*suite).pagesEnd},
	{"names-valid", "names of tools have 1 to 128 of the characters A–Z, a–z, 0–9, `_`, `-` and `.`; it warns of two that differ only in case", needsTools, (*suite).namesValid},
	{"list-stable", "a second listing in the same session has the same tools; it warns of another order", needsTools, (*suite).listStable},
	{"restart-stable", "a listing after a restart has the same tools", needsTools, (*suite).restartStable},
	{"definitions-pinnable", "each definition has a fingerprint: it is JSON without duplicate keys, and its numbers are doubles", needsTools, (*suite).definitionsPinnable},
	{"schemas-compile", "`inputSchema`, and `outputSchema` where there is one, are JSON Schemas of type `object`", needsTools, (*suite).schemasCompile},
	{"hints-complete", "`annotations` say `readOnlyHint` and `openWorldHint`, and of a tool that does not only read `destructiveHint` and `idempotentHint`, without contradiction", needsTools, (*suite).hintsComplete},
	{"unknown-tool", "a call of a tool that is not there is refused; it warns of another answer than the error -32602", needsTools, (*suite).unknownTool},
	{"examples-match", "examples are calls of tools that are there, with arguments that `inputSchema` accepts", needsTools, (*suite).examplesMatch},
	{"bad-arguments", "a tool that only reads refuses arguments that its `inputSchema` refuses", needsTools, (*suite).badArguments},
	{"outputs-match", "example calls succeed, and their `structuredContent` is as `outputSchema` says; those that are to fail do", needsTools, (*suite).outputsMatch},
	{"replay", "an example call of a tool that only reads, or is idempotent, succeeds a second time; it warns if an idempotent one answers otherwise", needsTools, (*suite).replay},
	{"cancel", "the server still answers after a call was cancelled, and after a request was that it does not know", needsStdio, (*suite).cancel},
	{"clean-output", "the server writes nothing but messages of JSON-RPC to standard output, each on a line", needsStdio, (*suite).cleanOutput},
	{"stops", "the server ends when its standard input is closed; it warns of an exit status that is not 0", needsStdio, (*suite).stops},
}

// Cases returns the cases of the suite, in the order in which it runs.
func Cases() []Case { return append([]Case(nil), cases...) }

// suite is one run.
type suite struct {
	target Target
	opts   Options
	client Client
	// unreached is the error of a server that could not be reached.
	unreached error
	// listed reports that tools is what the server offers.
	listed bool
	tools  []tool
	// introduction is what the server said before it listed them.
	introduction mcp.Introduction
	// calls are the example calls that may be made, with what became of them.
	calls []*call
	// session is what was seen of a server's standard output; see observe.
	session *session
	results []Result
}

// tool is a tool as the server defines it.
type tool struct {
	mcp.Tool
	// fields is the decoded definition.
	fields     map[string]any
	print      fingerprint.Print
	unpinnable error
	// input and output are nil where there is none that can be used.
	input, output *schemas.Schema
}

// list lists the tools of a client that has started the server, or starts it now.
func (s *suite) list(ctx context.Context, c Client, starts bool) ([]tool, error) {
	wait := s.opts.Timeout
	if starts {
		wait += maxStart
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	listed, err := c.Tools(ctx, s.target.Name)
	if err != nil {
		return nil, err
	}
	tools := make([]tool, len(listed))
	for i, t := range listed {
		tools[i] = read(t)
	}
	return tools, nil
}

// read reads a definition as far as it can be.
func read(t mcp.Tool) tool {
	out := tool{Tool: t}
	if v, err := schemas.Decode(t.Raw); err == nil {
		out.fields, _ = v.(map[string]any)
	}
	out.print, out.unpinnable = fingerprint.Tool(t.Raw)
	return out
}

// schema returns the text of a schema of the definition, or nil if there is none.
func (t *tool) schema(field string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(t.Raw, &all) != nil {
		return nil
	}
	return all[field]
}

// hint returns what the definition's annotations say of a hint, and whether they do.
func (t *tool) hint(name string) (says, said bool) {
	a, _ := t.fields["annotations"].(map[string]any)
	says, said = a[name].(bool)
	return says, said
}

// readsOnly reports whether the server says that the tool changes nothing.
func (t *tool) readsOnly() bool {
	reads, _ := t.hint("readOnlyHint")
	destroys, _ := t.hint("destructiveHint")
	return reads && !destroys
}

// repeatable reports whether the server says that a second call changes nothing more.
func (t *tool) repeatable() bool {
	same, _ := t.hint("idempotentHint")
	return t.readsOnly() || same
}

// tool finds a tool that the server offers, or returns nil.
func (s *suite) tool(name string) *tool {
	for i := range s.tools {
		if s.tools[i].Name == name {
			return &s.tools[i]
		}
	}
	return nil
}

// failure returns the kind of a client's error.
func failure(err error) contract.Kind {
	var e *contract.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return contract.ServerError
}

// say returns the message of a client's error, without its kind.
func say(err error) string {
	var e *contract.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
