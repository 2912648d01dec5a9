package skills

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/program"
)

// Endpoint returns the digest of what the program is, by [fingerprint.Endpoint]: "transport"
// ("executable"), and what [program.Program.Identity] has.
func (e Executable) Endpoint() (string, error) {
	identity, err := program.Program{Command: e.Command, Args: e.Args, Env: e.Env, Public: e.Public, Dir: e.Dir, Pin: e.Pin, Base: e.Base}.Identity()
	if err != nil {
		return "", err
	}
	identity["transport"] = "executable"
	return fingerprint.Endpoint(identity)
}

// CallPinned runs one operation as Call does, if the program is at one of some endpoints, which it
// compares before it starts the program. Further kinds of its error are drift (the program is another
// one) and blocked (it could not be read); it was not started then.
func (e Executable) CallPinned(ctx context.Context, operation string, input json.RawMessage, endpoints []string) (json.RawMessage, error) {
	endpoint, err := e.Endpoint()
	switch {
	case err != nil:
		return nil, contract.Errorf(contract.Blocked, "skill %s is not started, since nobody knows whether it is the program that was approved: %w", operation, err)
	case !slices.Contains(endpoints, endpoint):
		return nil, contract.Errorf(contract.Drift, "skill %s is not the program that was approved: the digest of its endpoint is %s, and %s is pinned",
			operation, endpoint, strings.Join(endpoints, " or "))
	}
	return e.Call(ctx, operation, input)
}
