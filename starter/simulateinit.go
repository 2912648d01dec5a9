package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/guardian/causal/fit"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/schemas"
)

// maxHistory bounds the past calls that a model is drafted from: the last ones.
const maxHistory = 2000

// draftedModel is the JSON answer of simulate init.
type draftedModel struct {
	OK bool `json:"ok"`
	// Model is the text of the draft, unless it was written to Out.
	Model string `json:"model,omitempty"`
	Out   string `json:"out,omitempty"`
	// Calls counts the past calls that it was drafted from, and Notes say what is left to do.
	Calls int      `json:"calls"`
	Notes []string `json:"notes"`
}

func initModelCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	since := fs.String("since", "", "`TIME` in RFC 3339, or a date, from which past calls count")
	out := fs.String("out", "", "`FILE` to write the draft to; without it, standard output")
	force := fs.Bool("force", false, "replace the file of --out")
	return func(ctx context.Context, operands []string) error {
		from, err := sinceOf("since", *since)
		if err != nil {
			return err
		}
		if *out != "" && !*force && exists(*out) {
			return misuse("%s is there already", *out).withHint("--force replaces it.")
		}
		env, err := p.environment(ctx, *catalogFile, "")
		if err != nil {
			return err
		}
		if env.findings.HasErrors() {
			return &failure{code: exitNegative, message: "the catalog is not valid", diagnostics: env.findings, sources: env.sources}
		}
		t, err := env.operation(operands[0])
		if err != nil {
			return err
		}
		if !t.Effect.Acts() {
			return negative("%s has no effect, and the guardian foresees nothing of it", operands[0])
		}
		var since ledger.Time
		if !from.IsZero() {
			since = ledger.At(from)
		}
		calls, notes, err := p.history(ctx, t.Name(), since)
		if err != nil {
			return err
		}
		input := t.InputSchema
		if len(input) == 0 {
			input = []byte("{}")
		}
		m, more, err := fit.FromCalls(t.Name(), input, calls, "ledger")
		if err != nil {
			return negative("%s: %s", t.Name(), err)
		}
		answer := draftedModel{OK: true, Calls: len(calls), Notes: append(append([]string{}, notes...), more...)}
		text := causal.Write(m)
		if *out != "" {
			if err := p.writeModel(*out, text, *force); err != nil {
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
		}
		p.say("drafted from the schema of %s and %s", t.Name(), plural(len(calls), "past call"))
		for _, note := range answer.Notes {
			p.say("- %s", inLine(note))
		}
		return nil
	}
}

// history reads the last calls of an operation that have ended, and says what is not known of them. Without a
// ledger there are none.
func (p *Program) history(ctx context.Context, operation string, since ledger.Time) (calls []fit.Call, notes []string, err error) {
	at, err := p.place()
	if err != nil {
		return nil, nil, err
	}
	if at.existing() != nil {
		return nil, []string{"there is no ledger here, and so no past calls"}, nil
	}
	l, err := at.ledger(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	var past []ledger.PastCall
	for offset := 0; ; {
		list, err := l.Calls(ctx, operation, since, ledger.Page{Limit: logPage, Offset: offset})
		if err != nil {
			return nil, nil, storeError(err)
		}
		for _, c := range list {
			if c.ClaimedAt != nil && c.EndedAt != nil {
				past = append(past, c)
			}
		}
		past = past[max(0, len(past)-maxHistory):]
		if offset += len(list); len(list) < logPage {
			break
		}
	}
	var currency ledger.Currency
	several := false
	for _, c := range past {
		x := fit.Call{Succeeded: c.Succeeded, Duration: c.EndedAt.Time().Sub(c.ClaimedAt.Time())}
		if m := c.Posted; m != nil {
			several = several || currency != "" && m.Currency() != currency
			currency = m.Currency()
			if amount, err := strconv.ParseFloat(m.Amount(), 64); err == nil {
				x.Cost = &amount
			}
		}
		if x.Args, err = argsOf(ctx, l, c.Invocation); err != nil {
			return nil, nil, storeError(err)
		}
		calls = append(calls, x)
	}
	if several {
		for i := range calls {
			calls[i].Cost = nil
		}
		notes = append(notes, "the cost is left out: past calls were paid in several currencies")
	} else if currency != "" {
		notes = append(notes, "`cost` is in "+strings.ToUpper(string(currency)))
	}
	return calls, notes, nil
}

// argsOf reads the arguments of a past call from the evidence of its decision; nil if that is gone.
func argsOf(ctx context.Context, l ledger.Store, invocation string) (any, error) {
	gone := func(err error) bool { return errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrGone) }
	i, err := l.Invocation(ctx, invocation)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := l.Decision(ctx, i.DecisionID)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	packet, err := l.Packet(ctx, d.Evidence)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, part := range packet.Parts {
		if part.Name != "action" {
			continue
		}
		e, err := guardian.ParseEvidence(part.Data)
		if err != nil {
			return nil, nil // it is from elsewhere
		}
		args, err := schemas.Decode(e.Action.Inputs)
		if err != nil {
			return nil, nil
		}
		return args, nil
	}
	return nil, nil
}
