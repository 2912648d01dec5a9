package causal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/expr"
)

// Simulator evaluates a model. It does not change and is safe for concurrent use.
type Simulator struct {
	model         *Model
	digest        string
	program       *program
	base          *world
	bind, observe []bound
	// force is the method that tests ask for.
	force Method
}

// bound is a binding, compiled.
type bound struct {
	variable *Variable
	value    *expr.Template
}

// OutsideError reports an intervention for which the model is not valid.
type OutsideError struct{ Variable, Message string }

func (e *OutsideError) Error() string { return fmt.Sprintf("%s: %s", e.Variable, e.Message) }

// New returns the simulator of a model, or an error if that cannot be evaluated: it does not pass [Check],
// or a mechanism of it is missing. The model must not be changed afterwards.
func New(m *Model) (*Simulator, error) {
	if problems := Check(m); len(problems) > 0 {
		return nil, fmt.Errorf("the model cannot be evaluated: %s", problems[0].Summary)
	}
	s := &Simulator{model: m, digest: m.Digest()}
	var err error
	if s.program, err = compile(m); err != nil {
		return nil, fmt.Errorf("the model cannot be evaluated: %w", err)
	}
	s.base = s.program.world(nil)
	if s.bind, err = s.bindings(m.Bind, expr.Price); err != nil {
		return nil, fmt.Errorf("the model's bindings cannot be evaluated: %w", err)
	}
	if s.observe, err = s.bindings(m.Observe, expr.Charge); err != nil {
		return nil, fmt.Errorf("the model's observations cannot be evaluated: %w", err)
	}
	return s, nil
}

func (s *Simulator) bindings(of []Binding, scope expr.Scope) ([]bound, error) {
	var out []bound
	for _, b := range of {
		i := s.program.index(b.Variable)
		if i < 0 || slices.ContainsFunc(out, func(o bound) bool { return o.variable.Name == b.Variable }) {
			return nil, fmt.Errorf("%s is no variable, or stands twice", b.Variable)
		}
		t, bad := expr.CompileTemplate("${"+b.Expression+"}", scope)
		if len(bad) > 0 {
			return nil, fmt.Errorf("%s: %w", b.Variable, bad[0])
		}
		out = append(out, bound{s.program.nodes[i].Variable, t})
	}
	slices.SortFunc(out, func(a, b bound) int { return strings.Compare(a.variable.Name, b.variable.Name) })
	return out, nil
}

// Model is the model. It must not be changed.
func (s *Simulator) Model() *Model { return s.model }

// Bind gives the interventions of a call, in the order of their variables' names, by decoded arguments (as
// schemas.Decode yields them). Its error is an [*OutsideError] if the model is not valid for a value, and
// else says why an expression has none.
func (s *Simulator) Bind(args any) ([]Intervention, error) {
	out := []Intervention{}
	for _, b := range s.bind {
		v, err := b.eval(expr.Vars{"args": args})
		if err != nil {
			return nil, err
		}
		if err := valid(b.variable, v); err != nil {
			return nil, err
		}
		out = append(out, Intervention{b.variable.Name, v})
	}
	return out, nil
}

// Observe gives what was measured of the KPIs, by name: what each observation of the model says of a call's
// arguments and output. Those whose expression has no value are left out, and are named in the error.
func (s *Simulator) Observe(args, output any) (map[string]Value, error) {
	out := map[string]Value{}
	var bad []error
	for _, b := range s.observe {
		v, err := b.eval(expr.Vars{"args": args, "output": output})
		if err == nil && b.variable.Categorical() && !slices.Contains(b.variable.Values, v.Category) {
			err = fmt.Errorf("%s: %.60q is no category", b.variable.Name, v.Category)
		}
		if err != nil {
			bad = append(bad, err)
			continue
		}
		out[b.variable.Name] = v
	}
	return out, errors.Join(bad...)
}

// eval gives a number or text, as the variable is one.
func (b *bound) eval(vars expr.Vars) (Value, error) {
	v, err := b.value.Eval(vars)
	if err != nil {
		return Value{}, fmt.Errorf("%s: %w", b.variable.Name, err)
	}
	switch v := v.(type) {
	case string:
		if b.variable.Categorical() {
			if v == "" {
				return Value{}, &OutsideError{b.variable.Name, `"" is no category`}
			}
			return Value{Category: v}, nil
		}
	case json.Number:
		if !b.variable.Categorical() {
			x, err := strconv.ParseFloat(string(v), 64)
			if err != nil {
				return Value{}, &OutsideError{b.variable.Name, fmt.Sprintf("%.60s is no finite number", v)}
			}
			return Value{Number: x + 0}, nil
		}
	}
	want := "a number"
	if b.variable.Categorical() {
		want = "the text of a category"
	}
	return Value{}, fmt.Errorf("%s: its expression does not give %s", b.variable.Name, want)
}

// valid says why the model is not valid for a value.
func valid(v *Variable, x Value) error {
	switch {
	case v.Categorical() != (x.Category != ""):
		return fmt.Errorf("%s: %.60q is a value of another kind", v.Name, x)
	case v.Categorical():
		if !slices.Contains(v.Values, x.Category) {
			return &OutsideError{v.Name, fmt.Sprintf("%.60q is no category of it", x.Category)}
		}
	case !finite(x.Number):
		return &OutsideError{v.Name, "it is set to what is no finite number"}
	case v.Range != nil && !(x.Number >= v.Range.Min && x.Number <= v.Range.Max):
		return &OutsideError{v.Name, fmt.Sprintf("%s is outside of the range from %s to %s, for which the model is valid",
			plain(x.Number), plain(v.Range.Min), plain(v.Range.Max))}
	}
	return nil
}

// plain writes a number for people: without an exponent, unless it is very large or small.
func plain(x float64) string {
	if size := math.Abs(x); size != 0 && (size < 1e-6 || size >= 1e15) {
		return string(number(x))
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// Simulate predicts what interventions bring about. The seed is that of the random numbers: any text. Its
// error is an [*OutsideError] if the model is not valid for an intervention, and else says what cannot be
// calculated.
func (s *Simulator) Simulate(do []Intervention, seed string) (*Prediction, error) {
	do = append([]Intervention{}, do...)
	slices.SortFunc(do, func(a, b Intervention) int { return strings.Compare(a.Variable, b.Variable) })
	set := map[int]float64{}
	for k := range do {
		i := s.program.index(do[k].Variable)
		if i < 0 {
			return nil, fmt.Errorf("%.80q is no variable of the model", do[k].Variable)
		}
		if _, twice := set[i]; twice {
			return nil, fmt.Errorf("%s is set twice", do[k].Variable)
		}
		v := s.program.nodes[i].Variable
		if err := valid(v, do[k].Value); err != nil {
			return nil, err
		}
		do[k].Value.Number += 0
		set[i] = do[k].Value.Number
		if v.Categorical() {
			set[i] = float64(slices.Index(v.Values, do[k].Value.Category))
		}
	}
	p := &Prediction{Name: s.model.Name, Model: s.digest, Interventions: do}
	var err error
	if p.ID, err = identify(s.digest, do, seed); err != nil {
		return nil, err
	}
	without, with, err := s.evaluate(p, s.program.world(set), seed)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	s.describe(p, without, with)
	return p, nil
}

// evaluate evaluates the worlds without and with an action, both by the same method.
func (s *Simulator) evaluate(p *Prediction, w *world, seed string) (without, with *result, err error) {
	if s.force != MonteCarlo {
		if s.program.enumerable(s.base) {
			p.Method = Finite
			if without, err = s.program.finite(s.base); err != nil {
				return nil, nil, err
			}
			if with, err = s.program.finite(w); err != nil {
				return nil, nil, err
			}
			s.share(w, without, with)
			return without, with, nil
		}
		p.Method = Gaussian
		if without, err = s.program.gaussian(s.base); err != nil {
			return nil, nil, err
		}
		if without != nil {
			if with, err = s.program.gaussian(w); err != nil || with != nil {
				return without, with, err
			}
		}
	}
	p.Method, p.Samples, p.Seed = MonteCarlo, s.model.Samples, seed
	return s.program.sample(s.base, w, newSource(s.digest, seed), p.Samples)
}

// share gives the KPIs that do not change the very distribution that they have without the action: sums over
// other worlds are rounded otherwise.
func (s *Simulator) share(w *world, without, with *result) {
	changed := false
	for k := range s.program.kpis {
		if w.changed[s.program.kpis[k].node] {
			changed = true
		} else {
			with.kpis[k] = without.kpis[k]
		}
	}
	if !changed {
		with.broken = without.broken
	}
}

// identify returns the id of a prediction.
func identify(digest string, do []Intervention, seed string) (string, error) {
	raw, err := canonical(map[string]any{"model": digest, "interventions": do, "seed": seed})
	if err != nil {
		return "", fmt.Errorf("identify the simulation: %w", err)
	}
	sum := sha256.Sum256(append([]byte("causal-simulation/1\x00"), raw...))
	return "sim_" + hex.EncodeToString(sum[:16]), nil
}
