package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/redact"
)

// TestNoTokenIsRepeated: what a server declares is refused if a token stands in any part of it.
func TestNoTokenIsRepeated(t *testing.T) {
	const token = "a-token-of-enough-letters"
	said := func(text string) mcp.Introduction {
		return mcp.Introduction{Raw: json.RawMessage(`{"instructions":"use ` + text + `"}`)}
	}
	for name, c := range map[string]struct {
		server live.Server
		where  string
	}{
		"nothing":      {live.Server{Introduction: said("it"), Tools: []mcp.Tool{{Raw: json.RawMessage(`{"name":"a"}`)}}, Resources: []mcp.Resource{{URI: "a:b"}}}, ""},
		"instructions": {live.Server{Introduction: said(token)}, "of itself"},
		"escaped":      {live.Server{Introduction: said(`\u0061` + token[1:])}, "of itself"},
		"tool":         {live.Server{Tools: []mcp.Tool{{Raw: json.RawMessage(`{"name":"` + token + `"}`)}, {Raw: json.RawMessage(`{}`)}}}, "a tool"},
		"uri":          {live.Server{Resources: []mcp.Resource{{URI: "a:" + token}, {}}}, "a resource"},
		"name":         {live.Server{Resources: []mcp.Resource{{Name: token}}}, "a resource"},
		"type":         {live.Server{Resources: []mcp.Resource{{MIMEType: token}}}, "a resource"},
		"template":     {live.Server{Templates: []mcp.ResourceTemplate{{URITemplate: "a:" + token}, {}}}, "a template"},
		"description":  {live.Server{Resources: []mcp.Resource{{Description: token}}}, "a resource"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := askedPool{issued: redact.New(nil)}
			pool.issued.Add(token, time.Now().Add(time.Hour))
			err := pool.clean("files", &c.server)
			if c.where == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.where)
			require.NotContains(t, err.Error(), token)
		})
	}
}
