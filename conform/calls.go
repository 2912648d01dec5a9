package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/schemas"
)

// call is an example call that may be made.
type call struct {
	Example
	tool *tool
	// result is what it returned, and succeeded reports that it did.
	result    mcp.Result
	succeeded bool
}

// noTool is a name that no tool should have.
const noTool = "chimera_conform_no_such_tool"

func (s *suite) unknownTool(ctx context.Context) []Result {
	if s.tool(noTool) != nil {
		return skip("the server has a tool %s", noTool)
	}
	_, err := s.do(ctx, noTool, json.RawMessage(`{}`))
	const change = "answer with the JSON-RPC error -32602"
	switch {
	case err == nil:
		return []Result{fail("", "a call of the tool %s, which is not there, succeeded: %s", noTool, change)}
	case failure(err) == contract.Contract:
		return nil
	case failure(err) == contract.ToolError:
		return []Result{warn("", "a call of a tool that is not there is refused with isError, as if the tool had run: %s", change)}
	case failure(err) == contract.ServerError:
		return []Result{warn("", "a call of a tool that is not there is refused with another error (%s): %s", say(err), change)}
	default:
		return []Result{fail("", "a call of a tool that is not there was not answered (%s): %s", say(err), change)}
	}
}

// refused reports whether the error of a call is an answer of the server.
func refused(err error) bool {
	switch failure(err) {
	case contract.ToolError, contract.Contract, contract.ServerError:
		return true
	default:
		return false
	}
}

// do calls a tool within the bound of an answer.
func (s *suite) do(ctx context.Context, tool string, args json.RawMessage) (mcp.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	return s.client.Call(ctx, s.target.Name, tool, args)
}

// examplesMatch checks the examples, and gathers those that may be called.
func (s *suite) examplesMatch(context.Context) (out []Result) {
	found := false
	for i := range s.tools {
		t := &s.tools[i]
		for n, args := range t.examples() {
			found = true
			if t.input != nil {
				if _, err := t.input.ValidateJSON(args); err != nil {
					out = append(out, fail(t.Name, "/inputSchema/examples/%d: %s: correct the example or the schema", n, err))
					continue
				}
			}
			if t.readsOnly() {
				s.calls = append(s.calls, &call{Example: Example{Tool: t.Name, Arguments: args}, tool: t})
			}
		}
	}
	for i, e := range s.opts.Examples.Calls {
		found = true
		t := s.tool(e.Tool)
		if t == nil {
			hint := ""
			if near := syntax.Nearest(e.Tool, s.names()); near != "" {
				hint = ": did you mean " + near + "?"
			}
			out = append(out, fail(e.Tool, "example %d of the file: the server has no such tool%s", i+1, hint))
			continue
		}
		if t.input != nil && !e.ExpectError {
			if _, err := t.input.ValidateJSON(e.Arguments); err != nil {
				out = append(out, fail(t.Name, "example %d of the file: %s: correct the example or /inputSchema", i+1, err))
				continue
			}
		}
		s.calls = append(s.calls, &call{Example: e, tool: t})
	}
	if !found {
		return skip("there are no example calls: put some into /inputSchema/examples of tools, or into a file")
	}
	return out
}

func (s *suite) names() []string {
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Name
	}
	return names
}

// examples returns the arguments that the definition gives as examples.
func (t *tool) examples() []json.RawMessage {
	var schema struct {
		Examples []json.RawMessage `json:"examples"`
	}
	if json.Unmarshal(t.schema("inputSchema"), &schema) != nil {
		return nil
	}
	return schema.Examples
}

// badArguments calls tools that only read with arguments that their schema refuses.
func (s *suite) badArguments(ctx context.Context) (out []Result) {
	tried := 0
	for i := range s.tools {
		t := &s.tools[i]
		if !t.readsOnly() {
			continue
		}
		args, why := s.bad(t)
		if args == nil {
			continue
		}
		tried++
		_, err := s.do(ctx, t.Name, args)
		const change = "check arguments against /inputSchema, and answer with isError or the error -32602"
		switch {
		case err == nil:
			out = append(out, fail(t.Name, "it took %s, which /inputSchema refuses (%s): %s", excerpt.Clip(string(args), 200), why, change))
		case failure(err) == contract.ServerError:
			out = append(out, warn(t.Name, "it refused %s otherwise (%s): %s", excerpt.Clip(string(args), 200), say(err), change))
		case !refused(err):
			out = append(out, fail(t.Name, "it did not answer to %s (%s): %s", excerpt.Clip(string(args), 200), say(err), change))
			if failure(err) == contract.Timeout {
				return out // the others would take as long
			}
		}
	}
	if tried == 0 {
		return skip("no tool says that it only reads, and has arguments that could be wrong")
	}
	return out
}

// bad returns arguments that the schema of a tool refuses, and why, or nil if it found none: those
// of an example, or none, with one left out or of another type.
func (s *suite) bad(t *tool) (args json.RawMessage, why string) {
	if t.input == nil {
		return nil, ""
	}
	base := map[string]any{}
	for _, c := range s.calls {
		if c.tool == t && !c.ExpectError {
			if v, err := schemas.Decode(c.Arguments); err == nil {
				base, _ = v.(map[string]any)
			}
			break
		}
	}
	try := func(v map[string]any) bool {
		var invalid *schemas.Invalid
		if !errors.As(t.input.Validate(v), &invalid) {
			return false
		}
		raw, err := json.Marshal(v)
		args, why = raw, invalid.Error()
		return err == nil
	}
	if try(map[string]any{}) {
		return args, why
	}
	input, _ := t.fields["inputSchema"].(map[string]any)
	properties, _ := input["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		for _, wrong := range []any{map[string]any{}, "x", json.Number("-1")} {
			v := maps.Clone(base)
			v[name] = wrong
			if try(v) {
				return args, why
			}
		}
	}
	return nil, ""
}

// outputsMatch makes the example calls.
func (s *suite) outputsMatch(ctx context.Context) (out []Result) {
	if len(s.calls) == 0 {
		return skip("there are no example calls of tools that only read or that a file names")
	}
	for _, c := range s.calls {
		var err error
		c.result, err = s.do(ctx, c.Tool, c.Arguments)
		args := excerpt.Clip(string(c.Arguments), 200)
		switch {
		case c.ExpectError && err == nil:
			out = append(out, fail(c.Tool, "a call with %s succeeded, and the example expects an error: answer with isError", args))
		case c.ExpectError && refused(err):
		case err != nil:
			out = append(out, fail(c.Tool, "a call with %s: %s: correct the tool or the example", args, say(err)))
			if failure(err) == contract.Timeout {
				return append(out, s.untried(c)...)
			}
		default:
			c.succeeded = true
			out = append(out, matches(c, c.result, args)...)
		}
	}
	return out
}

// untried says that the calls after one that took too long were not made.
func (s *suite) untried(last *call) []Result {
	i := slices.Index(s.calls, last)
	if i == len(s.calls)-1 {
		return nil
	}
	return []Result{fail("", "the other examples, %s of them, were not tried after that", strconv.Itoa(len(s.calls)-i-1))}
}

// matches holds a result against what its tool declares.
func matches(c *call, r mcp.Result, args string) []Result {
	switch {
	case c.tool.schema("outputSchema") == nil && r.Structured != nil:
		return []Result{warn(c.Tool, "its result has structuredContent, and plans cannot read that by name: declare it as /outputSchema")}
	case c.tool.output == nil:
		return nil
	case r.Structured == nil:
		return []Result{fail(c.Tool, "/outputSchema is there, and the result of a call with %s has no structuredContent: return it, or leave out the schema", args)}
	}
	_, err := c.tool.output.ValidateJSON(r.Structured)
	var invalid *schemas.Invalid
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid) && len(invalid.Causes) > 0:
		at := invalid.Causes[0]
		return []Result{fail(c.Tool, "/structuredContent%s of a call with %s breaks /outputSchema%s: %s: correct one of the two", at.Instance, args, at.Keyword, at.Message)}
	default:
		return []Result{fail(c.Tool, "/structuredContent of a call with %s cannot be checked: %s", args, err)}
	}
}

// replay makes the example calls again, where that changes nothing more.
func (s *suite) replay(ctx context.Context) (out []Result) {
	tried := false
	for _, c := range s.calls {
		if !c.succeeded || !c.tool.repeatable() {
			continue
		}
		tried = true
		args := excerpt.Clip(string(c.Arguments), 200)
		again, err := s.do(ctx, c.Tool, c.Arguments)
		switch {
		case err != nil:
			out = append(out, fail(c.Tool, "a second call with %s failed (%s), and /annotations says that it may be repeated: correct the tool or the hint", args, say(err)))
			if failure(err) == contract.Timeout {
				return out
			}
		case !c.tool.readsOnly() && !equal(c.result, again):
			out = append(out, warn(c.Tool, "a second call with %s has another result: a caller that repeats one cannot tell that it is done already", args))
		}
	}
	if !tried {
		return skip("no example call that succeeded is of a tool that only reads or is idempotent")
	}
	return out
}

// equal compares results as JSON.
func equal(a, b mcp.Result) bool {
	same := func(x, y json.RawMessage) bool {
		var cx, cy bytes.Buffer
		if x == nil || y == nil {
			return x == nil && y == nil
		}
		return json.Compact(&cx, x) == nil && json.Compact(&cy, y) == nil && bytes.Equal(cx.Bytes(), cy.Bytes())
	}
	return same(a.Structured, b.Structured) && same(a.Content, b.Content)
}
