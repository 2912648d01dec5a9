package lint

import (
	"fmt"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Option returns how the edge gets a field in the notation that its author chose: a suggestion,
// and the edits if they are simple.
func (e *Edge) Option(rep *fields.Reader, field string, value any) (suggestion string, edits []diag.Edit) {
	text := fields.Inline(value)
	if s, is := value.(string); is && strings.Contains(s, "${") {
		text = fmt.Sprintf("%q", s)
	}
	set := field + ": " + text
	if e.Hidden {
		return "", nil
	}
	switch e.Form {
	case FormLong, FormMap:
		return set, rep.Set(e.At, field, value)
	case FormArrow:
		if field == "edge_type" && value == string(plan.Control) {
			ends := e.FromNode + " -> " + e.ToNode
			return ends, rep.Replace(e.At.Range(), ends)
		}
		if strings.HasPrefix(strings.TrimSpace(e.At.Text), "[") || strings.Contains(e.At.Text, ",") {
			return e.arrow(set), nil
		}
		return e.arrow(set), rep.Rewrite(e.At.Range(), "edge", e.At.Text, field, value)
	case FormWith, FormGather, FormOutput, FormWhen:
		if e.Reference != "" {
			return e.referenced(rep, field, value, set)
		}
	case FormAfter, FormOtherwise, FormDefault, FormRollback:
	}
	return e.arrow(set), nil
}

// referenced is Option for an edge that stands for a reference.
func (e *Edge) referenced(rep *fields.Reader, field string, value any, set string) (suggestion string, edits []diag.Edit) {
	s, is := value.(string)
	switch {
	case e.Partial && field == "transform" && is && e.Transform == nil:
		return strings.TrimSuffix(strings.TrimPrefix(expr.InMessage(s, map[string]string{"value": e.Reference}), "${"), "}") + " in the place of " + e.Reference, nil
	case e.Partial:
		return "", nil
	case field == "required" && (e.Form == FormWith || e.Form == FormOutput):
		if inner, ok := strings.CutPrefix(e.At.Text, "${"); ok && strings.HasSuffix(inner, "}") && strings.Count(inner, "${") == 0 {
			return "${" + strings.TrimSuffix(inner, "}") + " ?? …}", nil
		}
		return "${" + e.Reference + " ?? …}", nil
	case field == "required" && named(e.FromPort):
		return nodesName + "." + e.FromNode + ".?" + e.FromPort + ".orValue(…)", nil
	case e.Form == FormGather:
		return "", nil
	case field == "transform" && is && e.Transform == nil && e.Form != FormWhen:
		s = expr.InMessage(s, map[string]string{"value": e.Reference})
		return fmt.Sprintf("%q", s), rep.Replace(e.At.Range(), s)
	case field == "when" && is && e.Form == FormWhen && e.When == nil:
		s = expr.Replaced(s, map[string]string{"value": e.Reference})
		return fmt.Sprintf("when: %q", s), rep.Replace(e.At.Range(), s)
	}
	return e.arrow(set), nil
}

// arrow is the edge as the map of an arrow with a further field.
func (e *Edge) arrow(set string) string {
	from, to := e.FromNode, e.ToNode
	if e.FromPort != plan.DonePort {
		from += "." + e.FromPort
	}
	if e.ToPort != plan.StartPort {
		to += "." + e.ToPort
	}
	more := ""
	if e.When != nil && !strings.HasPrefix(set, "when:") {
		more += ", when: " + quoted(e.When)
	}
	if e.Transform != nil && e.Transform.Kind == syntax.String && !strings.HasPrefix(set, "transform:") {
		more += ", transform: " + quoted(e.Transform)
	}
	return fmt.Sprintf("{edge: %q%s, %s}", from+" -> "+to, more, set)
}

func quoted(v *syntax.Value) string { return fmt.Sprintf("%q", v.Text) }

// Authored returns a message about an expression, or an expression, with the names that the
// author of a short form wrote.
func Authored(v *syntax.Value, message string) string {
	return v.Authored(message, expr.InMessage)
}
