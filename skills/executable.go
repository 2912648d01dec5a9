package skills

import (
	"context"
	"encoding/json"

	"chimera.ai/engine/contract"
)

// Executable is a program that offers operations.
type Executable struct {
	Command string
	Args    []string
	Env     map[string]string
	Dir     string
	// MaxOutput bounds standard output, in bytes; 0 is the default.
	MaxOutput int64
}

// Call runs one operation.
func (e Executable) Call(ctx context.Context, operation string, input json.RawMessage) (json.RawMessage, error) {
	return nil, contract.Errorf(contract.Unsent, "not supported yet: executable skills")
}
