package compiler

import "chimera.ai/engine/plan"

// Policy is the part of the operator's bundle (kind: PolicyBundle) that the
// compiler reads. Nil means that there is none.
type Policy struct {
	Version string
	// Allow lists what irreversible effects are allowed, and which tainted
	// inputs and decisions are accepted.
	Allow []Allow
}

// Allow is one entry of a policy's allow list. An empty list matches all.
type Allow struct {
	Effects []plan.EffectClass
	Agents  []string
	// Operations are "provider/operation".
	Operations []string
	// Tainted: tainted arguments and decisions need no approval.
	Tainted bool
}
