package audit

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// foreseen are what decisions predict, and the hypotheses of the log. Both are held against each other
// at the end, since nothing says which of them stands first.
type foreseen struct {
	// said has what decisions predict, by the ids of their hypotheses.
	said map[string]prediction
	// stated has the places of hypotheses whose bodies are there.
	stated map[string]int64
	// unknown counts by agent the decisions of which nobody can tell what they predict.
	unknown map[string]int
	// elsewhere has the hypotheses of entries that have no place in the log.
	elsewhere map[string]bool
}

// prediction is what one decision predicts.
type prediction struct {
	// index and decision are the entry of the decision and its id.
	index    int64
	decision string
	// terms are hashes of what its hypothesis says, in the order of hypothesisTerms. Those of agent,
	// tool and inputs are 0 if the evidence, which has them, is gone.
	terms [len(hypothesisTerms)]uint64
}

// hypothesisTerms are what a decision says of its hypothesis.
var hypothesisTerms = [...]string{"agent", "tool", "inputs", "description", "prediction", "risk"}

func newForeseen() foreseen {
	return foreseen{said: map[string]prediction{}, stated: map[string]int64{}, unknown: map[string]int{}, elsewhere: map[string]bool{}}
}

// terms hashes what a hypothesis says.
func (v *verifier) terms(h *ledger.Hypothesis) (out [len(hypothesisTerms)]uint64) {
	risk := string(h.RiskScore)
	if r := fields.Rat(risk); r != nil {
		risk = r.RatString() // stores write it without an exponent
	}
	for i, text := range []string{h.AgentID, h.ToolID, canonical(h.Inputs), h.Description, canonical(h.Prediction), risk} {
		out[i] = maphash.String(v.seed, text) | 1
	}
	return out
}

// canonical is canonical JSON, or the text of what is none.
func canonical(raw json.RawMessage) string {
	v, err := schemas.Decode(raw)
	if err != nil {
		return string(raw)
	}
	out, err := plan.Canonical(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

// foresees remembers what a decision predicts, by its record and its evidence. Either is nil if
// nobody can read it.
func (v *verifier) foresees(index int64, agent string, d *ledger.Decision, asked *guardian.Evidence) {
	var r guardian.Record
	if d == nil || json.Unmarshal(d.Record, &r) != nil || r.Engine == "" {
		v.foreseen.unknown[strings.Clone(agent)]++
		return
	}
	of := new(guardian.Action)
	if asked != nil {
		of = asked.Action
	}
	h, err := r.Hypothesis(of)
	if err != nil || h == nil {
		return // what is no prediction is no record that can be made again
	}
	p := prediction{index: index, decision: strings.Clone(d.ID), terms: v.terms(h)}
	if asked == nil {
		p.terms[0], p.terms[1], p.terms[2] = maphash.String(v.seed, agent)|1, 0, 0
	}
	first, twice := v.foreseen.said[h.HypothesisID]
	switch {
	case !twice:
		v.foreseen.said[strings.Clone(h.HypothesisID)] = p
	case first.differs(p.terms) != "":
		v.problem(BadStory, index, "the decision %s predicts something else than %s by the same simulation %s: they differ in their %s", d.ID, first.decision, h.HypothesisID, first.differs(p.terms))
	}
}

// differs names the first term that is another one, or "".
func (p prediction) differs(terms [len(hypothesisTerms)]uint64) string {
	for i, name := range hypothesisTerms {
		if p.terms[i] != 0 && terms[i] != 0 && p.terms[i] != terms[i] {
			return name
		}
	}
	return ""
}

// outside remembers an entry that has no place in the log.
func (f *foreseen) outside(e *ledger.Entry) {
	switch e.Kind {
	case ledger.HypothesisStated:
		f.elsewhere[model.About(e)] = true
	case ledger.DecisionMade:
		f.unknown[e.Agent]++
	default: // it is about no prediction
	}
}

// hypotheses holds each hypothesis of the log against the decisions, and these against it.
func (v *verifier) hypotheses() {
	if v.partial {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(v.foreseen.stated)) {
		h, index := v.model.Hypotheses[id], v.foreseen.stated[id]
		switch p, ok := v.foreseen.said[id]; {
		case ok:
			if of := p.differs(v.terms(&h)); of != "" {
				v.problem(BadStory, index, "the hypothesis %s is not what the decision %s predicts: they differ in their %s", id, p.decision, of)
			}
		case v.foreseen.unknown[h.AgentID] > 0:
			v.warn(BadStory, index, "the hypothesis %s is of no decision of the log that can be read", id)
		default:
			v.problem(BadStory, index, "the hypothesis %s is of no decision of the log", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.foreseen.said)) {
		p := v.foreseen.said[id]
		_, stated := v.foreseen.stated[id]
		switch {
		case stated, v.model.Vague["hypothesis:"+id]:
		case v.foreseen.elsewhere[id]:
			v.warn(BadStory, p.index, "the hypothesis %s of the decision %s has no place in the log yet", id, p.decision)
		default:
			v.problem(BadStory, p.index, "the log does not have the hypothesis %s of the decision %s", id, p.decision)
		}
	}
}
