package intake

import (
	"encoding/json"

	"chimera.ai/engine/plan"
)

// Proposal is what the definition of a tool suggests to say of it in the catalog, and why.
type Proposal struct {
	// Effect is pure, committing or irreversible: only an operator knows what is staged.
	Effect plan.EffectClass
	Status plan.Trust
	// OpenWorld reports that the tool communicates with parties outside, or that nobody has
	// ruled it out.
	OpenWorld bool
	// Reason is one sentence for people.
	Reason string
	// Guess reports that the proposal rests on names and descriptions alone: nobody has said
	// so, and it must not be applied before somebody does.
	Guess bool
}

// Propose returns what to say of a tool. hints says whether the operator believes the server's
// annotations. An error is a definition that is not one, or exceeds [MaxDefinition].
func Propose(definition json.RawMessage, hints bool) (Proposal, error) {
	d, err := read(definition)
	if err != nil {
		return Proposal{}, err
	}
	if !hints {
		return Proposal{
			Effect: plan.Irreversible, Status: plan.ManualReview, OpenWorld: true,
			Reason: "What the server says of its tools is not believed, so the worst is assumed.",
		}, nil
	}
	switch a := d.annotations(); {
	case a.malformed:
		return blocked("Its annotations are not of the types that the protocol gives them."), nil
	case !a.given:
		return d.guess(), nil
	default:
		return a.propose(), nil
	}
}

// annotations are the hints of a definition.
type annotations struct {
	readOnly, destructive, idempotent, openWorld *bool
	given, malformed                             bool
}

func (d *definition) annotations() (a annotations) {
	fields, ok := d.fields["annotations"].(map[string]any)
	if v := d.fields["annotations"]; v != nil && !ok {
		a.malformed = true
	}
	for name, hint := range map[string]**bool{
		"readOnlyHint": &a.readOnly, "destructiveHint": &a.destructive, "idempotentHint": &a.idempotent, "openWorldHint": &a.openWorld,
	} {
		switch v := fields[name].(type) {
		case nil:
		case bool:
			*hint, a.given = &v, true
		default:
			a.malformed = true
		}
	}
	return a
}

// propose is the table of the package comment.
func (a *annotations) propose() Proposal {
	var (
		readOnly    = or(a.readOnly, false)
		destructive = or(a.destructive, true)
		idempotent  = or(a.idempotent, false)
		open        = or(a.openWorld, true)
	)
	switch {
	case readOnly && or(a.destructive, false):
		return blocked("The server says both that it only reads and that it destroys.")
	case readOnly && open:
		return Proposal{Effect: plan.Pure, Status: plan.AllowAuto, OpenWorld: true,
			Reason: "The server says that it only reads, and does not rule out that it reads from the open world."}
	case readOnly:
		return Proposal{Effect: plan.Pure, Status: plan.AllowAuto,
			Reason: "The server says that it only reads, and talks to nobody outside."}
	case destructive:
		return Proposal{Effect: plan.Irreversible, Status: plan.ManualReview, OpenWorld: open,
			Reason: "The server does not rule out that it destroys something."}
	case open:
		return Proposal{Effect: plan.Irreversible, Status: plan.ManualReview, OpenWorld: true,
			Reason: "The server does not rule out that it acts on the open world."}
	case idempotent:
		return Proposal{Effect: plan.Committing, Status: plan.AllowAuto,
			Reason: "The server says that it destroys nothing, talks to nobody outside, and may be called again."}
	default:
		return Proposal{Effect: plan.Committing, Status: plan.AllowAuto,
			Reason: "The server says that it destroys nothing, and talks to nobody outside."}
	}
}

func blocked(reason string) Proposal {
	return Proposal{Effect: plan.Irreversible, Status: plan.Block, OpenWorld: true, Reason: reason}
}

// or is the value of a hint, or its default.
func or(hint *bool, otherwise bool) bool {
	if hint == nil {
		return otherwise
	}
	return *hint
}
