package main

import (
	"time"

	"chimera.ai/engine/client"
)

// standstill describes why a run does not go on, without what changes with each attempt.
func standstill(s *client.Stuck) string {
	text := "the run does not go on"
	if !s.Since.IsZero() {
		text += ", since " + s.Since.Local().Format(time.DateTime)
	}
	return text + ": " + s.Cause + "\n" + s.Hint
}
