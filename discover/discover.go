package discover

import (
	"cmp"
	"fmt"
	"slices"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/syntax"
)

// Bounds of what is read and returned.
const (
	// MaxFile is the size of a file, in bytes.
	MaxFile    = 1 << 20
	maxDepth   = 64
	maxNodes   = 100_000
	maxServers = 1000
	maxNotes   = 1000
	// maxText and maxArgs are those of chimera.yaml.
	maxText = 4096
	maxArgs = 1024
)

// Found is the servers of a file, as chimera.yaml has them, in the order of the file.
type Found struct {
	Servers []Server
	// Notes say what was dropped or changed, in the order of the file.
	Notes []Note
}

// Server is an entry of mcpServers: it has either a command or a URL.
type Server struct {
	// Name is 1 to 128 letters, digits, ".", "_" and "-", beginning with a letter or digit.
	Name    string
	Command string
	Args    []string
	// Env holds references, such as ${env:GITHUB_TOKEN}, and values that plainly are no secrets.
	Env map[string]string
	// Dir is the working directory, or "".
	Dir string
	URL string
	// Type is the transport of a URL: "http" (streamable HTTP) or "sse", or "" if the file
	// does not say. It is "" for a command.
	Type string
	// Headers holds references, possibly behind the name of a scheme: Bearer ${env:TOKEN}.
	Headers map[string]string
	// Unpinned is a package or image without an exact version, or nil.
	Unpinned *Unpinned
}

// Note is a line for people about what was dropped or changed. Line and column count from 1
// and refer to the file; they are 0 if there is no place.
type Note struct {
	Line, Column int
	Text         string
	// Server is the one that it is about, by its name in Servers if it stands there, or "".
	Server string
}

// Unpinned is a package or image without an exact version.
type Unpinned struct {
	// Manager is npm, pypi, oci, nuget, jsr, go, git or url.
	Manager string
	// Package is the package's name, or the image without tag.
	Package string
	// Have is the tag or range that is asked for, or "".
	Have string
	// Registry is the other registry that the arguments name, or "".
	Registry string
	// Arg is the index of the argument that holds the package.
	Arg int

	// before is what stands before the package in the argument, and join what stands
	// between package and version.
	before, join string
}

// String names the package with the tag or range that it has.
func (u Unpinned) String() string {
	if u.Have == "" {
		return fmt.Sprintf("%s %s", u.Manager, u.Package)
	}
	return fmt.Sprintf("%s %s (%s)", u.Manager, u.Package, u.Have)
}

// Pin sets the exact version of s.Unpinned in the arguments. Afterwards s.Unpinned is the
// next package without one, or nil.
func (s *Server) Pin(version string) error {
	u := s.Unpinned
	switch {
	case u == nil:
		return fmt.Errorf("pinning server %s: nothing in it is unpinned", s.Name)
	case u.join == "" || u.Arg < 0 || u.Arg >= len(s.Args):
		return fmt.Errorf("pinning server %s: a version cannot be set in its arguments", s.Name)
	case !exact(u.Manager, version):
		return fmt.Errorf("pinning server %s: %s is no exact version of %s", s.Name, excerpt.Quote(version, 80), u.Manager)
	}
	s.Args[u.Arg] = u.before + u.Package + u.join + version
	s.Unpinned = FindUnpinned(s.Command, s.Args)
	return nil
}

// notes collects notes, up to a bound.
type notes struct {
	list []Note
	more int
}

func (n *notes) add(at *syntax.Value, format string, args ...any) { n.addOf("", at, format, args...) }

// addOf adds a note about a server.
func (n *notes) addOf(server string, at *syntax.Value, format string, args ...any) {
	if len(n.list) == maxNotes {
		n.more++
		return
	}
	note := Note{Server: server, Text: fmt.Sprintf(format, args...)}
	if at != nil {
		start := at.Range().Start
		note.Line, note.Column = start.Line, start.Column
	}
	n.list = append(n.list, note)
}

// all returns the notes by their places.
func (n *notes) all() []Note {
	slices.SortStableFunc(n.list, func(a, b Note) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	if n.more > 0 {
		return append(n.list, Note{Text: fmt.Sprintf("%d more notes are not shown", n.more)})
	}
	return n.list
}

// quote shows foreign text in a note or an error.
func quote(s string) string { return excerpt.Quote(s, 80) }
