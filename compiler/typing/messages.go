package typing

import (
	"encoding/json"
	"errors"
	"strings"

	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/schemas"
)

// refusal says in the validator's words why a schema refuses a value.
func refusal(v any, s *schemas.Schema, name string) string {
	cause, ok := causeOf(v, s)
	if !ok {
		return ""
	}
	text := name + " refuses it"
	if cause.Instance != "" {
		text += " at " + fields.Quote(cause.Instance)
	}
	text += ": " + cause.Message
	if keyword := keywordOf(cause); keyword != "" {
		text += " (`" + keyword + "`)"
	}
	return fields.Sentence(text)
}

// stopped says what made a proof end without an answer.
func stopped(r containment.Result) string {
	return "What stopped the proof: " + proof.Stopped(r) + "."
}

// causeOf returns the first reason why a schema refuses a value.
func causeOf(v any, s *schemas.Schema) (schemas.Cause, bool) {
	var invalid *schemas.Invalid
	if err := s.Validate(v); !errors.As(err, &invalid) || len(invalid.Causes) == 0 {
		return schemas.Cause{}, false
	}
	return invalid.Causes[0], true
}

// keywordOf returns the keyword that a cause is about, also if its path goes on to
// an entry of the keyword.
func keywordOf(c schemas.Cause) string {
	path := strings.Split(c.Keyword, "/")
	for back := 2; back <= 3 && back < len(path); back++ {
		switch word := path[len(path)-back]; word {
		case "dependentRequired", "dependencies":
			return word
		}
	}
	return path[len(path)-1]
}

// shown formats a counterexample.
func shown(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return excerpt.Bytes(string(raw), 400)
}

// describe formats a schema for a sentence.
func describe(s *schemas.Schema) string { return "`" + excerpt.Bytes(s.Describe(), 240) + "`" }

// brief formats a schema for a label.
func brief(s *schemas.Schema) string {
	if text := s.Describe(); text != "true" {
		return excerpt.Bytes(text, 80)
	}
	return "anything"
}
