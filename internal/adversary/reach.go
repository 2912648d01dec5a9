package adversary

import (
	"slices"
	"strings"
)

// reach is what the documents say that a thief can do without anybody noticing.
type reach struct {
	// Thief's line of the table in docs/audit.md has the words.
	Thief Thief
	Words string
	// About lists what the attacks lie about.
	About []string
	// Classes are the classes of attacks.
	Classes []Class
}

var (
	rows   = []Class{RowAdded, RowChanged, RowGone}
	forged = []Class{EntryMade}
	signed = []Class{Signature}
)

// calls are the tables, and ofCalls the kinds of entries, of what was permitted.
var (
	calls   = []string{"budget_use", "financial_ledger", "holds", "invocations", "tasks"}
	ofCalls = []string{
		"hold.posted", "hold.running", "hold.voided", "invocation.calling", "invocation.released", "invocation.settled", "invocation.unknown", "task.executed",
	}
)

// reaches has what each thief can do. What is not here, and nobody notices, fails the drill.
var reaches = []reach{
	{"user engine", "how runs and their nodes begin and end, also of runs that never ran", []string{"runs", "outcomes", "orders"}, rows},
	{"user engine", "how runs and their nodes begin and end, also of runs that never ran", []string{"run.opened", "run.closed", "node.succeeded", "node.failed", "node.skipped"}, forged},
	{"user engine", "make snapshots", []string{"snapshots"}, rows},
	{"user engine", "make snapshots", []string{"snapshot.taken"}, forged},
	{"user engine", "drop outputs that it keeps", []string{"invocations"}, []Class{RowChanged}},
	{"user engine", "add rows that nothing refers to", []string{"blobs", "bodies", "evidence_refs", "log_cosignatures", "log_tiles", "log_batches", "pending", "subject_keys"}, []Class{RowAdded, TreeBent}},
	{"user engine", "add rows that nothing refers to", []string{"tree"}, []Class{TreeBent}},

	{"user guardian", "what it decides, asks, holds and permits", slices.Concat(calls, []string{"approvals", "barriers", "budgets", "consumptions", "decisions", "evidence"}), rows},
	{"user guardian", "what it decides, asks, holds and permits", slices.Concat(ofCalls, []string{
		"approval.refused", "barrier.opened", "barrier.closed", "barrier.reminded", "barrier.escalated", "budget.set", "hold.opened", "hold.expired", "rules.kept", "task.drafted", "task.closed",
	}), forged},
	{"user guardian", "forecasts and snapshots", []string{"snapshots"}, rows},
	{"user guardian", "forecasts and snapshots", []string{"hypothesis.stated", "hypothesis.observed", "snapshot.taken"}, forged},
	{"user guardian", "add rows that nothing refers to", []string{"blobs", "bodies", "evidence_refs", "pending", "subject_keys"}, []Class{RowAdded}},

	{"user effects", "what a permitted call did", []string{"invocations", "snapshots"}, rows},
	{"user effects", "what a permitted call did", slices.Concat(ofCalls, []string{"check.made", "snapshot.taken"}), forged},
	{"user effects", "add what was measured", []string{"hypothesis.observed"}, forged},
	{"user effects", "add rows that nothing refers to", []string{"blobs", "bodies", "pending"}, []Class{RowAdded}},
	{"user tools", "add rows that nothing refers to", []string{"blobs"}, []Class{RowAdded}},
	{"user applier", "add rows that nothing refers to", []string{"bodies", "pending"}, []Class{RowAdded}},
	{"user publisher", "add rows that nothing refers to", []string{"blobs", "bodies", "pending"}, []Class{RowAdded}},

	{Owner, "whatever no key signs", slices.Concat(calls, []string{
		"agent_identity", "approvals", "aside", "keyring", "pruned_early", "prunings", "barriers", "blobs", "bodies", "budgets", "causal_hypothesis", "checks", "consumptions", "decisions", "evidence", "evidence_refs", "legal_holds", "log_tiles", "placings",
		"mcp_tool_registry", "orders", "outcomes", "plans", "runs", "signers", "snapshots", "subject_keys",
	}), rows},
	{Owner, "whatever no key signs", slices.Concat(ofCalls, []string{
		"approval.refused", "barrier.opened", "barrier.closed", "barrier.reminded", "barrier.escalated", "budget.set", "check.made", "hold.opened", "hold.expired", "hypothesis.stated", "hypothesis.observed",
		"legal-hold.lifted", "legal-hold.placed", "node.failed", "node.skipped", "node.succeeded", "rules.kept", "run.closed", "run.opened", "snapshot.taken", "subject.erased", "task.closed", "task.drafted",
	}), forged},
	{Owner, "the columns beside the bytes of an entry or a statement", []string{"authority", "entries", "log_batches"}, []Class{RowChanged}},
	{Owner, "rows that nothing refers to", []string{"log_cosignatures", "log_batches", "log_index", "pending", "tree", "entries"}, []Class{RowAdded, TreeBent}},
	{Owner, "what waits for its place", []string{"pending", "goose_db_version"}, rows},
	{Owner, "what waits for its place", []string{"entries"}, []Class{RowGone}},

	{OwnerAndLogKey, "what no witness has cosigned", []string{"unwitnessed"}, []Class{TreeBent}},
	{GuardianKey, "sign permits", []string{"permit"}, signed},
	{AuthorKey, "publish plans in the author's name", []string{"plan.published"}, signed},
	{StartKey, "start runs of signed plans", []string{"run.opened"}, signed},
	{WorkerDisk, "starts like a new one", []string{"seen"}, []Class{FileBent}},
	{Rollback, "has no newer checkpoint", []string{"rollback"}, []Class{TreeBent}},

	{TokenKey, "call that server", []string{"mcp"}, signed},
	{ClientKey, "call that server", []string{"mcp"}, signed},
	{ClientSecret, "call that server", []string{"mcp"}, signed},
	{StaticSecret, "call that server", []string{"mcp"}, signed},
	{ServerKey, "answer what it likes", []string{"mcp"}, []Class{ServerBent}},
	{ServerDisk, "change what is not pinned", []string{"mcp"}, []Class{FileBent}},
	{ExportedCatalog, "cut off its last statements", []string{"statements"}, []Class{FileBent}},
}

// only names those attacks of a class on a subject which alone a reach covers, where it covers
// not all.
var only = map[string][]string{
	"permit":         {"a permit for a call"},
	"plan.published": {"a plan of his own", "a plan of his own, stored"},
	"run.opened":     {"a run of a signed plan", "a run of a signed plan, stored", "for a person whom the key does not speak for, stored"},
	"seen":           {"removed"},
	"mcp":            {"at its server", "a lie", "another key of its authority, where none is pinned", "settings that nobody has pinned"},
	"statements":     {"the last statement cut off"},
	"rollback":       {"shown to an auditor who was never there", "before a worker that is new"},
}

// ownPart says whose user each part is that reads what it has written itself: a row that it
// cannot read stops that user's own role.
var ownPart = map[string]Thief{partRuns: "user engine", partBarriers: "user guardian", partSequencer: "user engine"}

// stopsItself is what the documents say of that.
const stopsItself = "stop its own role"

// excuse is what the documents say of an attack that nobody notices, or "".
func excuse(a *Attack, says string) string {
	if strings.HasPrefix(says, stopsItself) {
		return stopsItself
	}
	for _, r := range reaches {
		if r.Thief == a.Thief && slices.Contains(r.About, a.About) && slices.Contains(r.Classes, a.Class) &&
			(a.Class != Signature && a.Class != FileBent && a.Class != ServerBent && a.About != "rollback" || only[a.About] == nil || slices.Contains(only[a.About], a.Name)) {
			return r.Words
		}
	}
	return ""
}
