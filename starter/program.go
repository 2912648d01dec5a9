package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"chimera.ai/engine/approval/display"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/discover"
)

// Program is one invocation of the command line: Parse, then Run, then Close.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Packages asks registries for the versions of packages. Without a Client it asks the public ones.
	Packages discover.Resolver

	// Name is the name by which the program was invoked, for hints. "" means chimera.
	Name string

	// configFile is --config, or "".
	configFile string
	// format is --format.
	format string
	// action is what Run does, as Parse has determined.
	action func(context.Context) error
	// closers end what Run has begun, in reverse order.
	closers []func() error
	// shown shows a run while others say something, too, or is nil.
	shown *screen
	// ignored reports that it was said that the file of a chimera dev that has ended is ignored.
	ignored bool
	// written reports that the JSON document was written.
	written bool
}

// Run runs the command that Parse has found.
func (p *Program) Run(ctx context.Context) error { return p.action(ctx) }

// Close ends what Run has begun. It may be called more than once.
func (p *Program) Close() error {
	var errs []error
	for _, closer := range slices.Backward(p.closers) {
		errs = append(errs, closer())
	}
	p.closers = nil
	return errors.Join(errs...)
}

// later registers f for Close to call.
func (p *Program) later(f func() error) { p.closers = append(p.closers, f) }

// json reports whether standard output takes one JSON document.
func (p *Program) json() bool { return p.format == formatJSON }

// document writes the JSON document.
func (p *Program) document(v any) error {
	p.written = true
	e := json.NewEncoder(p.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// printf writes part of the answer for people.
func (p *Program) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.Stdout, format, args...) }

// say prints a message for people, beside a run that is being shown.
func (p *Program) say(format string, args ...any) {
	if p.shown != nil {
		p.shown.note(fmt.Sprintf(format, args...))
		return
	}
	_, _ = fmt.Fprintf(p.Stderr, format+"\n", args...)
}

// command returns a command line for people, with this program's name and
// configuration file.
func (p *Program) command(words ...string) string {
	name := p.Name
	if name == "" {
		name = "chimera"
	}
	words = append([]string{name}, words...)
	if p.configFile != "" {
		words = append(words, "--config", p.configFile)
	}
	return printable(strings.Join(words, " "))
}

// diagnose shows findings to people. sources holds the texts of the files.
func (p *Program) diagnose(ds diag.Diagnostics, sources map[string][]byte) {
	_ = ds.WriteText(p.Stderr, sources, color(p.Stderr)) // standard error is the last resort already
}

// terminal returns the file descriptor of w, and whether it is a terminal.
func terminal(w io.Writer) (fd int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return 0, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// color reports whether to use colours on w (no-color.org).
func color(w io.Writer) bool {
	_, ok := terminal(w)
	return ok && os.Getenv("NO_COLOR") == ""
}

// Report shows an error and returns the exit code.
func (p *Program) Report(err error) int {
	if err == nil {
		return exitDone
	}
	f := &failure{code: exitUnanswered, message: err.Error()}
	errors.As(err, &f)
	if p.json() && !p.written {
		answer := struct {
			OK          bool             `json:"ok"`
			Exit        int              `json:"exit_code"`
			Error       string           `json:"error"`
			Hint        string           `json:"hint,omitempty"`
			Diagnostics diag.Diagnostics `json:"diagnostics,omitempty"`
		}{false, f.code, f.message, f.hint, f.diagnostics}
		_ = p.document(answer)
	}
	if len(f.diagnostics) > 0 {
		p.diagnose(f.diagnostics, f.sources)
	}
	if f.message != "" {
		p.say("chimera: %s", printable(f.message))
	}
	if f.hint != "" {
		p.say("%s", printable(f.hint))
	}
	return f.code
}

// foreign is a text of an MCP server, or about one, on a line, by the characters that approvers see.
func foreign(s string) string { return display.Escape(s) }

// printable makes untrusted text safe for a terminal: it replaces all control
// characters except line feeds and tabs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < ' ', r >= 0x7f && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '\uFFFD'
		}
		return r
	}, s)
}
