package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/guardian/causal/fit"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
)

// fittedModel is the JSON answer of simulate fit.
type fittedModel struct {
	OK bool `json:"ok"`
	// Model is the text of the fitted model, unless it was written to Out.
	Model string `json:"model,omitempty"`
	Out   string `json:"out,omitempty"`
	// Source names the data, Digest identifies them, and Rows counts them.
	Source string           `json:"source"`
	Digest string           `json:"data_digest"`
	Rows   int              `json:"rows"`
	Fitted []fittedVariable `json:"fitted"`
	// Ranges are the levers that have the range of the data now, and Unused the columns that no variable has.
	Ranges []string `json:"ranges,omitempty"`
	Unused []string `json:"unused_columns,omitempty"`
	// Refused are the variables that cannot be fitted. Then nothing is.
	Refused []refusedVariable `json:"refused,omitempty"`
}

// fittedVariable says how a variable was fitted.
type fittedVariable struct {
	Variable     string        `json:"variable"`
	Mechanism    string        `json:"mechanism"`
	Coefficients []coefficient `json:"coefficients,omitempty"`
	Rows         int           `json:"rows"`
	Missing      int           `json:"rows_without_value,omitempty"`
	HeldOut      int           `json:"held_out"`
	// HeldOutError is the root mean square error of the rows held out, or of categories the mean Brier score.
	HeldOutError *float64 `json:"held_out_error,omitempty"`
	Adjusted     []string `json:"adjusted,omitempty"`
	Marginalized []string `json:"marginalized,omitempty"`
	Notes        []string `json:"notes,omitempty"`
}

// coefficient is one of a mechanism: "intercept", a parent, or a row and category of a table.
type coefficient struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value,omitempty"`
	Error float64  `json:"standard_error"`
}

type refusedVariable struct {
	Variable string `json:"variable"`
	Reason   string `json:"reason"`
}

func fitCommand(p *Program, fs *flag.FlagSet) action {
	table := fs.String("csv", "", "`FILE` with the data, or - for standard input: the first row has the names of variables")
	past := fs.Bool("ledger", false, "the data are the forecasts of the ledger about the model's operations, with what was observed")
	out := fs.String("out", "", "`FILE` to write the fitted model to; without it, standard output")
	force := fs.Bool("force", false, "replace the file of --out")
	var o fit.Options
	fs.StringSliceVar(&o.Only, "only", nil, "fit these `VARIABLES`, separated by commas, drafted or not; without it, all that are drafted")
	fs.StringSliceVar(&o.Marginalize, "marginalize", nil, "parents without data, `VARIABLES` separated by commas, whose influence is to become noise")
	fs.Float64Var(&o.HoldOut, "hold-out", fit.DefaultHoldOut, "`SHARE` of the rows that are held out, by which the fit is tested")
	fs.BoolVar(&o.UniformUnseen, "uniform-unseen", false, "give equal probabilities to categories in combinations of which there are no data")
	return func(ctx context.Context, operands []string) error {
		file := operands[0]
		switch {
		case (*table != "") == *past:
			return misuse("chimera simulate fit needs --csv FILE or --ledger").withHint("--csv - reads standard input.")
		case file == "-" && *table == "-":
			return misuse("standard input cannot be both the model and the data")
		case *out != "" && !*force && exists(*out) && !sameFile(*out, file):
			return misuse("%s is there already", *out).withHint("--force replaces it.")
		}
		src, err := p.read(file)
		if err != nil {
			return err
		}
		m, ds := causal.ParseDraft(src)
		if m == nil {
			return &failure{code: exitNegative, message: "the causal model is not valid", diagnostics: ds, sources: map[string][]byte{src.Name: src.Text}}
		}
		d, source, err := p.dataOf(ctx, m, *table)
		if err != nil {
			return err
		}
		o.Source = source
		fitted, report, err := fit.Fit(m, d, o)
		answer := fittedModel{Source: source, Digest: d.Digest(), Rows: len(d.Rows), Fitted: []fittedVariable{}}
		if err != nil {
			return p.unfit(&answer, err)
		}
		answer.OK, answer.Ranges, answer.Unused = true, report.Ranges, report.Unused
		for i := range report.Variables {
			answer.Fitted = append(answer.Fitted, fittedOf(fitted, &report.Variables[i]))
		}
		text := causal.Write(fitted)
		if *out != "" {
			if err := p.writeModel(*out, text, *force || sameFile(*out, file)); err != nil {
				return err
			}
			answer.Out = *out
		}
		switch {
		case p.json():
			if *out == "" {
				answer.Model = string(text)
			}
			return p.document(answer)
		case *out == "":
			p.printf("%s", text)
			return showFit(p.Stderr, &answer)
		}
		return showFit(p.Stdout, &answer)
	}
}

// writeModel writes a model to a file, over what is there if it may.
func (p *Program) writeModel(file string, text []byte, replace bool) error {
	if replace {
		if err := replaceFile(file, text); err != nil {
			return misuse("%s", err)
		}
		return nil
	}
	if err := createFile(file, text); errors.Is(err, fs.ErrExist) {
		return misuse("%s is there already", file).withHint("--force replaces it.")
	} else if err != nil {
		return misuse("%s", err)
	}
	return nil
}

// createFile creates a file that others may read.
func createFile(file string, text []byte) error {
	if err := wholefile.Create(file, text); err != nil {
		return err
	}
	return os.Chmod(file, 0o644)
}

// dataOf reads the data of a fit: a table, or the forecasts of the ledger if table is "".
func (p *Program) dataOf(ctx context.Context, m *causal.Model, table string) (*fit.Data, string, error) {
	if table == "" {
		d, err := p.forecastData(ctx, m)
		return d, "ledger", err
	}
	src, err := p.read(table)
	if err != nil {
		return nil, "", err
	}
	d, err := fit.ReadCSV(bytes.NewReader(src.Text), fit.DefaultLimits)
	if err != nil {
		return nil, "", negative("%s: %s", src.Name, err)
	}
	return d, filepath.Base(src.Name), nil
}

// forecastData makes a table of the ledger's forecasts about the operations of a model, a row for each of which
// something was observed: what it set, and what was observed, by the names of the model's variables.
func (p *Program) forecastData(ctx context.Context, m *causal.Model) (*fit.Data, error) {
	l, err := p.existingLedger(ctx)
	if err != nil {
		return nil, err
	}
	var rows []map[string]string
	for _, operation := range m.Operations {
		pairs, _, err := pairsOf(ctx, l, ledger.HypothesisFilter{Tool: operation, State: ledger.HypothesisMeasured}, "")
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			row := map[string]string{}
			for _, do := range pair.Prediction.Interventions {
				row[do.Variable] = cellOf(do.Value)
			}
			for name, v := range pair.Observed {
				row[name] = cellOf(v)
			}
			rows = append(rows, row)
		}
	}
	d := new(fit.Data)
	for i := range m.Variables {
		name := m.Variables[i].Name
		if slices.ContainsFunc(rows, func(row map[string]string) bool { return row[name] != "" }) {
			d.Columns = append(d.Columns, name)
		}
	}
	if len(d.Columns) == 0 {
		return nil, negative("the ledger has no observed forecasts about %s", inLine(strings.Join(m.Operations, ", "))).
			withHint("%s records what was measured.", p.command("simulate", "observe", "HYPOTHESIS", "KPI=VALUE"))
	}
	for _, row := range rows {
		cells := make([]string, len(d.Columns))
		for i, name := range d.Columns {
			cells[i] = row[name]
		}
		d.Rows = append(d.Rows, cells)
	}
	return d, nil
}

func cellOf(v causal.Value) string {
	if v.Category != "" {
		return v.Category
	}
	return strconv.FormatFloat(v.Number, 'g', -1, 64)
}

// unfit says which variables cannot be fitted.
func (p *Program) unfit(answer *fittedModel, err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var refused *fit.RefusedError
		if errors.As(err, &refused) {
			answer.Refused = append(answer.Refused, refusedVariable{refused.Variable, refused.Message})
			continue
		}
		var data *fit.DataError
		if errors.As(err, &data) {
			return negative("%s: %s", answer.Source, data)
		}
		return misuse("%s", err)
	}
	if p.json() {
		if err := p.document(answer); err != nil {
			return err
		}
	} else {
		for _, x := range answer.Refused {
			p.printf("%s: %s\n", inLine(x.Variable), inLine(x.Reason))
		}
	}
	p.say("%s cannot be fitted, and nothing was written", plural(len(answer.Refused), "variable"))
	return &failure{code: exitNegative}
}

// fittedOf says how a variable of a model was fitted.
func fittedOf(m *causal.Model, f *fit.Fitted) fittedVariable {
	out := fittedVariable{Variable: f.Variable, Mechanism: f.Mechanism, Missing: f.Missing, Notes: f.Notes}
	v := m.Variable(f.Variable)
	if v == nil || v.Fit == nil {
		return out
	}
	out.Rows, out.HeldOut, out.HeldOutError, out.Adjusted, out.Marginalized = v.Fit.Rows, v.Fit.HeldOut, v.Fit.HeldOutError, v.Fit.Adjusted, v.Fit.Marginalized
	for _, name := range slices.Sorted(maps.Keys(v.Fit.Errors)) {
		out.Coefficients = append(out.Coefficients, coefficient{Name: name, Value: coefficientOf(v, name), Error: v.Fit.Errors[name]})
	}
	return out
}

// coefficientOf is the value of a coefficient by its name, or nil where it has none of its own.
func coefficientOf(v *causal.Variable, name string) *float64 {
	var x float64
	switch {
	case v.Linear != nil && name == "intercept":
		x = v.Linear.Intercept
	case v.Linear != nil:
		weight, ok := v.Linear.Weights[name]
		if !ok {
			return nil
		}
		x = weight
	case v.Noise != nil && v.Noise.Normal != nil && name == "mean":
		x = v.Noise.Normal.Mean
	case v.Noise != nil && v.Noise.Normal != nil && name == "sd":
		x = v.Noise.Normal.SD
	case v.Noise != nil && v.Noise.Bernoulli != nil && name == "p":
		x = *v.Noise.Bernoulli
	case v.Noise != nil && len(v.Table) == 0:
		p, ok := v.Noise.Categorical[name]
		if !ok {
			return nil
		}
		x = p
	default:
		return entryOf(v, name)
	}
	return &x
}

// entryOf is the number of a table by the name of its coefficient, such as "size=large: ill", or nil.
func entryOf(v *causal.Variable, name string) *float64 {
	for _, row := range v.Table {
		var when []string
		for _, parent := range v.Parents {
			when = append(when, parent+"="+row.When[parent])
		}
		category, of := strings.CutPrefix(name, strings.Join(when, ", "))
		if !of {
			continue
		}
		if category == "" {
			return row.Value
		}
		if p, there := row.P[strings.TrimPrefix(category, ": ")]; there {
			return &p
		}
	}
	return nil
}

// showFit shows people how a model was fitted.
func showFit(w io.Writer, a *fittedModel) error {
	for i := range a.Fitted {
		f := &a.Fitted[i]
		_, _ = fmt.Fprintf(w, "%s: %s, fitted to %s", inLine(f.Variable), f.Mechanism, plural(f.Rows, "row"))
		if f.Missing > 0 {
			_, _ = fmt.Fprintf(w, " (%d lack a value)", f.Missing)
		}
		if f.HeldOutError != nil {
			_, _ = fmt.Fprintf(w, ", error %s on %s held out", compact(*f.HeldOutError), plural(f.HeldOut, "row"))
		}
		_, _ = fmt.Fprintln(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, c := range f.Coefficients {
			value := ""
			if c.Value != nil {
				value = compact(*c.Value)
			}
			_, _ = fmt.Fprintf(table, "  %s\t%s\t± %s\n", inLine(c.Name), value, compact(c.Error))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		if len(f.Adjusted) > 0 {
			_, _ = fmt.Fprintf(w, "  adjusted for %s\n", inLine(strings.Join(f.Adjusted, ", ")))
		}
		if len(f.Marginalized) > 0 {
			_, _ = fmt.Fprintf(w, "  the influence of %s is noise now\n", inLine(strings.Join(f.Marginalized, ", ")))
		}
		for _, note := range f.Notes {
			_, _ = fmt.Fprintf(w, "  %s\n", inLine(note))
		}
	}
	if len(a.Ranges) > 0 {
		_, _ = fmt.Fprintf(w, "valid for the range of the data: %s\n", inLine(strings.Join(a.Ranges, ", ")))
	}
	if len(a.Unused) > 0 {
		_, _ = fmt.Fprintf(w, "columns without a variable: %s\n", inLine(strings.Join(a.Unused, ", ")))
	}
	if a.Out != "" {
		_, _ = fmt.Fprintf(w, "written to %s\n", a.Out)
	}
	return nil
}
