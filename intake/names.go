package intake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// maxName is how much of a name is looked at for its scripts, in characters.
const maxName = 256

// FlagNames finds names that look like another: among the tools of one server, and against names
// that are known already. It also finds those that are not ASCII. Paths are JSON pointers into
// the list of names. Equal names do not count.
func FlagNames(names []string) []Flag {
	alike := map[string][]string{} // by skeleton, each name once
	of := map[string]string{}      // the skeleton of each name
	for _, name := range names {
		if _, seen := of[name]; !seen {
			s := skeleton(name)
			of[name] = s
			alike[s] = append(alike[s], name)
		}
	}
	var flags []Flag
	for i, name := range names {
		flag := func(kind FlagKind, reason string) {
			flags = append(flags, Flag{Kind: kind, Path: fmt.Sprintf("/%d", i), Text: excerpt(name, 0), Reason: reason})
		}
		if scripts := scripts(name); len(scripts) > 1 {
			flag(Name, "The name mixes letters of "+strings.Join(scripts, " and ")+".")
		} else if !ascii(name) {
			flag(Name, "The name has characters other than ASCII.")
		}
		same := alike[of[name]]
		if len(same) == 1 {
			continue
		}
		other := same[0]
		if other == name {
			other = same[1]
		}
		what := "looks like"
		if caseless(name) == caseless(other) {
			what = "differs only by case, or by - and _, from"
		}
		flag(Lookalike, fmt.Sprintf("The name %s %s.", what, excerpt(other, 0)))
	}
	return flags
}

// FlagKnown finds names of a server and its tools that look like those of other servers, known by
// their names with those of their tools. Equal names of tools do not count, nor those that differ
// only by case or separators: servers have their own habits. Paths are "" for the name of the server,
// and otherwise JSON pointers into the list of tools.
func FlagKnown(server string, tools []string, known map[string][]string) (flags []Flag) {
	of := map[string][]string{} // tools of others by skeleton, as server/tool
	for _, other := range slices.Sorted(maps.Keys(known)) {
		if other == server {
			continue
		}
		if skeleton(other) == skeleton(server) {
			flags = append(flags, Flag{Kind: Lookalike, Text: excerpt(server, 0), Reason: fmt.Sprintf("The name of the server looks like that of %s.", excerpt(other, 0))})
		}
		for _, tool := range known[other] {
			of[skeleton(tool)] = append(of[skeleton(tool)], other+"/"+tool)
		}
	}
	for i, tool := range tools {
		for _, other := range of[skeleton(tool)] {
			_, name, _ := strings.Cut(other, "/")
			if caseless(name) != caseless(tool) {
				flags = append(flags, Flag{Kind: Lookalike, Path: fmt.Sprintf("/%d", i), Text: excerpt(tool, 0), Reason: fmt.Sprintf("The name looks like %s.", excerpt(other, 0))})
				break
			}
		}
	}
	return flags
}

// separators stand between the words of a name.
var separators = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

// caseless is a name without what only separates its words.
func caseless(name string) string { return separators.Replace(strings.ToLower(name)) }

// similar are letters and digits of ASCII that people take for others.
var similar = strings.NewReplacer("0", "o", "1", "l", "i", "l", "|", "l", "5", "s", "rn", "m", "vv", "w")

// skeleton is equal for names that look alike.
func skeleton(name string) string {
	var b strings.Builder
	known := folder{}
	for _, r := range name {
		b.WriteString(known.plain(r))
	}
	return similar.Replace(caseless(b.String()))
}

// scripts are the scripts of the letters of a name, in order.
func scripts(name string) []string {
	of := map[string]bool{}
	n := 0
	for _, r := range name {
		if n++; n > maxName {
			break
		}
		if !unicode.IsLetter(r) {
			continue
		}
		for script, table := range unicode.Scripts {
			if script != "Common" && script != "Inherited" && unicode.Is(table, r) {
				of[script] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(of))
}
