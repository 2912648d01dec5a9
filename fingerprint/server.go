package fingerprint

import (
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/schemas"
)

// Introduction is what a server says at the beginning of a session. What it calls itself and its
// version (serverInfo) does not count.
type Introduction struct {
	// Protocol is the version of the protocol that was negotiated.
	Protocol string
	// Capabilities is a JSON object as the server sent it; nil is {}.
	Capabilities json.RawMessage
	// Instructions are for models to read, or "".
	Instructions string
}

// Endpoint returns the digest of where a server is, by what identifies that: an object of JSON,
// decoded as by [schemas.Decode].
func Endpoint(identity map[string]any) (string, error) {
	d, err := digest("mcp-endpoint/1", identity)
	if err != nil {
		return "", fmt.Errorf("the identity of an endpoint: %w", err)
	}
	return d, nil
}

// Instructions returns the digest of a server's instructions, which may be "".
func Instructions(text string) (string, error) {
	d, err := digest("mcp-instructions/1", text)
	if err != nil {
		return "", fmt.Errorf("the instructions of a server: %w", err)
	}
	return d, nil
}

// Server returns the digest of a server at an endpoint, by the digest of that: what it says of
// itself, and all its tools, in whatever order they are. It refuses two tools of one name.
func Server(endpoint string, i Introduction, prints []Print) (string, error) {
	list, err := listed(prints)
	if err != nil {
		return "", err
	}
	capabilities, err := i.capabilities()
	if err != nil {
		return "", err
	}
	return digest("mcp-server/1", map[string]any{
		"endpoint": endpoint, "protocol_version": i.Protocol, "capabilities": capabilities, "instructions": i.Instructions, "tools": list,
	})
}

func (i Introduction) capabilities() (any, error) {
	if i.Capabilities == nil {
		return map[string]any{}, nil
	}
	v, err := schemas.Decode(i.Capabilities)
	if err != nil {
		return nil, fmt.Errorf("the capabilities of a server: %w", err)
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, errors.New("the capabilities of a server are not an object")
	}
	return v, exact(v, "")
}
