package main

import (
	"context"
	"slices"
	"text/tabwriter"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/guardian/causal/plot"
)

// checkedModel is the JSON answer of simulate model.
type checkedModel struct {
	OK      bool   `json:"ok"`
	Name    string `json:"model,omitempty"`
	Version string `json:"version,omitempty"`
	// Digest is null if the model is not valid, or drafted.
	Digest     *string  `json:"model_digest"`
	Operations []string `json:"operations,omitempty"`
	// Variables, KPIs and Fitted are names, Drafted those of variables that are to be fitted.
	Variables   []string         `json:"variables,omitempty"`
	KPIs        []string         `json:"kpis,omitempty"`
	Fitted      []string         `json:"fitted,omitempty"`
	Drafted     []string         `json:"drafted,omitempty"`
	SVG         string           `json:"svg,omitempty"`
	Diagnostics diag.Diagnostics `json:"diagnostics"`
}

func simulateModelCommand(p *Program, fs *flag.FlagSet) action {
	svg := fs.String("svg", "", "`FILE` to draw the causal graph to")
	return func(_ context.Context, operands []string) error {
		src, err := p.read(operands[0])
		if err != nil {
			return err
		}
		m, ds := causal.Parse(src)
		answer := checkedModel{OK: m != nil, Diagnostics: append(diag.Diagnostics{}, ds...)}
		if m != nil {
			digest := m.Digest()
			answer.Digest = &digest
		} else if m, _ = causal.ParseDraft(src); m != nil { // it can be drawn
			for i := range m.Variables {
				if m.Variables[i].Drafted() {
					answer.Drafted = append(answer.Drafted, m.Variables[i].Name)
				}
			}
		}
		if m != nil {
			answer.describe(m)
			if *svg != "" {
				if err := replaceFile(*svg, plot.Graph(m)); err != nil {
					return misuse("%s", err)
				}
				answer.SVG = *svg
			}
		}
		switch {
		case p.json():
			err = p.document(answer)
		default:
			p.diagnose(ds, map[string][]byte{src.Name: src.Text})
			p.showModel(src, m, &answer)
		}
		if err == nil && !answer.OK {
			err = &failure{code: exitNegative}
		}
		return err
	}
}

func (a *checkedModel) describe(m *causal.Model) {
	a.Name, a.Version, a.Operations = m.Name, m.Version, m.Operations
	for i := range m.Variables {
		v := &m.Variables[i]
		if a.Variables = append(a.Variables, v.Name); v.Provenance == causal.Fitted {
			a.Fitted = append(a.Fitted, v.Name)
		}
	}
	for i := range m.KPIs {
		a.KPIs = append(a.KPIs, m.KPIs[i].Variable)
	}
}

// showModel shows a model to people: a row for each variable. It is nil if it cannot be read.
func (p *Program) showModel(src compiler.Source, m *causal.Model, a *checkedModel) {
	if found := counted(a.Diagnostics); found != "" {
		p.say("%s: %s", src.Name, found)
	}
	if m == nil {
		return
	}
	if a.OK {
		p.printf("%s: ok  %s  %s\n", src.Name, inLine(m.Name), *a.Digest)
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	for i := range m.Variables {
		v := &m.Variables[i]
		_, _ = table.Write([]byte("  " + inLine(v.Name) + "\t" + mechanismOf(v) + "\t" + parentsOf(v) + "\t" + string(v.Provenance)))
		if at := slices.IndexFunc(m.KPIs, func(k causal.KPI) bool { return k.Variable == v.Name }); at >= 0 {
			_, _ = table.Write([]byte("\tKPI, " + boundOf(&m.KPIs[at])))
		}
		_, _ = table.Write([]byte("\n"))
	}
	_ = table.Flush() // to standard output
	if a.SVG != "" {
		p.say("drawn to %s", a.SVG)
	}
}

// mechanismOf names the mechanism of a variable.
func mechanismOf(v *causal.Variable) string {
	switch {
	case v.Drafted():
		return "to be fitted"
	case v.Value != nil:
		return "value"
	case v.Linear != nil:
		return "linear"
	case len(v.Table) > 0:
		return "table"
	case v.Expression != "":
		return "expression"
	}
	return "noise"
}

func parentsOf(v *causal.Variable) string {
	text := ""
	for i, name := range v.Parents {
		if i > 0 {
			text += ", "
		}
		text += inLine(name)
	}
	if text == "" {
		return ""
	}
	return "of " + text
}

// causalModel reads a causal model that can be evaluated, and returns its text, too.
func (p *Program) causalModel(file string) (*causal.Model, []byte, error) {
	src, err := p.read(file)
	if err != nil {
		return nil, nil, err
	}
	m, ds := causal.Parse(src)
	if m == nil {
		return nil, nil, &failure{code: exitNegative, message: "the causal model is not valid", diagnostics: ds, sources: map[string][]byte{src.Name: src.Text}}
	}
	return m, src.Text, nil
}

// draw writes the picture of a forecast.
func (p *Program) draw(file string, f *causal.Prediction) error {
	if err := replaceFile(file, plot.Forecast(f)); err != nil {
		return misuse("%s", err)
	}
	return nil
}
