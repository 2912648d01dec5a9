package main

// Faults of what is kept: the store and its log, their verification, and what is sealed.

const (
	// protocolTests are the tests of the moves of invocations and barriers: tables, and
	// every interleaving of a few.
	protocolTests = "^TestInvocationMoves$|^Test(Barrier|Outcome|Undo|)Protocol$"
	// storeTests are the suite that every store passes, on SQLite, and what its own tests add.
	storeTests = "^Test(Suite|Erasure|AGrantOpensOneRun|StatementsFollowOneAnother)$"
	// auditTests are the tests of what a verifier finds.
	auditTests = "^Test(Tampering|Approvals|ApprovalsInTime|BarriersFollowThePolicy|PoliciesAreActivated|IrreversibleIsAttended|PermitsAreVerified|" +
		"Compensations|Overdrafts|FewerWereAsked|Witnesses|WitnessRotation|PruningIsPrecise|Cheats|Forgery)$"
)

var ofStore = []Fault{
	{
		Name:   "a start grant works again once its run has ended",
		File:   "ledger/sqlstore/runs.go",
		Old:    `"SELECT doc FROM runs WHERE workflow = $1", r.Workflow)`,
		New:    `"SELECT doc FROM runs WHERE workflow = $1 AND state = 'running'", r.Workflow)`,
		Breaks: "A start grant opens one run.",
		Tests:  Tests{"./ledger/sqlite", storeTests},
	},
	{
		Name:   "a call that may have happened is permitted again",
		File:   "ledger/invocation.go",
		Old:    "\t\tcase !i.Repeatable:\n\t\t\treturn Resolve, nil\n",
		New:    "",
		Breaks: "An effect happens at most once.",
		Tests:  Tests{"./ledger", protocolTests},
	},
	{
		Name:   "a permit is used twice",
		File:   "ledger/invocation.go",
		Old:    "\tcase !i.Unused:\n\t\treturn i, fmt.Errorf(\"%w: the permit is used up, and the invocation is %s\", ErrConflict, i.State)\n",
		New:    "",
		Breaks: "A permit is for one call.",
		Tests:  Tests{"./ledger", protocolTests},
	},
	{
		Name:   "a second call that did nothing clears the first",
		File:   "ledger/invocation.go",
		Old:    "if s.State == Released && i.Doubted {",
		New:    "if s.State == Released && i.Doubted && !i.Repeatable {",
		Breaks: "A call that did nothing says nothing of one before it.",
		Tests:  Tests{"./ledger", protocolTests},
	},
	{
		Name:   "people approve after a barrier has expired",
		File:   "ledger/barrier.go",
		Old:    "case end == BarrierApproved && b.over(now):",
		New:    "case end == BarrierApproved && b.over(now) && b.Outcome:",
		Breaks: "Nothing is approved once the time of a barrier has passed.",
		Tests:  Tests{"./ledger", protocolTests},
	},
	{
		Name:   "the hold of an effect stays when its barrier expires",
		File:   "ledger/sqlstore/barriers.go",
		Old:    "if end == ledger.BarrierApproved || b.Outcome {\n\t\treturn nil, nil",
		New:    "if end != ledger.BarrierRejected || b.Outcome {\n\t\treturn nil, nil",
		Breaks: "An effect that was not approved holds no money.",
		Tests:  Tests{"./ledger/sqlite", storeTests},
	},
	{
		Name:   "an approval is used for two calls",
		File:   "ledger/sqlstore/approvals.go",
		Old:    "SELECT invocation FROM consumptions WHERE approval = $1 AND action = $2\", id, d.ActionDigest)",
		New:    "SELECT invocation FROM consumptions WHERE approval = $1 AND action = $2 AND invocation = $3\", id, d.ActionDigest, a.ID)",
		Breaks: "An approval counts for one call of each action.",
		Tests:  Tests{"./ledger/sqlite", storeTests},
	},
	{
		Name:   "an approval is recorded and not logged",
		File:   "ledger/sqlstore/approvals.go",
		Old:    "\t\t_, err = t.state(ctx, t.ofRun(run, kind, key(kind, a.ID)), a)\n\t\treturn err\n",
		New:    "\t\t_ = kind\n\t\treturn nil\n",
		Breaks: "What people sign is in the log.",
		Tests:  Tests{"./ledger/sqlite", storeTests},
	},
	{
		Name:   "a call spends what is left of a budget and more",
		File:   "ledger/sqlstore/budgets.go",
		Old:    "- posted - pending >= $4)",
		New:    "- posted >= $4)",
		Breaks: "What is held counts against a budget.",
		Tests:  Tests{"./ledger/sqlite", storeTests},
	},
	{
		Name:   "a statement of the admins is taken that does not follow the last",
		File:   "ledger/sqlstore/facts.go",
		Old:    "if last != prev {",
		New:    `if last != prev && prev == "" {`,
		Breaks: "A statement of the admins follows the one that they have seen.",
		Tests:  Tests{"./ledger/sqlite", storeTests},
	},
	{
		Name:   "two decisions give one permit",
		File:   "ledger/model/effect.go",
		Old:    "\tcase by.used:\n\t\treturn impossible(\"decision %s has given a permit before\", i.DecisionID)\n",
		New:    "",
		Breaks: "A decision gives one permit.",
		Tests:  Tests{"./ledger/model", ""},
	},
}

var ofAudit = []Fault{
	{
		Name:   "an entry that was taken out of a chain goes unnoticed",
		File:   "ledger/audit/verify.go",
		Old:    "\tcase e.Prev != c.hash:\n",
		New:    "\tcase e.Prev != c.hash && e.N == 0:\n",
		Breaks: "Each entry names the one before it.",
		Tests:  Tests{"./ledger/audit", auditTests},
	},
	{
		Name:   "entries other than those that were signed pass",
		File:   "ledger/audit/verify.go",
		Old:    "case v.tree.Root() != c.Root:",
		New:    "case v.tree.Root() != c.Root && size == 0:",
		Breaks: "The checkpoint is over the entries of the export.",
		Tests:  Tests{"./ledger/audit", auditTests},
	},
	{
		Name:   "a permanent body may be missing",
		File:   "ledger/audit/verify.go",
		Old:    "if e.Class == ledger.Permanent {",
		New:    "if e.Class == ledger.Permanent && v.Sealed > v.Missing {",
		Breaks: "What is kept for ever is there.",
		Tests:  Tests{"./ledger/audit", auditTests},
	},
	{
		Name:   "a revoked signer's approval passes",
		File:   "ledger/audit/approved.go",
		Old:    "case t.to != nil && x.after(*t.to):",
		New:    "case t.to != nil && t.to.index < t.from.index:",
		Breaks: "An approval counts only if its signer did then.",
		Tests:  Tests{"./ledger/audit", auditTests},
	},
	{
		Name:   "fewer approvals than the decision asked for pass",
		File:   "ledger/audit/approved.go",
		Old:    "case asked.Rule.AtLeast(rule) != nil:",
		New:    "case len(asked.Rule.Groups) == 0 && asked.Rule.AtLeast(rule) != nil:",
		Breaks: "An effect was approved by all who had to.",
		Tests:  Tests{"./ledger/audit", auditTests},
	},
	{
		Name:   "an effect that was not undone passes as undone",
		File:   "ledger/audit/undone.go",
		Old:    `	return "nothing that undoes it has been done"`,
		New:    `	return ""`,
		Breaks: "What a run says it has undone was undone.",
		Tests:  Tests{"./ledger/audit", auditTests},
	},
	{
		Name:   "any role lifts a budget",
		File:   "ledger/audit/overdraft.go",
		Old:    "if told && slices.Contains(may, votes[id].Role) {",
		New:    "if told && len(may) > 0 {",
		Breaks: "A budget is exceeded only by the approval of a role that may.",
		Tests:  Tests{"./ledger/audit", auditTests},
	},
	{
		Name:   "a checkpoint without its witnesses passes",
		File:   "ledger/audit/verify.go",
		Old:    "if err == nil && len(c.Witnesses) < set.Quorum {",
		New:    "if err == nil && len(c.Witnesses) > set.Quorum {",
		Breaks: "A quorum of witnesses has cosigned the checkpoint.",
		Tests:  Tests{"./ledger/audit", auditTests},
	},
}

var ofSealing = []Fault{
	{
		Name:   "a sealed value opens in another place",
		File:   "payload/seal.go",
		Old:    `if wanted != "" && context != wanted {`,
		New:    `if wanted != "" && context == "" {`,
		Breaks: "A sealed value is read where it was written for.",
		Tests:  Tests{"./payload", ""},
	},
	{
		Name:   "one role answers for another",
		File:   "payload/converter.go",
		Old:    "case by == roleEngine, by == c.seals():",
		New:    "case by != roleValues, by == c.seals():",
		Breaks: "A role's answer is sealed with its own key.",
		Tests:  Tests{"./payload", ""},
	},
	{
		Name:   "a body is sealed for any key",
		File:   "ledger/seal.go",
		Old:    "text := aead.Seal(nil, nonce, body, []byte(id))",
		New:    "text := aead.Seal(nil, nonce, body, nil)",
		Breaks: "A body about a person opens with that person's key.",
		Tests:  Tests{"./ledger/sqlite", storeTests},
	},
	{
		Name:   "the evidence about a person lies open in the database",
		File:   "ledger/sqlstore/effects.go",
		Old:    "packet, err := t.packet(ctx, evidence, sealed)",
		New:    "packet, err := t.packet(ctx, evidence, nil)",
		Breaks: "What is stored about a person is sealed, and goes with the person.",
		Tests:  Tests{"./ledger/sqlite", storeTests},
	},
}
