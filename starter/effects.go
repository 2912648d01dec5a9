package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// effect is what the ledger says about one effect of a run.
type effect struct {
	Invocation string `json:"invocation"`
	// Node and Operation are those of the last action that was decided on. They are ""
	// if its evidence was pruned or erased.
	Node      string `json:"node,omitempty"`
	Operation string `json:"operation,omitempty"`
	// State is that of the invocation, or "" if it was never permitted.
	State ledger.InvocationState `json:"state,omitempty"`
	Steps []effectStep           `json:"steps"`
	// Observed is what was measured of the KPIs of its last forecast.
	Observed map[string]causal.Value `json:"observed,omitempty"`
}

// forecast is the last forecast of the effect, or nil.
func (x *effect) forecast() (last *causal.Prediction) {
	for _, s := range x.Steps {
		if s.Forecast != nil {
			last = s.Forecast
		}
	}
	return last
}

// effectStep is one entry of the log about an effect.
type effectStep struct {
	At   ledger.Time `json:"at"`
	Kind ledger.Kind `json:"kind"`
	// ID, Decision, Reason and Detail are those of a decision.
	ID       string `json:"decision_id,omitempty"`
	Decision string `json:"decision,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Detail   string `json:"detail,omitempty"`
	// Shadow is what a policy in shadow has said.
	Shadow *ruling `json:"shadow,omitempty"`
	// Forecast is what a causal model predicted, on which the decision rests.
	Forecast *causal.Prediction `json:"forecast,omitempty"`
	// Guardian is who signed a permit, and Expires the end of its life.
	Guardian string       `json:"guardian,omitempty"`
	Expires  *ledger.Time `json:"expires,omitempty"`
	Attempt  int          `json:"attempt,omitempty"`
	// Barrier is how the barrier ended at which an effect waited that was never called.
	Barrier ledger.BarrierState `json:"barrier,omitempty"`
	// Entry names the entry: ledger://ORIGIN/HASH.
	Entry string `json:"entry"`
}

func effectsCommand(p *Program, _ *flag.FlagSet) action {
	return func(ctx context.Context, operands []string) error {
		at, err := p.place()
		if err != nil {
			return err
		}
		store, err := at.ledger(ctx, p)
		if err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		run, err := store.Run(bounded, operands[0], "")
		if errors.Is(err, ledger.ErrNotFound) {
			return negative("the ledger has no run %s", operands[0])
		}
		if err != nil {
			return storeError(err)
		}
		all, err := effectsOf(bounded, store, run)
		if err != nil {
			return storeError(err)
		}
		if p.json() {
			return p.document(struct {
				OK      bool     `json:"ok"`
				Run     string   `json:"run"`
				Effects []effect `json:"effects"`
				Gone    int      `json:"gone,omitempty"`
			}{true, run.Workflow, all.list, all.gone})
		}
		if len(all.list) == 0 {
			p.say("the ledger has no effects of the run %s", printable(run.Workflow))
		}
		if all.gone > 0 {
			p.say("%s about effects cannot be shown: what they say was pruned or erased", plural(all.gone, "entry"))
		}
		return writeEffects(p.Stdout, "", all.list)
	}
}

// effectsOf reads what the log says about the effects of a run, in the order in which they
// were first decided on.
func effectsOf(ctx context.Context, store ledger.Store, run ledger.Run) (effects, error) {
	const page = 1000
	all := effects{list: []effect{}, at: map[string]int{}, barriers: map[string][]string{}, ended: map[string]effectStep{}}
	for n := int64(0); ; n += page {
		records, err := store.Chain(ctx, run.Chain(), n, page)
		if err != nil {
			return all, err
		}
		for _, r := range records {
			e, err := ledger.DecodeEntry(r.Bytes)
			if err != nil {
				return all, fmt.Errorf("read the entry %s: %w", r.Hash, err)
			}
			if err := all.add(ctx, store, e, r.Hash); err != nil {
				return all, err
			}
		}
		if len(records) < page {
			all.uncalled()
			return all, all.observe(ctx, store)
		}
	}
}

// effects are the effects of a run, and where each is in the list.
type effects struct {
	list []effect
	at   map[string]int
	// gone counts the entries about effects whose bodies were pruned or erased.
	gone int
	// barriers are the invocations that wait at a barrier for a call, and ended what ended an invocation's
	// last one before it was approved. closed is the end of the run, if nothing was permitted since.
	barriers map[string][]string
	ended    map[string]effectStep
	closed   *effectStep
}

// about returns the effect of an invocation.
func (all *effects) about(id string) *effect {
	i, there := all.at[id]
	if !there {
		i = len(all.list)
		all.at[id] = i
		all.list = append(all.list, effect{Invocation: id})
	}
	return &all.list[i]
}

// observe adds to effects what was measured of what was forecast. Nothing is there if that was erased.
func (all *effects) observe(ctx context.Context, store ledger.Store) error {
	for i := range all.list {
		x := &all.list[i]
		f := x.forecast()
		if f == nil {
			continue
		}
		h, err := store.Hypothesis(ctx, f.ID)
		if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrGone) || errors.Is(err, ledger.ErrSealed) {
			continue
		}
		if err != nil {
			return err
		}
		if h.Observed != nil {
			if err := json.Unmarshal(h.Observed, &x.Observed); err != nil {
				return fmt.Errorf("read what was observed of %s: %w", f.ID, err)
			}
		}
	}
	return nil
}

// uncalled adds to effects that were never called what ended them.
func (all *effects) uncalled() {
	for i := range all.list {
		x := &all.list[i]
		end, there := all.ended[x.Invocation]
		switch {
		case x.State == "" && there:
			x.Steps = append(x.Steps, end)
		case x.State == ledger.Permitted && all.closed != nil:
			x.Steps = append(x.Steps, *all.closed)
		}
	}
}

// add adds an entry to the effect that it is about, if it is about one.
func (all *effects) add(ctx context.Context, store ledger.Store, e *ledger.Entry, h ledger.Hash) error {
	step := effectStep{At: e.At, Kind: e.Kind, Entry: ledger.Reference(e.Origin, h)}
	switch e.Kind {
	case ledger.DecisionMade:
		d, there, err := bodyOf[ledger.Decision](ctx, store, e)
		if err != nil || !there {
			all.gone++
			return err
		}
		x := all.about(d.Invocation)
		step.ID, step.Decision, step.Reason = d.ID, d.Decision, d.Reason
		var record guardian.Record
		if err := json.Unmarshal(d.Record, &record); err != nil {
			return fmt.Errorf("read the decision %s: %w", d.ID, err)
		}
		if len(record.Objections) > 0 {
			step.Detail = record.Objections[0].Detail
		}
		if record.Simulation != nil {
			step.Forecast = record.Simulation.Prediction
		}
		if step.Shadow, err = x.describe(ctx, store, e); err != nil {
			return err
		}
		x.Steps = append(x.Steps, step)
	case ledger.BarrierOpened:
		b, there, err := bodyOf[ledger.Barrier](ctx, store, e)
		if err != nil || !there || b.Outcome {
			return err
		}
		for _, a := range b.Actions {
			delete(all.ended, a.Invocation)
			all.barriers[b.ID] = append(all.barriers[b.ID], a.Invocation)
		}
	case ledger.BarrierClosed:
		b, there, err := bodyOf[ledger.BarrierData](ctx, store, e)
		if err != nil || !there || b.State == ledger.BarrierApproved {
			return err
		}
		step.Barrier = b.State
		for _, id := range all.barriers[b.ID] {
			all.ended[id] = step
		}
	case ledger.RunClosed:
		all.closed = &step
	case ledger.InvocationPermitted:
		all.closed = nil
		i, there, err := bodyOf[ledger.Invocation](ctx, store, e)
		if err != nil || !there {
			all.gone++
			return err
		}
		permit, err := trust.ReadPermit(i.Permit) // whether it is valid is for audit verify to say
		if err != nil {
			return fmt.Errorf("read the permit of %s: %w", i.DecisionID, err)
		}
		step.Guardian, step.Expires = permit.Guardian, &permit.Expires
		x := all.about(i.ID)
		x.State, x.Steps = i.State, append(x.Steps, step)
	case ledger.InvocationCalling, ledger.InvocationReleased, ledger.InvocationSettled, ledger.InvocationUnknown:
		a, there, err := bodyOf[ledger.AttemptData](ctx, store, e)
		if err != nil || !there {
			all.gone++
			return err
		}
		step.Attempt = a.Attempt
		x := all.about(a.ID)
		x.State, x.Steps = stateAfter[e.Kind], append(x.Steps, step)
	}
	return nil
}

var stateAfter = map[ledger.Kind]ledger.InvocationState{
	ledger.InvocationCalling: ledger.Calling, ledger.InvocationReleased: ledger.Released,
	ledger.InvocationSettled: ledger.Settled, ledger.InvocationUnknown: ledger.Unknown,
}

// bodyOf reads the body of an entry. There is none if it was pruned or erased.
func bodyOf[T any](ctx context.Context, store ledger.Store, e *ledger.Entry) (v T, there bool, err error) {
	raw, err := store.Body(ctx, e.Body)
	if errors.Is(err, ledger.ErrGone) {
		return v, false, nil
	}
	if err != nil {
		return v, false, err
	}
	b, err := ledger.DecodeBody(raw)
	if err != nil {
		return v, false, err
	}
	return v, true, json.Unmarshal(b.Data, &v)
}

// describe takes node and operation from the evidence of a decision. It returns what a policy
// in shadow has said, or nil.
func (x *effect) describe(ctx context.Context, store ledger.Store, e *ledger.Entry) (shadow *ruling, err error) {
	for _, ref := range e.Refs {
		if ref.Name != ledger.EvidenceRef {
			continue
		}
		packet, err := store.Packet(ctx, ref.Digest)
		if errors.Is(err, ledger.ErrGone) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, part := range packet.Parts {
			var said struct {
				Action struct{ Node, Operation string }
			}
			switch part.Name {
			case "action":
				err = json.Unmarshal(part.Data, &said)
				x.Node, x.Operation = said.Action.Node, said.Action.Operation
			case "shadow":
				err = json.Unmarshal(part.Data, &shadow)
			}
			if err != nil {
				return nil, fmt.Errorf("read the evidence %s: %w", ref.Digest, err)
			}
		}
	}
	return shadow, nil
}

// writeEffects writes effects for people, each with a line for each step.
func writeEffects(w io.Writer, indent string, list []effect) error {
	for _, x := range list {
		name := printable(x.Node)
		if name == "" {
			name = printable(x.Invocation)
		}
		if _, err := fmt.Fprintf(w, "%s%s: %s\n", indent, name, printable(x.Operation)); err != nil {
			return err
		}
		shown := "" // decisions about one action rest on one forecast
		for _, s := range x.Steps {
			if _, err := fmt.Fprintf(w, "%s  %s\n%s    %s\n", indent, s, indent, s.Entry); err != nil {
				return err
			}
			if s.Forecast == nil || s.Forecast.ID == shown {
				continue
			}
			if err := writeForecast(w, indent+"    ", s.Forecast); err != nil {
				return err
			}
			shown = s.Forecast.ID
		}
		if err := writeObserved(w, indent+"  ", x.forecast(), x.Observed); err != nil {
			return err
		}
	}
	return nil
}

// String describes the step in a line.
func (s effectStep) String() string {
	at := s.At.Time().Format("15:04:05")
	switch s.Kind {
	case ledger.DecisionMade:
		text := fmt.Sprintf("%s decision  %s %s", at, printable(s.Decision), printable(s.Reason))
		if s.Detail != "" {
			text += ": " + printable(s.Detail)
		}
		if s.Shadow != nil && (string(s.Shadow.Decision) != s.Decision || s.Shadow.Reason != s.Reason) {
			text += fmt.Sprintf(" (in shadow %s %s)", printable(string(s.Shadow.Decision)), printable(s.Shadow.Reason))
		}
		return text
	case ledger.InvocationPermitted:
		return fmt.Sprintf("%s permit    signed by the guardian %s, valid until %s", at, printable(s.Guardian), s.Expires.Time().Format("15:04:05"))
	case ledger.InvocationCalling:
		return fmt.Sprintf("%s call      number %d", at, s.Attempt)
	case ledger.BarrierClosed:
		return fmt.Sprintf("%s %s, never called", at, printable(string(s.Barrier)))
	case ledger.RunClosed:
		return at + " the run has ended, never called"
	case ledger.InvocationReleased:
		return at + " released, the call did nothing"
	default:
		return fmt.Sprintf("%s %s", at, stateAfter[s.Kind])
	}
}
