package intake

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// FlagKind is why people should look at something.
type FlagKind string

// The kinds.
const (
	// Hidden is text that people do not see, or not as it is.
	Hidden FlagKind = "hidden"
	// Name is a name of characters that names are not made of.
	Name FlagKind = "name"
	// Lookalike is a name that looks like another one.
	Lookalike FlagKind = "lookalike"
	// Instruction is text that tells a model what to do.
	Instruction FlagKind = "instruction"
	// Secret is text about secrets, or places where they are.
	Secret FlagKind = "secret"
	// Approval is a claim that nobody need look.
	Approval FlagKind = "approval"
	// Long is a text that nobody reads to its end.
	Long FlagKind = "long"
	// Link is an address that can carry something out, or in.
	Link FlagKind = "link"
	// Blob is encoded text.
	Blob FlagKind = "blob"
)

// Flag is something about a definition that people should look at before they trust the tool.
type Flag struct {
	Kind FlagKind
	// Path is a JSON pointer into what was looked at. Characters of names that are not
	// printable ASCII stand as \u{...} in it, and long names are cut.
	Path string
	// Text is what stands there, or an excerpt of it, in double quotes and escaped like the
	// text that approvers see (package display), so that hidden characters are visible.
	Text string
	// Reason is one sentence for people.
	Reason string
}

const (
	// maxText is how long a text may be that people are expected to read, in bytes.
	maxText = 4096
	// maxFlags is how many flags of each kind are reported: more say no more.
	maxFlags = 20
)

// Flags returns what people should look at in a definition: at most 20 of each kind. An error is a
// definition that is not one, or exceeds [MaxDefinition].
func Flags(definition json.RawMessage) ([]Flag, error) {
	d, err := read(definition)
	if err != nil {
		return nil, err
	}
	f := flagger{of: map[FlagKind]int{}}
	if strings.Trim(d.name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./") != "" {
		f.add(Name, []string{"name"}, d.name, 0, "The name has other characters than letters and digits of ASCII, _, -, . and /.")
	}
	f.walk(d.fields, nil)
	return f.all, nil
}

// flagger collects flags.
type flagger struct {
	all []Flag
	of  map[FlagKind]int
}

func (f *flagger) add(kind FlagKind, path []string, text string, at int, reason string) {
	if f.of[kind]++; f.of[kind] > maxFlags {
		return
	}
	var pointer strings.Builder
	for _, name := range path {
		pointer.WriteString("/" + step(name))
	}
	f.all = append(f.all, Flag{Kind: kind, Path: pointer.String(), Text: excerpt(text, at), Reason: reason})
}

// walk looks at a value and all in it, in the order of its keys.
func (f *flagger) walk(v any, path []string) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			f.walk(e, append(path, strconv.Itoa(i)))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := append(path, name)
			f.name(name, below)
			f.walk(v[name], below)
		}
	case string:
		f.text(v, path)
	}
}

// name looks at a name: of an argument, usually.
func (f *flagger) name(name string, path []string) {
	if !ascii(name) {
		f.add(Name, path, name, 0, "A name has characters other than ASCII.")
	}
	f.hidden(name, path, false)
	f.read(name, path)
}

// text looks at a text that stands under a name.
func (f *flagger) text(text string, path []string) {
	under := path[len(path)-1]
	f.hidden(text, path, under != "name")
	if path[0] == "icons" {
		return // addresses and data of pictures, which no model reads and no fingerprint has
	}
	f.read(text, path)
	if len(text) > maxText {
		f.add(Long, path, text, 0, fmt.Sprintf("The text has %d bytes: what stands at its end is easily overlooked.", len(text)))
	}
	if at := links.FindStringIndex(text); at != nil && !strings.HasPrefix(under, "$") {
		f.add(Link, path, text, at[0], "It has an address that carries data along.")
	}
	if at := blob(text); at >= 0 {
		f.add(Blob, path, text, at, "It has encoded text, which people cannot read.")
	}
}

func (f *flagger) hidden(text string, path []string, lines bool) {
	for _, u := range hidden(text, lines) {
		f.add(Hidden, path, text, u.at, "It has "+u.reason+".")
	}
}

// read looks for what the rules find, each once.
func (f *flagger) read(text string, path []string) {
	plain := fold(text)
	for _, r := range rules {
		if !slices.ContainsFunc(r.parts, func(part string) bool { return strings.Contains(plain.text, part) }) {
			continue
		}
		if at := r.pattern.FindStringIndex(plain.text); at != nil {
			f.add(r.kind, path, text, int(plain.from[at[0]]), strings.ToUpper(r.reason[:1])+r.reason[1:]+".")
		}
	}
}
