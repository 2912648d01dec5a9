package main

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	pathSchema = `{"type":"string","minLength":1,"maxLength":4096}`

	listInput  = `{"type":"object","properties":{"pattern":{"type":"string","minLength":1,"maxLength":1024},"limit":{"type":"integer","minimum":1,"maximum":10000}},"required":["pattern"],"additionalProperties":false}`
	listOutput = `{"type":"object","properties":{"files":{"type":"array","items":{"type":"string"},"maxItems":10000},"truncated":{"type":"boolean"}},"required":["files","truncated"],"additionalProperties":false}`

	readInput  = `{"type":"object","properties":{"path":` + pathSchema + `},"required":["path"],"additionalProperties":false}`
	readOutput = `{"type":"object","properties":{"path":{"type":"string"},"size":{"type":"integer","minimum":0,"maximum":1048576},"text":{"type":"string"}},"required":["path","size","text"],"additionalProperties":false}`

	statOutput = `{"type":"object","properties":{"path":{"type":"string"},"kind":{"enum":["file","folder"]},"size":{"type":"integer","minimum":0},"modified":{"type":"string","format":"date-time"}},"required":["path","kind","size","modified"],"additionalProperties":false}`
)

const (
	writeInput  = `{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":255},"text":{"type":"string"}},"required":["path","text"],"additionalProperties":false}`
	writeOutput = `{"type":"object","properties":{"path":{"type":"string"},"size":{"type":"integer","minimum":0,"maximum":1048576},"before":{"type":["string","null"]}},"required":["path","size","before"],"additionalProperties":false}`

	restoreInput  = `{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":255},"before":{"type":["string","null"]}},"required":["path","before"],"additionalProperties":false}`
	restoreOutput = `{"type":"object","properties":{"path":{"type":"string"},"there":{"type":"boolean"}},"required":["path","there"],"additionalProperties":false}`
)

// writeTools are the tools that have effects.
func writeTools(r *reports) []server.ServerTool {
	writes, destroys := mcp.WithReadOnlyHintAnnotation(false), mcp.WithDestructiveHintAnnotation(true)
	return []server.ServerTool{
		tool("write_file", writeInput, writeOutput,
			"Writes a text file into the folder for reports, or replaces the one that is there. Tells what was in it before, or null.",
			func(_ context.Context, in struct{ Path, Text string }) (any, error) { return r.write(in.Path, in.Text) },
			writes, destroys),
		tool("restore_file", restoreInput, restoreOutput,
			"Undoes write_file: writes what was in the file before, or removes it if that is null.",
			func(_ context.Context, in struct {
				Path   string
				Before *string
			}) (any, error) {
				return r.restore(in.Path, in.Before)
			},
			writes, destroys),
	}
}

// tools are what the server shows.
func tools(f *files) []server.ServerTool {
	return []server.ServerTool{
		tool("list_files", listInput, listOutput,
			"Lists the files whose path matches a pattern, sorted. * and ? match within one name, ** any number of folders. Names that begin with a dot are matched only by a pattern that says the dot.",
			func(ctx context.Context, in struct {
				Pattern string
				Limit   int
			}) (any, error) {
				return f.list(ctx, in.Pattern, in.Limit)
			}),
		tool("read_file", readInput, readOutput,
			"Reads a text file in UTF-8 of at most 1 MiB.",
			func(_ context.Context, in struct{ Path string }) (any, error) { return f.read(in.Path) }),
		tool("stat_file", readInput, statOutput,
			"Tells the kind, the size in bytes and the time of the last change of a file or a folder.",
			func(_ context.Context, in struct{ Path string }) (any, error) { return f.stat(in.Path) }),
	}
}

// tool makes one tool, which only reads unless options say otherwise. A failure of do
// becomes a result that says isError, as the protocol has it for what a tool itself finds
// wrong.
func tool[In any](name, input, output, description string, do func(context.Context, In) (any, error), options ...mcp.ToolOption) server.ServerTool {
	definition := mcp.NewToolWithRawSchema(name, description, json.RawMessage(input))
	for _, option := range append([]mcp.ToolOption{
		mcp.WithRawOutputSchema(json.RawMessage(output)),
		mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithDestructiveHintAnnotation(false),
		mcp.WithIdempotentHintAnnotation(true),
		mcp.WithOpenWorldHintAnnotation(false),
	}, options...) {
		option(&definition)
	}
	return server.ServerTool{Tool: definition, Handler: func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in In
		if err := request.BindArguments(&in); err != nil {
			return mcp.NewToolResultError("read the arguments: " + err.Error()), nil
		}
		out, err := do(ctx, in)
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultStructuredOnly(out), nil
	}}
}
