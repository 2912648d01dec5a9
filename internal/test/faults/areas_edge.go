package main

// Faults at the edges: calls of tools, proofs about schemas, and taint.

var ofMCP = []Fault{
	{
		Name:   "a tool that has changed is called",
		File:   "mcp/pinned.go",
		Old:    "case is.digest != pin.Fingerprint:",
		New:    `case is.digest == "":`,
		Breaks: "A tool that has changed is not called.",
		Tests:  Tests{"./mcp", "^Test(Pinned|DriftBeforeTheCall)$"},
	},
	{
		Name:   "a tool is not looked at after an effect",
		File:   "mcp/pinned.go",
		Old:    "if !pin.Again || !answer.sent {",
		New:    "if !pin.Again || !answer.sent || answer.err == nil {",
		Breaks: "A tool that changed while it was called leaves the outcome unknown.",
		Tests:  Tests{"./mcp", "^TestDriftAfterTheCall$"},
	},
	{
		Name:   "a tool with another schema needs a review only",
		File:   "mcp/pinned.go",
		Old:    "if slices.Equal(changed, []fingerprint.Part{fingerprint.Prose}) {",
		New:    "if slices.Contains(changed, fingerprint.Prose) {",
		Breaks: "Only a tool that differs in its prose alone may be reviewed.",
		Tests:  Tests{"./mcp", "^Test(Pinned|DriftBeforeTheCall|DriftOfARemoteTool|RugPulls)$"},
	},
	{
		Name:   "a call that was sent is sent to the next server",
		File:   "mcp/call.go",
		Old:    "if answer.err.Kind != contract.Unsent || c.usable() || ctx.Err() != nil || try == tries {",
		New:    "if c.usable() || ctx.Err() != nil || try == tries {",
		Breaks: "A call is sent at most once.",
		Tests:  Tests{"./mcp", "^Test(EffectsAreSentOnce|FailuresInTheMiddle|UnsentCallsGoToTheNextServer)$"},
	},
	{
		Name:   "agents meet in one session",
		File:   "mcp/tenant.go",
		Old:    "return Principal{Agent: of.Agent}",
		New:    "return Principal{}",
		Breaks: "Calls of different agents share no session.",
		Tests:  Tests{"./mcp", "^TestSharing$"},
	},
	{
		Name:   "a server at another endpoint is called",
		File:   "mcp/pinned.go",
		Old:    "if len(p.Endpoints) == 0 || slices.Contains(p.Endpoints, endpoint) {",
		New:    "if len(p.Endpoints) <= 1 || slices.Contains(p.Endpoints, endpoint) {",
		Breaks: "A server is called where it was approved.",
		Tests:  Tests{"./mcp", "^Test(WrongPin|RugPulls|ServerPutRight)$"},
	},
	{
		Name:   "another resource is read in the place of the pinned one",
		File:   "mcp/resource.go",
		Old:    "if is != pinned {",
		New:    `if is == "" {`,
		Breaks: "A resource that has changed is not read.",
		Tests:  Tests{"./mcp", "^TestReadOfPinned$"},
	},
	{
		Name:   "a connection that breaks in the middle of a call counts as unsent",
		File:   "mcp/post.go",
		Old:    "if r == nil || r.recall() {",
		New:    "if r == nil || r.recall() || err != nil {",
		Breaks: "A call that may have been sent is of unknown outcome.",
		Tests:  Tests{"./mcp", "^Test(WebFailures|WebUnsent)$"},
	},
}

var ofContainment = []Fault{
	{
		Name:   "equal bounds contain no number",
		File:   "containment/number.go",
		Old:    "case c > 0 || c == 0 && (v.openLow || v.openHigh):",
		New:    "case c >= 0:",
		Breaks: "What is proved holds for every value.",
		Tests:  Tests{"./containment", ""},
	},
	{
		Name:   "an object that is full has no room for its own members",
		File:   "containment/object.go",
		Old:    "if o.least > o.most || len(o.extra) > o.most {",
		New:    "if o.least > o.most || len(o.extra) >= o.most {",
		Breaks: "What is proved holds for every value.",
		Tests:  Tests{"./containment", ""},
	},
	{
		Name:   "alternatives with a common constant exclude each other",
		File:   "containment/exclusive.go",
		Old:    "\t\t\tif seen[text] {\n\t\t\t\treturn false\n\t\t\t}\n",
		New:    "",
		Breaks: "What is proved holds for every value.",
		Tests:  Tests{"./containment", ""},
	},
	{
		Name:   "what could not be searched counts as empty",
		File:   "containment/object.go",
		Old:    "case ok || o.unsure:",
		New:    "case ok:",
		Breaks: "What is not known is not proved.",
		Tests:  Tests{"./containment", ""},
	},
	{
		Name:   "a bound that touches is contained although it is open",
		File:   "containment/bounds.go",
		Old:    "return c > 0 || c == 0 && (in.openLow || !open)",
		New:    "return c >= 0",
		Breaks: "What is proved holds for every value.",
		Tests:  Tests{"./containment", ""},
	},
}

// taintTests are the tests of the compiler about taint and what leaves.
const taintTests = "Taint|Egress|TestGolden$|TestVerdicts"

var ofTaint = []Fault{
	{
		Name:   "a tainted choice between two constants leaves by an open-world tool",
		File:   "compiler/judge/taintgraph.go",
		Old:    "\t\tif !e.Required {\n\t\t\tg.arc(f.decided, port)\n\t\t}\n",
		New:    "",
		Breaks: "Which of several values a port gets is tainted by the decision.",
		Tests:  Tests{"./compiler", taintTests},
	},
	{
		Name:   "the error of a tool is not tainted",
		File:   "compiler/judge/taintgraph.go",
		Old:    "\t\tif reads(\"value\") || reads(\"error\") {\n",
		New:    "\t\tif reads(\"value\") && reads(\"error\") {\n",
		Breaks: "What a tool says in an error is tainted.",
		Tests:  Tests{"./compiler", taintTests},
	},
	{
		Name:   "a condition over tainted values taints nothing",
		File:   "compiler/judge/taintgraph.go",
		Old:    "\t\tg.arc(g.outPort(e.From, e.FromPort), v)\n\t}\n\tif e.When == nil {",
		New:    "\t\t_ = v\n\t}\n\tif e.When == nil {",
		Breaks: "A decision over tainted values is tainted.",
		Tests:  Tests{"./compiler", taintTests},
	},
	{
		Name:   "what verify says of an effect is not tainted",
		File:   "compiler/judge/taintgraph.go",
		Old:    "\t\tg.arc(g.nodes[to].out, g.nodes[i].all)\n",
		New:    "\t\tg.arc(g.nodes[to].in, g.nodes[i].all)\n",
		Breaks: "The output of an effect is as tainted as what verifies it.",
		Tests:  Tests{"./compiler", taintTests},
	},
	{
		Name:   "an approval of an effect vouches for what undoes it with its error",
		File:   "compiler/judge/taintgraph.go",
		Old:    "if g.doc.approved(g.doc.Nodes[e.From]) && !reads(\"error\") && !reads(\"input\") {",
		New:    "if g.doc.approved(g.doc.Nodes[e.From]) && !reads(\"input\") {",
		Breaks: "An approval covers what undoes an effect if that depends on its arguments and output alone.",
		Tests:  Tests{"./compiler", taintTests},
	},
	{
		Name:   "an irreversible effect takes tainted values unapproved",
		File:   "compiler/judge/taint.go",
		Old:    "case n.Effect != plan.Committing && n.Effect != plan.Irreversible:",
		New:    "case n.Effect != plan.Committing:",
		Breaks: "Nothing tainted reaches an effect unless people or the operator approve it.",
		Tests:  Tests{"./compiler", taintTests},
	},
}
