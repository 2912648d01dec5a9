package fingerprint

import (
	"encoding/json"
	"fmt"
	"slices"

	"chimera.ai/engine/schemas"
)

// Server is what identifies a server, and what it has said of itself.
type Server struct {
	// Endpoint is where it is, as a JSON object: of a child process its executable's digest, its
	// arguments, its lock file and the names of its environment; of a remote server its address,
	// the pinned authority or key, and the issuer of its tokens.
	Endpoint json.RawMessage
	// Protocol is the version that was agreed on, Capabilities what it can do, as it was on the
	// wire, and Instructions its words for models.
	Protocol     string
	Capabilities json.RawMessage
	Instructions string
	// Tools are the fingerprints of its tools, in any order.
	Tools []Print
}

// Digest is the fingerprint of the server: "sha256:" and 64 hex digits.
func (s *Server) Digest() (string, error) {
	tools := map[string]any{}
	for _, t := range s.Tools {
		if _, twice := tools[t.Tool]; twice {
			return "", fmt.Errorf("two tools are called %.200q", t.Tool)
		}
		tools[t.Tool] = t.Digest
	}
	doc := map[string]any{"protocol": s.Protocol, "instructions": s.Instructions, "tools": tools}
	for name, raw := range map[string]json.RawMessage{"endpoint": s.Endpoint, "capabilities": s.Capabilities} {
		v, err := schemas.Decode(raw)
		if err != nil {
			return "", fmt.Errorf("the %s of a server: %w", name, err)
		}
		if _, ok := v.(map[string]any); !ok {
			return "", fmt.Errorf("the %s of a server are not an object", name)
		}
		doc[name] = v
	}
	return digest("mcp-server/1", doc)
}

// Gone and New list the tools that one listing of a server has and the other lacks, by name.
func Gone(was, is []Print) []string { return lacking(was, is) }

// New is [Gone] the other way round.
func New(was, is []Print) []string { return lacking(is, was) }

func lacking(has, lacks []Print) (names []string) {
	for _, t := range has {
		if !slices.ContainsFunc(lacks, func(x Print) bool { return x.Tool == t.Tool }) {
			names = append(names, t.Tool)
		}
	}
	slices.Sort(names)
	return names
}
