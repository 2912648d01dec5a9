package main

import (
	"slices"
	"time"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
)

// guardianPatience is how long the guardian may take before that is reported: it decides within a second.
const guardianPatience = 5 * time.Second

// unserved tells of a run that waits for a worker that is not there.
type unserved struct {
	// since is when it was first seen to wait so, or zero, and said reports that it was told.
	since time.Time
	said  bool
}

// note is what to say of a run that waits for waiting now, or "" if that is nothing new.
func (u *unserved) note(waiting []contract.Wait, now time.Time) string {
	queue := slices.IndexFunc(waiting, func(w contract.Wait) bool { return w.Kind == contract.WaitQueue })
	guarded := slices.ContainsFunc(waiting, func(w contract.Wait) bool { return w.Kind == contract.WaitGuardian })
	if queue < 0 && !guarded {
		*u = unserved{}
		return ""
	}
	if u.since.IsZero() {
		u.since = now
	}
	if u.said || queue < 0 && now.Sub(u.since) < guardianPatience {
		return ""
	}
	u.said = true
	if queue < 0 {
		return "waits for the guardian, which has not answered yet; is a worker with the role guardian there?"
	}
	return "no worker takes the call of " + waiting[queue].Node + ", which is made again and again; are there workers of all roles?"
}

// standstill describes why a run does not go on, without what changes with each attempt.
func standstill(s *client.Stuck) string {
	text := "the run does not go on"
	if !s.Since.IsZero() {
		text += ", since " + s.Since.Local().Format(time.DateTime)
	}
	return text + ": " + s.Cause + "\n" + s.Hint
}
