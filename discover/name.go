package discover

import (
	"regexp"
	"strings"
	"unicode"
)

var (
	unfit        = regexp.MustCompile(`[^0-9A-Za-z._-]+`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	notVariable  = regexp.MustCompile(`[^A-Z0-9]+`)
	headerName   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$")
)

// fit makes a name fit the rule of chimera.yaml.
func fit(name string) string {
	name = strings.TrimLeft(unfit.ReplaceAllString(name, "-"), "._-")
	name = strings.TrimRight(name[:min(len(name), 128)], "-")
	if name == "" {
		return "server"
	}
	return name
}

// upper makes the name of a variable out of names.
func upper(names ...string) string {
	name := strings.Trim(notVariable.ReplaceAllString(strings.ToUpper(strings.Join(names, "_")), "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// hidden reports whether text holds what does not show: control characters other than
// line feeds and tabs, marks of direction, characters without width, white space that is
// no space.
func hidden(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}
