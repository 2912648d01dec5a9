package skills

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/process"
	"chimera.ai/engine/schemas"
)

// Bounds of what a failure carries, in bytes: it travels through histories and
// on to error edges.
const (
	maxMessage = 1 << 10
	maxDetails = 16 << 10
)

// failure returns what is to be said of a program that failed: a tool_error if it says so
// itself, by an error object or an exit code. One that a signal has ended without an error
// object has said nothing, and nobody knows what it did: that is transport.
func failure(what string, state *os.ProcessState, stdout []byte, stderr string) *contract.Error {
	message, more, err := errorObject(stdout)
	if err == nil {
		return &contract.Error{Kind: contract.ToolError, Message: what + ": " + process.Clip(message, maxMessage), Details: more}
	}
	message = lastLine(stderr)
	if message == "" {
		message = "it did not say why"
	}
	kind := contract.ToolError
	if state.ExitCode() < 0 {
		kind = contract.Transport
	}
	bad := contract.Errorf(kind, "%s: %s: %s", what, state, process.Clip(message, maxMessage))
	bad.Details = details(state, stderr)
	return bad
}

var errNotAnError = errors.New("not an error object")

// errorObject reads {"error": {"message": "…", "details": …}}. It drops details that
// exceed their bound.
func errorObject(stdout []byte) (message string, more json.RawMessage, err error) {
	stdout = bytes.TrimSpace(stdout)
	if _, err := schemas.Decode(stdout); err != nil {
		return "", nil, err
	}
	// Use maps, since encoding/json accepts the fields of a struct in any case.
	var out, said map[string]json.RawMessage
	if err := json.Unmarshal(stdout, &out); err != nil {
		return "", nil, err
	}
	if json.Unmarshal(out["error"], &said) != nil || json.Unmarshal(said["message"], &message) != nil || message == "" {
		return "", nil, errNotAnError
	}
	if more = said["details"]; len(more) > maxDetails {
		more = nil
	}
	return message, more, nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// details returns how a program ended and the end of its standard error.
func details(state *os.ProcessState, stderr string) json.RawMessage {
	raw, err := json.Marshal(struct {
		Exit   int    `json:"exit_code"`
		State  string `json:"state"`
		Stderr string `json:"stderr,omitempty"`
	}{state.ExitCode(), state.String(), stderr})
	if err != nil {
		return nil
	}
	return raw
}
