package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/mcp"
)

// TestUnusable: a tool whose schema exceeds a bound is left out with the bound, its number and the place.
func TestUnusable(t *testing.T) {
	many := `{"type":"object","properties":{"a":{"properties":{` + wide(5000) + `}}}}`
	for definition, want := range map[string]string{
		`{"name":"x","inputSchema":` + many + `}`:                                                                         `its inputSchema is not a usable JSON Schema: at "/properties/a": too large: more than 4096 subschemas`,
		`{"name":"x","inputSchema":{"type":"object"},"outputSchema":` + many + `}`:                                        `its outputSchema is not a usable JSON Schema: at "/properties/a": too large: more than 4096 subschemas`,
		`{"name":"x","inputSchema":{"type":"object","properties":{"a":{"maxLength":1e17}}}}`:                              `its inputSchema is not a usable JSON Schema: at "/properties/a": too large: a count is beyond 9007199254740992`,
		`{"name":"x","inputSchema":{"type":"object","description":"` + strings.Repeat("x", 1<<20) + `"}}`:                 "more than 1048576",
		`{"name":"x","inputSchema":{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("x", 9000) + `"}}}}`: `at "/properties/a": too large: a pattern of 9000 bytes, more than 8192`,
	} {
		x := examine(where{server: "s"}, mcp.Tool{Name: "x", Raw: json.RawMessage(definition)}, nil, nil)
		require.Equal(t, toolLeftOut, x.State, "%.100s", definition)
		require.Contains(t, x.Warnings[0], want)
	}
}

// wide are n properties.
func wide(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"p%d":{}`, i)
	}
	return strings.Join(all, ",")
}
