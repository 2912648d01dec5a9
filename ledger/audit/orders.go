package audit

import (
	"fmt"
	"maps"
	"slices"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// ordered is an entry with a signed order to a run.
type ordered struct {
	claim
	run   ledger.Run
	order ledger.Order
}

// ordered verifies the signed orders to runs: each is for just that run, says what the ledger
// says of it, and was signed by a signer, or by a key that could act for the agent then. For
// whom such a key could speak at that time is not verified.
func (v *verifier) ordered(state trust.State, told *past) {
	for _, x := range v.orders {
		if err := v.orderedBy(state, told, x); err != nil {
			v.problem(BadAuthority, x.index, "the order %d to %s: %s", x.order.N, x.run.Workflow, err)
		}
	}
}

func (v *verifier) orderedBy(state trust.State, told *past, x ordered) error {
	e, err := trust.ParseEnvelope(x.order.Signed, trust.OrderType)
	if err != nil {
		return err
	}
	var said trust.Order
	if err := trust.Decode(e.Payload, &said); err != nil {
		return err
	}
	then := state
	then.Signers, then.Agents = maps.Clone(state.Signers), maps.Clone(state.Agents)
	if s, ok := then.Signers[said.Signer]; ok {
		s.Revoked = nil
		then.Signers[said.Signer] = s
	}
	if a, ok := then.Agents[x.run.Agent]; ok {
		a.Keys = slices.Concat(held(told.keys[x.run.Agent], x.claim)...)
		a.Requesters = append(slices.Clone(a.Requesters), said.By)
		then.Agents[x.run.Agent] = a
	}
	want := trust.Order{Namespace: said.Namespace, WorkflowID: x.run.Workflow, Origin: x.run.Origin, Order: trust.OrderPause}
	if x.order.Kind == ledger.RunResumed {
		want.Order = trust.OrderResume
	}
	o, err := trust.VerifyOrder(then, x.order.Signed, want, x.run.Agent, said.Issued.Time())
	switch t := told.signers[o.Signer]; {
	case err != nil:
		return err
	case v.trust.elsewhere(o.Namespace) != nil:
		return v.trust.elsewhere(o.Namespace)
	case o.By != x.order.By || o.Signer != x.order.Signer || o.Reason != x.order.Reason:
		return fmt.Errorf("the ledger says something else of it than is signed")
	case o.Signer != "" && x.index < t.from.index:
		return fmt.Errorf("it is by %s, whom the admins had not enrolled yet", o.Signer)
	case o.Signer != "" && t.to != nil && x.after(*t.to):
		return fmt.Errorf("it is by %s, who was revoked at %s", o.Signer, t.to.at)
	case x.at.Time().After(o.Expires.Time()):
		v.warn(BadTime, x.index, "the order %d to %s stands in the log at %s, after it has expired at %s: the store was away, or a clock was set", x.order.N, x.run.Workflow, x.at, o.Expires)
	}
	return nil
}
