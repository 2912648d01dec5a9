package deps

import "strings"

// Table writes the rows of packages that exist as a Markdown table, grouped as
// in rules. ARCHITECTURE.md holds it between [TableStart] and [TableEnd].
func Table(rules []Rule) string {
	var b strings.Builder
	b.WriteString("| package | may do | owns | never imports |\n|---|---|---|---|\n")
	for _, r := range rules {
		if r.Planned {
			continue
		}
		never := make([]string, 0, len(r.Never))
		for _, name := range r.Never {
			if planned(name, rules) {
				continue
			}
			if _, group := Groups[name]; !group || name == "os" || name == "net" || name == "sync" || name == "log/slog" {
				name = "`" + name + "`"
			}
			never = append(never, name)
		}
		cell := strings.Join(never, ", ")
		if len(r.Except) > 0 {
			cell += " (except `" + strings.Join(r.Except, "`, `") + "`)"
		}
		b.WriteString("| `" + r.Path + "` | " + string(r.Zone) + " | " + r.Owns + " | " + cell + " |\n")
	}
	return b.String()
}

// planned reports whether name is a row, or lies in a row, that does not exist yet.
func planned(name string, rules []Rule) bool {
	for _, r := range rules {
		if covers(r.Path, name) || r.Path == name+"/..." {
			return r.Planned
		}
	}
	return false
}

// The lines of ARCHITECTURE.md between which the table stands.
const (
	TableStart = "<!-- table of internal/deps: go test ./internal/deps -update -->\n"
	TableEnd   = "<!-- end of the table -->\n"
)
