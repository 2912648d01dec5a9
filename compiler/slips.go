package compiler

import "strings"

// slip is an expression as CEL would write it, where its text has what other
// languages have for the same: `and`, `===`, a condition between `${` and `}`.
// It is "" unless fits accepts it.
func slip(text string, fits func(string) bool) string {
	inner := strings.TrimSpace(text)
	for _, marks := range [][2]string{{"${", "}"}, {"{{", "}}"}} {
		rest, opened := strings.CutPrefix(inner, marks[0])
		if rest, closed := strings.CutSuffix(rest, marks[1]); opened && closed && !strings.Contains(rest, "${") {
			inner = strings.TrimSpace(rest)
		}
	}
	if inner == "" || len(inner) > 1000 {
		return ""
	}
	for _, candidate := range []string{inner, operators(inner)} {
		if candidate != text && fits(candidate) {
			return candidate
		}
	}
	return ""
}

// operators writes the operators of other languages as those of CEL, outside of
// strings.
func operators(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			end := i + 1
			for end < len(text) && text[end] != c {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			out.WriteString(text[i:end])
			i = end
		case word(c):
			end := i
			for end < len(text) && word(text[end]) {
				end++
			}
			name := text[i:end]
			// A member or a key may have any of these names.
			if member := i > 0 && text[i-1] == '.'; !member {
				switch strings.ToLower(name) {
				case "and":
					name = "&&"
				case "or":
					name = "||"
				case "not":
					name = "!"
					for end < len(text) && text[end] == ' ' {
						end++
					}
				}
			}
			out.WriteString(name)
			i = end
		case strings.IndexByte("=!<>", c) >= 0:
			end := i
			for end < len(text) && strings.IndexByte("=!<>", text[end]) >= 0 {
				end++
			}
			switch sign := text[i:end]; sign {
			case "=", "===":
				out.WriteString("==")
			case "!==", "<>":
				out.WriteString("!=")
			default:
				out.WriteString(sign)
			}
			i = end
		default:
			out.WriteByte(c)
			i++
		}
	}
	return out.String()
}
