package main

import (
	"encoding/json"
	"slices"
	"strings"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/redact"
)

// maxSaid bounds what is shown of the end of a server's standard error, in bytes.
const maxSaid = 2 << 10

// noAnswer is the failure of a command that got no answer from MCP servers, with the last lines that each
// wrote to its standard error. It shows none of the secrets that these got, and is for people alone: what
// workers write of a failure does not come from here.
func noAnswer(err error, secrets ...*redact.Secrets) *failure {
	var text strings.Builder
	for i, e := range serverErrors(err) {
		message, details := e.Message, e.Details
		for _, s := range secrets {
			message, details = s.Text(message), s.Details(details)
		}
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(foreign(strings.ReplaceAll(message, "\n", " ")))
		for _, line := range lastLines(details) {
			text.WriteString("\n  " + foreign(line))
		}
	}
	return unanswered("%s", text.String())
}

// serverErrors are the errors of MCP servers in an error, which may join several.
func serverErrors(err error) []*contract.Error {
	if e, ok := err.(*contract.Error); ok {
		return []*contract.Error{e}
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return serverErrors(u.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*contract.Error
		for _, err := range u.Unwrap() {
			all = append(all, serverErrors(err)...)
		}
		return all
	}
	return nil
}

// lastLines are the last lines of the standard error that stands in the details of a failure: whole ones,
// of maxSaid bytes together at most, or the end of one that is longer.
func lastLines(details json.RawMessage) []string {
	var d struct {
		Stderr string `json:"stderr"`
	}
	if json.Unmarshal(details, &d) != nil {
		return nil
	}
	var lines []string
	left := maxSaid
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(d.Stderr), "\n")) {
		line = strings.TrimRight(line, "\r \t")
		if line == "" {
			continue
		}
		if len(line) > left {
			if len(lines) == 0 {
				lines = append(lines, "..."+strings.ToValidUTF8(line[len(line)-left:], ""))
			}
			break
		}
		left -= len(line)
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return lines
}
