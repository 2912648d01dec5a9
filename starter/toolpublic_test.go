package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/mcp"
)

// publicDefinitions are those of the public collection, or a few of our own where that is not at hand.
func publicDefinitions(t *testing.T) (all []json.RawMessage, public bool) {
	t.Helper()
	raw, err := os.ReadFile("../../shared/data/mcp-tools.json")
	if errors.Is(err, os.ErrNotExist) {
		raw, err = os.ReadFile("../../../shared/data/mcp-tools.json") // from a worktree
	}
	if public = !errors.Is(err, os.ErrNotExist); !public {
		raw, err = os.ReadFile("../containment/testdata/tools.json")
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &all))
	if public {
		require.Len(t, all, 439)
	}
	require.NotEmpty(t, all)
	return all, public
}

// TestImportPublicTools: each of the public definitions becomes a template with its schemas as they
// came, and few answers suffice for all of them.
func TestImportPublicTools(t *testing.T) {
	definitions, public := publicDefinitions(t)
	type declared struct{ Server, Name string }
	servers := map[string][]*importedTool{}
	schemas := map[string][2]json.RawMessage{}
	for _, d := range definitions {
		var of declared
		var has map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(d, &of))
		require.NoError(t, json.Unmarshal(d, &has))
		x := examine(where{server: of.Server}, mcp.Tool{Name: of.Name, Raw: d}, nil, nil)
		require.Equal(t, toolNew, x.State, "%s: %s", of, x.Warnings)
		require.NoError(t, x.propose(false))
		servers[of.Server] = append(servers[of.Server], x)
		schemas[catalog.OperationName(of.Server, of.Name)] = [2]json.RawMessage{has["inputSchema"], has["outputSchema"]}
	}
	var screen bytes.Buffer
	a := &asker{p: &Program{Stderr: &screen}, in: bufio.NewReader(strings.NewReader(strings.Repeat("a\n", len(definitions)))), ask: true}
	var entries []catalog.Entry
	looks := 0
	for server, tools := range servers {
		var is introduced
		is.Introduction.Endpoint = "sha256:" + strings.Repeat("0", 64)
		require.NoError(t, a.place(server, is, hereUnsaid, tools, ""))
		require.NoError(t, a.decide(&intakeOptions{}, server, tools, false))
		for _, x := range tools {
			e, err := x.entry(server, config.ServerDefaults{Timeout: time.Minute})
			require.NoError(t, err)
			entries = append(entries, e)
			if x.look {
				looks++
			}
		}
	}
	if public {
		require.Equal(t, 5, looks)
	}
	left, err := a.in.ReadString(0)
	require.ErrorIs(t, err, io.EOF)
	require.LessOrEqual(t, len(definitions)-strings.Count(left, "\n"), 30, "answers")
	text, err := catalog.Write(entries)
	require.NoError(t, err)
	all, ds := compiler.ParseCatalog(compiler.Source{Name: toolsFile, Text: text})
	require.False(t, ds.HasErrors(), "%v", ds)
	require.Len(t, all.Templates, len(definitions))
	for i := range all.Templates {
		have := &all.Templates[i]
		want := schemas[have.Name()]
		require.JSONEq(t, string(want[0]), string(have.InputSchema), have.Name())
		if want[1] != nil && string(want[1]) != "null" {
			require.JSONEq(t, string(want[1]), string(have.OutputSchema), have.Name())
		}
	}
}
