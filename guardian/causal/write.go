package causal

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Write formats a model as a file in YAML, which [ParseDraft] reads back: a model that was read has the same
// digest again. Equal models give equal bytes. The comments of the file that a model was read from are not
// part of it, and so are lost.
func Write(m *Model) []byte {
	w := &writer{}
	w.line(0, "apiVersion", "chimera/v1")
	w.line(0, "kind", "CausalModel")
	w.line(0, "name", text(m.Name))
	w.optional(0, "version", m.Version, text)
	w.optional(0, "description", m.Description, text)
	w.line(0, "operations", texts(m.Operations))
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
			in = append(in, "min: "+num(*k.Min))
		}
		if k.Max != nil {
			in = append(in, "max: "+num(*k.Max))
		}
		if len(k.Allow) > 0 {
			in = append(in, "allow: "+texts(k.Allow))
		}
		if k.Unit != "" {
			in = append(in, "unit: "+text(k.Unit))
		}
		w.line(1, text(k.Variable), flow(in))
	}
	if len(m.Observe) > 0 {
		w.bindings("observe", m.Observe)
	}
	return w.Bytes()
}

// writer writes block mappings; what is small is written in flow style.
type writer struct{ bytes.Buffer }

func (w *writer) line(depth int, key, value string) {
	w.WriteString(strings.Repeat("  ", depth) + key + ": " + value + "\n")
}

func (w *writer) optional(depth int, key, value string, format func(string) string) {
	if value != "" {
		w.line(depth, key, format(value))
	}
}

// begin begins a mapping of n entries.
func (w *writer) begin(depth int, key string, n int) {
	if n == 0 {
		w.line(depth, key, "{}")
		return
	}
	w.WriteString(strings.Repeat("  ", depth) + key + ":\n")
}

func (w *writer) bindings(key string, list []Binding) {
	w.begin(0, key, len(list))
	for _, b := range list {
		w.line(1, text(b.Variable), quoted(b.Expression))
	}
}

func (w *writer) variable(v *Variable) {
	start := w.Len()
	w.WriteString("  " + text(v.Name) + ":\n")
	empty := w.Len()
	w.optional(2, "description", v.Description, text)
	if len(v.Values) > 0 {
		w.line(2, "values", texts(v.Values))
	}
	if v.Range != nil {
		w.line(2, "range", "["+num(v.Range.Min)+", "+num(v.Range.Max)+"]")
	}
	if len(v.Parents) > 0 {
		w.line(2, "parents", texts(v.Parents))
	}
	if v.Value != nil {
		w.line(2, "value", value(*v.Value))
	}
	if v.Linear != nil {
		w.line(2, "linear", flow([]string{"intercept: " + num(v.Linear.Intercept), "weights: " + numbers(v.Linear.Weights)}))
	}
	if v.Table != nil {
		w.begin(2, "table", 1)
		for i := range v.Table {
			w.WriteString("      - " + row(&v.Table[i]) + "\n")
		}
	}
	w.optional(2, "expression", v.Expression, quoted)
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
		w.line(1, text(v.Name), "{}")
	}
}

func (w *writer) fit(f *Fit) {
	w.begin(2, "fit", 1)
	w.line(3, "source", text(f.Source))
	w.line(3, "digest", text(f.Digest))
	w.line(3, "rows", strconv.Itoa(f.Rows))
	w.line(3, "held_out", strconv.Itoa(f.HeldOut))
	if len(f.Adjusted) > 0 {
		w.line(3, "adjusted", texts(f.Adjusted))
	}
	if len(f.Marginalized) > 0 {
		w.line(3, "marginalized", texts(f.Marginalized))
	}
	if len(f.Errors) > 0 {
		w.line(3, "standard_errors", numbers(f.Errors))
	}
	if f.HeldOutError != nil {
		w.line(3, "held_out_error", num(*f.HeldOutError))
	}
}

func row(r *Row) string {
	var when []string
	for _, name := range slices.Sorted(maps.Keys(r.When)) {
		when = append(when, text(name)+": "+text(r.When[name]))
	}
	in := []string{"when: " + flow(when)}
	if r.P != nil {
		in = append(in, "p: "+numbers(r.P))
	}
	if r.Value != nil {
		in = append(in, "value: "+num(*r.Value))
	}
	return flow(in)
}

func (n *Noise) write() string {
	switch {
	case n.Normal != nil:
		sd := "sd: " + num(n.Normal.SD)
		if n.Normal.Mean != 0 {
			return flow([]string{"normal: " + flow([]string{"mean: " + num(n.Normal.Mean), sd})})
		}
		return flow([]string{"normal: " + flow([]string{sd})})
	case n.Uniform != nil:
		return flow([]string{"uniform: " + flow([]string{"min: " + num(n.Uniform.Min), "max: " + num(n.Uniform.Max)})})
	case n.Bernoulli != nil:
		return flow([]string{"bernoulli: " + num(*n.Bernoulli)})
	case n.Categorical != nil:
		return flow([]string{"categorical: " + numbers(n.Categorical)})
	}
	list := make([]string, len(n.Empirical))
	for i, x := range n.Empirical {
		list[i] = num(x)
	}
	return flow([]string{"empirical: [" + strings.Join(list, ", ") + "]"})
}

func flow(in []string) string { return "{" + strings.Join(in, ", ") + "}" }

// numbers writes a map in the order of its keys.
func numbers(m map[string]float64) string {
	var in []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		in = append(in, text(name)+": "+num(m[name]))
	}
	return flow(in)
}

func num(x float64) string { return string(number(x)) }

func value(v Value) string {
	if v.Category != "" {
		return text(v.Category)
	}
	return num(v.Number)
}

func texts(list []string) string {
	in := make([]string, len(list))
	for i, s := range list {
		in[i] = text(s)
	}
	return "[" + strings.Join(in, ", ") + "]"
}

// notText are words that some readers of YAML take for something other than text.
var notText = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// text writes text plain where every reader of YAML takes it for text, and quoted otherwise.
func text(s string) string {
	plain := s != "" && !slices.Contains(notText, strings.ToLower(s))
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '/' && c != '.') {
			plain = false
		}
	}
	if plain {
		return s
	}
	return quoted(s)
}

// quoted writes text as JSON does, which YAML reads too.
func quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// Text is always encoded.
	_ = enc.Encode(s)
	return control.Replace(strings.TrimSuffix(b.String(), "\n"))
}

// control escapes what JSON has in text and a file of ours has not.
var control = strings.NewReplacer("\u007f", `\u007f`, "\u0085", `\u0085`, "\ufeff", `\ufeff`)
