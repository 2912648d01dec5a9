package devserver

import (
	"fmt"
	"os"
	"strings"
)

// PortError reports that a port is in use.
type PortError struct {
	Port int
	// What the port is for.
	What string
	// Option chooses another port.
	Option string
}

func (e *PortError) Error() string {
	return fmt.Sprintf("port %d for %s is in use by another process; choose another with %s (0 takes a free one)",
		e.Port, e.What, e.Option)
}

// DatabaseError reports that a database file cannot be used.
type DatabaseError struct {
	File string
	// Reason says what is wrong with it.
	Reason string
	// Hint says what to do.
	Hint string
}

func (e *DatabaseError) Error() string {
	return fmt.Sprintf("the Temporal database %s %s; %s", e.File, e.Reason, e.Hint)
}

// moveAway is the hint for every unusable database.
func moveAway(file string) string {
	return "nothing was changed; " + startEmpty(file)
}

// startEmpty says how to start without the database while preserving it.
func startEmpty(file string) string {
	return fmt.Sprintf("to start with an empty one and keep the old, run: mv %s %s.old", file, file)
}

// damage matches what SQLite and the server say of a file that is not, or no longer, the
// database they expect.
var damage = []struct{ text, reason string }{
	{"file is not a database", "is not an SQLite database"},
	{"malformed", "is damaged"},
	{"no such table", "was not made by this version of the server, or its creation was cut short"},
	{"no such column", "was made by another version of the server"},
	{"has no column", "was made by another version of the server"},
	{"readonly database", "cannot be written"},
	{"unable to open database", "cannot be opened"},
	{"disk I/O error", "cannot be read or written"},
	{"database or disk is full", "does not fit on the disk"},
}

// explain converts the last output of a server that failed to start to an error for
// people.
func explain(o Options, log string, cause error) error {
	if o.DB != "" {
		if _, err := os.Stat(o.DB); err == nil {
			for _, d := range damage {
				if strings.Contains(log, d.text) {
					return &DatabaseError{File: o.DB, Reason: d.reason, Hint: moveAway(o.DB)}
				}
			}
		}
	}
	if log == "" {
		return fmt.Errorf("the Temporal server ended at its start: %w", cause)
	}
	return fmt.Errorf("the Temporal server ended at its start (%w): %s", cause, log)
}
