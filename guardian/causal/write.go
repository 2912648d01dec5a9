package causal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Write formats a model as a file in YAML, which [ParseDraft] reads back: a model that was read has the same
// digest again. Equal models give equal bytes. The comments of the file that a model was read from are not
// part of it, and so are lost.
func Write(m *Model) []byte {
	w := &fileWriter{}
	w.line(0, "apiVersion", "chimera/v1")
	w.line(0, "kind", "CausalModel")
	w.line(0, "name", writeText(m.Name))
	w.optional(0, "version", m.Version, writeText)
	w.optional(0, "description", m.Description, writeText)
	w.line(0, "operations", writeTexts(m.Operations))
	if m.Samples != 0 {
		w.line(0, "samples", strconv.Itoa(m.Samples))
	}
	w.begin(0, "variables", len(m.Variables))
	for i := range m.Variables {
		w.variable(&m.Variables[i])
	}
	w.bindings("bind", m.Bind)
	w.begin(0, "kpis", len(m.KPIs))
	for i := range m.KPIs {
		k := &m.KPIs[i]
		var in []string
		if k.Min != nil {
			in = append(in, "min: "+writeNumber(*k.Min))
		}
		if k.Max != nil {
			in = append(in, "max: "+writeNumber(*k.Max))
		}
		if len(k.Allow) > 0 {
			in = append(in, "allow: "+writeTexts(k.Allow))
		}
		if k.Unit != "" {
			in = append(in, "unit: "+writeText(k.Unit))
		}
		w.line(1, writeText(k.Variable), writeFlow(in))
	}
	if len(m.Observe) > 0 {
		w.bindings("observe", m.Observe)
	}
	return w.Bytes()
}

// fileWriter writes block mappings; what is small is written in flow style.
type fileWriter struct{ bytes.Buffer }

func (w *fileWriter) line(depth int, key, value string) {
	w.WriteString(strings.Repeat("  ", depth) + key + ": " + value + "\n")
}

func (w *fileWriter) optional(depth int, key, value string, format func(string) string) {
	if value != "" {
		w.line(depth, key, format(value))
	}
}

// begin begins a mapping of n entries.
func (w *fileWriter) begin(depth int, key string, n int) {
	if n == 0 {
		w.line(depth, key, "{}")
		return
	}
	w.WriteString(strings.Repeat("  ", depth) + key + ":\n")
}

func (w *fileWriter) bindings(key string, list []Binding) {
	w.begin(0, key, len(list))
	for _, b := range list {
		w.line(1, writeText(b.Variable), writeQuoted(b.Expression))
	}
}

func (w *fileWriter) variable(v *Variable) {
	start := w.Len()
	w.WriteString("  " + writeText(v.Name) + ":\n")
	empty := w.Len()
	w.optional(2, "description", v.Description, writeText)
	if len(v.Values) > 0 {
		w.line(2, "values", writeTexts(v.Values))
	}
	if v.Range != nil {
		w.line(2, "range", "["+writeNumber(v.Range.Min)+", "+writeNumber(v.Range.Max)+"]")
	}
	if len(v.Parents) > 0 {
		w.line(2, "parents", writeTexts(v.Parents))
	}
	if v.Value != nil {
		w.line(2, "value", writeValue(*v.Value))
	}
	if v.Linear != nil {
		w.line(2, "linear", writeFlow([]string{"intercept: " + writeNumber(v.Linear.Intercept), "weights: " + writeNumbers(v.Linear.Weights)}))
	}
	if v.Table != nil {
		w.begin(2, "table", 1)
		for i := range v.Table {
			w.WriteString("      - " + writeRow(&v.Table[i]) + "\n")
		}
	}
	w.optional(2, "expression", v.Expression, writeQuoted)
	if v.Noise != nil {
		w.line(2, "noise", v.Noise.write())
	}
	if v.Provenance == Fitted {
		w.line(2, "provenance", string(Fitted))
	}
	if v.Fit != nil {
		w.fit(v.Fit)
	}
	if w.Len() == empty {
		w.Truncate(start)
		w.line(1, writeText(v.Name), "{}")
	}
}

func (w *fileWriter) fit(f *Fit) {
	w.begin(2, "fit", 1)
	w.line(3, "source", writeText(f.Source))
	w.line(3, "digest", writeText(f.Digest))
	w.line(3, "rows", strconv.Itoa(f.Rows))
	w.line(3, "held_out", strconv.Itoa(f.HeldOut))
	if len(f.Adjusted) > 0 {
		w.line(3, "adjusted", writeTexts(f.Adjusted))
	}
	if len(f.Marginalized) > 0 {
		w.line(3, "marginalized", writeTexts(f.Marginalized))
	}
	if len(f.Errors) > 0 {
		w.line(3, "standard_errors", writeNumbers(f.Errors))
	}
	if f.HeldOutError != nil {
		w.line(3, "held_out_error", writeNumber(*f.HeldOutError))
	}
}

func writeRow(r *Row) string {
	var when []string
	for _, name := range slices.Sorted(maps.Keys(r.When)) {
		when = append(when, writeText(name)+": "+writeText(r.When[name]))
	}
	in := []string{"when: " + writeFlow(when)}
	if r.P != nil {
		in = append(in, "p: "+writeNumbers(r.P))
	}
	if r.Value != nil {
		in = append(in, "value: "+writeNumber(*r.Value))
	}
	return writeFlow(in)
}

func (n *Noise) write() string {
	switch {
	case n.Normal != nil:
		sd := "sd: " + writeNumber(n.Normal.SD)
		if n.Normal.Mean != 0 {
			return writeFlow([]string{"normal: " + writeFlow([]string{"mean: " + writeNumber(n.Normal.Mean), sd})})
		}
		return writeFlow([]string{"normal: " + writeFlow([]string{sd})})
	case n.Uniform != nil:
		return writeFlow([]string{"uniform: " + writeFlow([]string{"min: " + writeNumber(n.Uniform.Min), "max: " + writeNumber(n.Uniform.Max)})})
	case n.Bernoulli != nil:
		return writeFlow([]string{"bernoulli: " + writeNumber(*n.Bernoulli)})
	case n.Categorical != nil:
		return writeFlow([]string{"categorical: " + writeNumbers(n.Categorical)})
	}
	list := make([]string, len(n.Empirical))
	for i, x := range n.Empirical {
		list[i] = writeNumber(x)
	}
	return writeFlow([]string{"empirical: [" + strings.Join(list, ", ") + "]"})
}

func writeFlow(in []string) string { return "{" + strings.Join(in, ", ") + "}" }

// writeNumbers writes a map in the order of its keys.
func writeNumbers(m map[string]float64) string {
	var in []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		in = append(in, writeText(name)+": "+writeNumber(m[name]))
	}
	return writeFlow(in)
}

func writeNumber(x float64) string { return string(number(x)) }

func writeValue(v Value) string {
	if v.Category != "" {
		return writeText(v.Category)
	}
	return writeNumber(v.Number)
}

func writeTexts(list []string) string {
	in := make([]string, len(list))
	for i, s := range list {
		in[i] = writeText(s)
	}
	return "[" + strings.Join(in, ", ") + "]"
}

// notPlain are words that some readers of YAML take for something other than text.
var notPlain = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// writeText writes text plain where every reader of YAML takes it for text, and quoted otherwise.
func writeText(s string) string {
	plain := s != "" && !slices.Contains(notPlain, strings.ToLower(s))
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '/' && c != '.') {
			plain = false
		}
	}
	if plain {
		return s
	}
	return writeQuoted(s)
}

// writeQuoted writes text as JSON does, which YAML reads too.
func writeQuoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// Text is always encoded.
	_ = enc.Encode(s)
	var out strings.Builder
	for _, c := range strings.TrimSuffix(b.String(), "\n") {
		switch {
		case unicode.IsPrint(c):
			out.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			// JSON has it as it is, and a file of ours does not.
			fmt.Fprintf(&out, `\u%04x`, c)
		}
	}
	return out.String()
}
