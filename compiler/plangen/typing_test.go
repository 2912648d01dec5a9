package plangen

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
	"chimera.ai/engine/schemas"
)

var (
	expressions = flag.Int("expressions", 250, "how many random expressions are drawn")
	firstSeed   = flag.Uint64("seed", 1, "the first seed of random expressions")
)

// scene is what an expression of an edge reads: values and their schemas.
type scene struct {
	t       *testing.T
	r       *rand.Rand
	output  object
	port    string
	typing  expr.Typing
	outputs *Instances
	inputs  *Instances
}

func newScene(t *testing.T, r *rand.Rand) *scene {
	s := &scene{t: t, r: r, output: structure(r, 3), port: "$"}
	input := structure(r, 2)
	var value any = s.output
	if required, _ := s.output["required"].([]any); len(required) > 0 && chance(r, 80) {
		s.port = pick(r, required...).(string)
		value = s.output["properties"].(object)[s.port]
	}
	var err error
	s.outputs, err = NewInstances(marshal(s.output))
	require.NoError(t, err)
	s.inputs, err = NewInstances(marshal(input))
	require.NoError(t, err)
	s.typing = expr.Typing{Port: s.port, Types: expr.Types{}}
	for name, of := range map[string]any{"value": value, "output": s.output, "input": input} {
		s.typing.Types[name], err = schemas.Compile(marshal(of))
		require.NoError(t, err)
	}
	return s
}

// vars draws values of the names.
func (s *scene) vars() (expr.Vars, bool) {
	output, ok := s.outputs.Draw(s.r)
	input, ok2 := s.inputs.Draw(s.r)
	if !ok || !ok2 {
		return nil, false
	}
	value := output
	if s.port != "$" {
		value = output.(object)[s.port]
	}
	return expr.Vars{"value": value, "output": output, "input": input}, true
}

func (s *scene) value() any {
	if s.port == "$" {
		return s.output
	}
	return s.output["properties"].(object)[s.port]
}

// What the checker lets through does not fail, and gives what it says.
func TestCheckedTemplatesDoNotFail(t *testing.T) {
	accepted, safe, drawn := 0, 0, 0
	for i := range uint64(*expressions) {
		seed := *firstSeed + i
		r := rand.New(rand.NewPCG(seed, 11))
		s := newScene(t, r)
		bold := int(seed%4) * 8
		w := &writer{r: r, bold: bold, used: map[string]bool{}}
		template := any("${" + w.value("value", s.value(), 4) + "}")
		if chance(r, 30) {
			template = object{"a": template, "b": []any{"${" + w.value("output", s.output, 3) + "}", "t"}}
		}
		c, bad := expr.CompileTemplate(template, expr.Transform)
		if len(bad) > 0 {
			continue
		}
		if bold == 0 {
			drawn++
		}
		checked, result, problems := c.Check(s.typing)
		if len(problems) > 0 {
			continue
		}
		accepted++
		if bold == 0 {
			safe++
		}
		kept, bad := expr.CompileTemplate(checked, expr.Transform)
		require.Empty(t, bad, "seed %d: %s", seed, marshal(checked))
		for range 20 {
			vars, ok := s.vars()
			if !ok {
				break
			}
			got, err := kept.Eval(vars)
			require.NoError(t, err, "seed %d: %s kept as %s\nover %s\nvalue %s", seed, marshal(template), marshal(checked), marshal(s.output), marshal(vars["output"]))
			require.NoError(t, result.Validate(got), "seed %d: %s gives %s\nover %s\nvalue %s\ninferred %s", seed, marshal(checked), marshal(got), marshal(s.output), marshal(vars["output"]), show(result))
		}
	}
	t.Logf("%d accepted; of %d that are safe by construction %d", accepted, drawn, safe)
}

// What a predicate says when it holds, and when it does not, is true; and what
// the checker lets through gives true or false.
func TestPredicatesNarrowRightly(t *testing.T) {
	accepted, narrowed := 0, 0
	for i := range uint64(*expressions) {
		seed := *firstSeed + i
		r := rand.New(rand.NewPCG(seed, 13))
		s := newScene(t, r)
		w := &writer{r: r, bold: int(seed%3) * 10, used: map[string]bool{}}
		when := w.condition("value", s.value(), 3)
		if chance(r, 30) {
			when = w.condition("output", s.output, 3) + pick(r, " && ", " || ") + when
		}
		if _, guard, ok := narrow(r, s.value()); ok && chance(r, 50) {
			when = pick(r, guard, "!("+guard+")", guard+" && "+when)
		}
		c, err := expr.CompilePredicate(when, expr.When)
		if err != nil {
			continue
		}
		source, problems := c.Check(s.typing)
		if len(problems) > 0 {
			continue
		}
		accepted++
		c, err = expr.CompilePredicate(source, expr.When)
		require.NoError(t, err, source)
		for range 20 {
			vars, ok := s.vars()
			if !ok {
				break
			}
			holds, err := c.EvalBool(vars)
			require.NoError(t, err, "seed %d: %s\nover %s\nvalue %s", seed, source, marshal(s.output), marshal(vars["output"]))
			then := c.Narrow(s.typing, holds)
			for name, of := range then.Types {
				require.NoError(t, of.Validate(vars[name]), "seed %d: %s is %v\nfor %s = %s\nnarrowed to %s", seed, source, holds, name, marshal(vars[name]), show(of))
			}
			narrowed++
		}
	}
	t.Logf("%d accepted, %d narrowings", accepted, narrowed)
}

// Problems with a witness are real.
func TestWitnessesOfExpressions(t *testing.T) {
	shown := 0
	for i := range uint64(*expressions) {
		seed := *firstSeed + i
		r := rand.New(rand.NewPCG(seed, 17))
		s := newScene(t, r)
		w := &writer{r: r, bold: 50, used: map[string]bool{}}
		src := w.value("value", s.value(), 3)
		c, bad := expr.CompileTemplate("${"+src+"}", expr.Transform)
		if len(bad) > 0 {
			continue
		}
		_, _, problems := c.Check(s.typing)
		for _, p := range problems {
			if p.Name != "value" {
				continue
			}
			require.NoError(t, s.typing.Types["value"].Validate(p.Witness), "seed %d: %s", seed, src)
			_, err := c.Eval(expr.Vars{"value": p.Witness, "output": nil, "input": nil})
			require.Error(t, err, "seed %d: %s does not fail for %s", seed, src, marshal(p.Witness))
			shown++
		}
	}
	t.Logf("%d witnesses", shown)
}

// show writes what is known of a made schema.
func show(s *schemas.Schema) string {
	c := s.Compiled()
	return fmt.Sprintf("types %v, minimum %v, maximum %v, required %v, enum %v, constant %v", c.Types, c.Minimum, c.Maximum, c.Required, c.Enum, c.Constant)
}
