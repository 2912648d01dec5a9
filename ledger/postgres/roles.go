package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
)

// Roles are the database roles of the parts of a deployment and of people: group roles, of
// which the users that programs connect as are members. They own nothing. Only the role
// that owns the tables migrates, places and lifts legal holds, and erases.
//
// All but Tools read everything, and only engine, guardian and effects the keys of subjects.
// Each states entries of its own kinds in its own chains: Applier what the admins have stated,
// and Publisher plans. Only the guardian decides, permits and reserves money. Only effects
// claims and ends what was permitted, with its hold and its task, and states the calls on
// which effects rely. The engine states runs and outcomes, gives entries their places in the
// log, and prunes. Tools read and add large values, where these lie in the database. Whoever
// starts runs is a member of Reader and Tools.
type Roles struct {
	Engine, Guardian, Effects, Reader, Tools, Applier, Publisher string
}

func (r Roles) all() []string {
	return []string{r.Engine, r.Guardian, r.Effects, r.Reader, r.Tools, r.Applier, r.Publisher}
}

// DefaultRoles are the names that documents use.
var DefaultRoles = Roles{
	Engine: "chimera_engine", Guardian: "chimera_guardian", Effects: "chimera_effects", Reader: "chimera_reader", Tools: "chimera_tools",
	Applier: "chimera_applier", Publisher: "chimera_publisher",
}

// domain is a chain in which a role states entries, and their kinds. A chain that ends in a
// slash stands for all whose names begin with it.
type domain struct {
	chain string
	kinds []ledger.Kind
}

// domains lists by role what it states. What is in none of them, the owner of the tables states
// alone: legal holds, and that a subject was erased.
var domains = struct{ engine, guardian, effects, applier, publisher []domain }{
	engine: []domain{
		{runs, []ledger.Kind{ledger.RunOpened, ledger.RunClosed, ledger.RunPaused, ledger.RunResumed, ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped}},
		{ledger.LedgerChain, []ledger.Kind{ledger.BodyPruned}},
		{ledger.SnapshotsChain(""), []ledger.Kind{ledger.SnapshotTaken}},
	},
	guardian: []domain{
		{runs, []ledger.Kind{
			ledger.DecisionMade, ledger.ApprovalAccepted, ledger.ApprovalRefused, ledger.ApprovalConsumed, ledger.InvocationPermitted,
			ledger.TaskDrafted, ledger.TaskSigned, ledger.TaskClosed, ledger.BarrierOpened, ledger.BarrierClosed, ledger.BarrierReminded, ledger.BarrierEscalated,
			ledger.InvocationUnknown, // of calls that nobody else can end
		}},
		{ledger.BudgetChain(""), []ledger.Kind{ledger.BudgetSet, ledger.HoldOpened, ledger.HoldExpired, ledger.HoldPosted, ledger.HoldVoided}},
		{ledger.RulesChain, []ledger.Kind{ledger.RulesKept}},
		{ledger.HypothesesChain(""), []ledger.Kind{ledger.HypothesisStated, ledger.HypothesisObserved}},
		{ledger.SnapshotsChain(""), []ledger.Kind{ledger.SnapshotTaken}},
	},
	effects: []domain{
		{runs, []ledger.Kind{
			ledger.InvocationCalling, ledger.InvocationReleased, ledger.InvocationSettled, ledger.InvocationUnknown, ledger.TaskExecuted, ledger.CheckMade,
		}},
		{ledger.BudgetChain(""), []ledger.Kind{ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided}},
		{ledger.HypothesesChain(""), []ledger.Kind{ledger.HypothesisObserved}},
		{ledger.SnapshotsChain(""), []ledger.Kind{ledger.SnapshotTaken}},
	},
	applier: []domain{
		{ledger.AuthorityChain, []ledger.Kind{ledger.AuthorityStated, ledger.SignerEnrolled, ledger.SignerRevoked}},
		{ledger.AgentsChain, []ledger.Kind{ledger.AgentAdded}},
		{ledger.ToolsChain, []ledger.Kind{ledger.ToolRegistered, ledger.ToolTrusted}},
	},
	publisher: []domain{{ledger.PlansChain, []ledger.Kind{ledger.PlanPublished}}},
}

// runs are the chains of runs.
const runs = "run/"

// keysTable has what opens sealed bodies.
const keysTable = "subject_keys"

// rights are what roles may do with a table besides reading.
type rights struct{ engine, guardian, effects, applier, publisher string }

// grants lists rights by table. INSERT is that into all columns but those whose values the
// database gives.
var grants = map[string]rights{
	"entries":           {"INSERT", "INSERT", "INSERT", "INSERT", "INSERT"},
	"pending":           {"INSERT, DELETE", "INSERT", "INSERT", "INSERT", "INSERT"},
	"bodies":            {"INSERT", "INSERT", "INSERT", "INSERT", "INSERT"},
	keysTable:           {engine: "SELECT, INSERT", guardian: "SELECT, INSERT", effects: "SELECT"},
	"aside":             {},
	"pruned_early":      {},
	"placings":          {},
	"log_batches":       {engine: "INSERT"},
	"log_index":         {engine: "INSERT"},
	"log_tiles":         {engine: "INSERT, DELETE"}, // a trigger keeps what no wider tile has
	"log_cosignatures":  {engine: "INSERT"},
	"blobs":             {engine: "INSERT", guardian: "INSERT", effects: "INSERT", publisher: "INSERT"},
	"evidence":          {guardian: "INSERT"},
	"evidence_refs":     {guardian: "INSERT"},
	"agent_identity":    {applier: "INSERT"},
	"causal_hypothesis": {guardian: "INSERT, UPDATE (observed, state, measured)", effects: "UPDATE (observed, state, measured)"},
	"mcp_tool_registry": {applier: "INSERT, UPDATE (status)"},
	"plans":             {publisher: "INSERT"},
	"runs":              {engine: "INSERT, UPDATE (state, doc, closed_at, value)"},
	"outcomes":          {engine: "INSERT"},
	"orders":            {engine: "INSERT"},
	"tasks":             {guardian: "INSERT, UPDATE (state, doc)", effects: "UPDATE (state, doc)"},
	"signers":           {applier: "INSERT, UPDATE (doc)"},
	"authority":         {applier: "INSERT"},
	"snapshots":         {engine: "INSERT", guardian: "INSERT", effects: "INSERT"},
	"approvals":         {guardian: "INSERT"},
	"barriers":          {guardian: "INSERT, UPDATE (state, refused, doc)"},
	"checks":            {effects: "INSERT"},
	"consumptions":      {guardian: "INSERT"},
	"budgets":           {guardian: "INSERT, UPDATE (every, parent, lim)"},
	"budget_use":        {guardian: "INSERT, UPDATE (pending, posted)"},
	"holds":             {guardian: "INSERT"}, // move_hold ends them
	"financial_ledger":  {guardian: "INSERT"},
	"decisions":         {guardian: "INSERT"},
	"invocations": {
		engine:   "UPDATE (output)", // pruning takes it
		guardian: "INSERT, UPDATE (chain, origin, action_digest, decision_id, task_id, hold_id, repeatable, permit, permit_until, unused, state, output_digest, output)",
		effects:  "UPDATE (unused, token, state, attempt, doubted, call_not_after, output_digest, output)",
	},
	"keyring":          {},
	"legal_holds":      {},
	"prunings":         {},
	"goose_db_version": {},
}

// functions are those of the database. Those of triggers need no right to fire: whoever had it could
// put one that does what its owner may on a table of their own.
const functions = `prune_bodies, drop_packets, set_aside, move_hold, entry_follows, entry_waits, entry_bodied, entry_data, quoted, instant, sum_of, canonical, is_sealed,
	keep_body, keep_tile, keep_entry, keep_end, keep_call, refuse_change, fit_checkpoint, fit_cosignature, fit_places, fit_tile, places_counted,
	pruning_stated, stated_pruning, run_opened, hold_stated, call_stated, task_stated, check_stated, forecast_stated, entry_stands`

// roleName matches the names that a role may have here, since they are part of
// statements.
var roleName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// Grant gives the roles their rights on the database that o names, and makes
// those that are missing, without login. It takes whatever else they had on the
// ledger's tables, and may be repeated. The caller owns the tables; to make a
// role takes CREATEROLE.
func Grant(ctx context.Context, o Options, r Roles) (err error) {
	for _, name := range r.all() {
		if !roleName.MatchString(name) {
			return fmt.Errorf("grant: %w: %.80q is no name of a role: small letters, digits and _", ledger.ErrInvalid, name)
		}
	}
	if names := slices.Sorted(slices.Values(r.all())); len(slices.Compact(names)) != len(r.all()) {
		return fmt.Errorf("grant: %w: the roles are not %d", ledger.ErrInvalid, len(r.all()))
	}
	db, err := open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	t, err := db.BeginTx(ctx, nil)
	if err == nil {
		defer func() { _ = t.Rollback() }()
		err = grant(ctx, t, r)
	}
	if err == nil {
		err = t.Commit()
	}
	if err != nil && unavailable(err) {
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	return nil
}

func grant(ctx context.Context, t *sql.Tx, r Roles) error {
	statements := []string{
		// Roles belong to the cluster, so two databases may create them at once.
		"SELECT pg_advisory_xact_lock(hashtextextended('chimera roles', 7))",
	}
	for _, name := range r.all() {
		var there bool
		if err := t.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", name).Scan(&there); err != nil {
			return err
		}
		if !there {
			statements = append(statements, "DO $$ BEGIN CREATE ROLE "+name+" NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$")
		}
	}
	all := strings.Join(r.all(), ", ")
	// PUBLIC may create in databases that come from versions before 15: functions of a role would be
	// found in place of those that run as the owner.
	var schema string
	if err := t.QueryRowContext(ctx, "SELECT quote_ident(current_schema())").Scan(&schema); err != nil {
		return err
	}
	statements = append(statements, "REVOKE CREATE ON SCHEMA "+schema+" FROM PUBLIC, "+all)
	readers := strings.Join([]string{r.Engine, r.Guardian, r.Effects, r.Reader, r.Applier, r.Publisher}, ", ")
	writers := strings.Join([]string{r.Engine, r.Guardian, r.Effects, r.Applier, r.Publisher}, ", ")
	for table, g := range grants {
		insert, err := inserts(ctx, t, table)
		if err != nil {
			return err
		}
		statements = append(statements, "REVOKE ALL ON "+table+" FROM PUBLIC, "+all)
		if table != keysTable {
			statements = append(statements, "GRANT SELECT ON "+table+" TO "+readers)
		}
		switch table {
		case "blobs":
			statements = append(statements, "GRANT SELECT, INSERT ON "+table+" TO "+r.Tools)
		case "goose_db_version": // whether the tables are those that the program knows
			statements = append(statements, "GRANT SELECT ON "+table+" TO "+r.Tools)
		}
		for _, x := range []struct{ to, what string }{
			{r.Engine, g.engine}, {r.Guardian, g.guardian}, {r.Effects, g.effects}, {r.Applier, g.applier}, {r.Publisher, g.publisher},
		} {
			if x.what != "" {
				statements = append(statements, "GRANT "+strings.Replace(x.what, "INSERT", insert, 1)+" ON "+table+" TO "+x.to)
			}
		}
	}
	statements = append(statements,
		"REVOKE ALL ON FUNCTION "+functions+" FROM PUBLIC, "+all,
		"GRANT EXECUTE ON FUNCTION prune_bodies, drop_packets, set_aside TO "+r.Engine,
		"GRANT EXECUTE ON FUNCTION move_hold TO "+r.Guardian+", "+r.Effects,
		"GRANT EXECUTE ON FUNCTION entry_follows, entry_waits TO "+writers,
	)
	for _, q := range append(statements, policies(r)...) {
		if _, err := t.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	// Who does not own the schema takes nothing there, which is no error.
	for _, name := range r.all() {
		var may bool
		if err := t.QueryRowContext(ctx, "SELECT has_schema_privilege($1, current_schema(), 'CREATE')", name).Scan(&may); err != nil {
			return err
		}
		if may {
			return fmt.Errorf("%w: %s may create in the schema %s: its owner revokes that", ledger.ErrInvalid, name, schema)
		}
	}
	return nil
}

// inserts is the right to insert into a table. A row whose number the database gives is inserted
// without it: whoever could choose it could choose its place among the others.
func inserts(ctx context.Context, t *sql.Tx, table string) (string, error) {
	var numbered bool
	var columns string
	err := t.QueryRowContext(ctx, `SELECT bool_or(attidentity <> ''), string_agg(quote_ident(attname), ', ' ORDER BY attnum) FILTER (WHERE attidentity = '')
		FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped`, table).Scan(&numbered, &columns)
	if err != nil || !numbered {
		return "INSERT", err
	}
	return "INSERT (" + columns + ")", nil
}

// policies are the statements that make those of rows.
func policies(r Roles) (out []string) {
	on := func(table string, policies ...string) {
		out = append(out, "ALTER TABLE "+table+" ENABLE ROW LEVEL SECURITY")
		for _, p := range append(policies, "read FOR SELECT USING (true)") {
			name, rule, _ := strings.Cut(p, " ")
			out = append(out, "DROP POLICY IF EXISTS "+name+" ON "+table, "CREATE POLICY "+name+" ON "+table+" "+rule)
		}
	}
	states := func(name, role string, of []domain) string {
		return name + " FOR INSERT TO " + role + " WITH CHECK ((" + within(of) + ") AND entry_follows(serial, hash, chain, n, key, kind, bytes)" + held + ")"
	}
	// Of a call that nobody else can end the guardian says that nobody knows, and nothing else.
	but := func(policy, condition string) string {
		return strings.TrimSuffix(policy, ")") + " AND " + condition + ")"
	}
	forsaken := "key LIKE '" + string(ledger.InvocationUnknown) + "/%/abandoned'"
	on("entries", states("engine", r.Engine, domains.engine),
		but(states("guardian", r.Guardian, domains.guardian), "(kind <> '"+string(ledger.InvocationUnknown)+"' OR "+forsaken+")"),
		but(states("effects", r.Effects, domains.effects), "NOT "+forsaken),
		states("applier", r.Applier, domains.applier), states("publisher", r.Publisher, domains.publisher))
	// Entries without a place wait for one, and nothing else.
	on("pending", "place FOR DELETE TO "+r.Engine+" USING (true)",
		"recover FOR INSERT TO "+r.Engine+" WITH CHECK (entry_waits(serial, false))",
		"add FOR INSERT TO "+strings.Join([]string{r.Guardian, r.Effects, r.Applier, r.Publisher}, ", ")+" WITH CHECK (entry_waits(serial, true))")
	// A packet stands behind the bodies of entries that name it: others would keep it for longer.
	on("evidence_refs", "stand FOR INSERT TO "+r.Guardian+` WITH CHECK (EXISTS (SELECT FROM entries e
		WHERE substr(e.bytes, octet_length(e.bytes) - 72, 71) = convert_to(body, 'UTF8') AND octet_length(e.bytes) > 73
		AND e.kind = '`+string(ledger.DecisionMade)+`' AND position(convert_to('{"name":"`+ledger.EvidenceRef+`","digest":"' || packet || '"}', 'UTF8') IN e.bytes) > 0))`)
	// A key that was erased does not come back.
	on(keysTable, "make FOR INSERT WITH CHECK (current_setting('transaction_isolation') = 'read committed' AND NOT EXISTS (SELECT FROM runs r WHERE r.subject_key = subject_keys.id))")
	// The guardian signs or closes drafts, and what is signed stays: effects ends it, and makes of no
	// task another.
	on("tasks", "draft FOR INSERT TO "+r.Guardian+" WITH CHECK (state = 'draft')", "sign FOR UPDATE TO "+r.Guardian+" USING (state = 'draft') WITH CHECK (state IN ('signed', 'closed'))",
		"execute FOR UPDATE TO "+r.Effects+" USING (state = 'signed') WITH CHECK (state = 'executed')")
	// The guardian permits calls, and says of those that nobody else can end that nobody knows;
	// what they were, and what they have answered, effects says. Pruning takes that.
	// They stand in a run that is about the same person, or about none.
	const own = ` AND output IS NULL AND output_digest = '' AND starts_with(task_id, id || '/') AND (hold_id = '' OR starts_with(hold_id, id || '/'))
		AND EXISTS (SELECT FROM runs r WHERE 'run/' || r.workflow || '/' || r.root = invocations.chain AND r.origin = invocations.origin
			AND r.subject_key IS NOT DISTINCT FROM invocations.subject_key))`
	on("invocations", "permit FOR INSERT TO "+r.Guardian+" WITH CHECK (state = 'permitted' AND unused AND NOT doubted AND attempt = 0"+own,
		"again FOR UPDATE TO "+r.Guardian+" USING (state <> 'settled') WITH CHECK (state IN ('permitted', 'calling', 'unknown')"+own,
		"call FOR UPDATE TO "+r.Effects+" USING (state <> 'settled') WITH CHECK (true)",
		"prune FOR UPDATE TO "+r.Engine+" USING (true) WITH CHECK (output IS NULL)")
	return out
}

// held is the condition that what an entry says of a hold is so: two roles state the same of holds,
// and neither takes the place of what the other will.
var held = fmt.Sprintf(` AND (kind NOT IN (%s) OR EXISTS (SELECT FROM holds h WHERE h.id = substr(key, length(kind) + 2)
	AND CASE kind WHEN '%s' THEN h.status = 'posted' WHEN '%s' THEN h.status = 'voided' WHEN '%s' THEN h.status = 'expired' ELSE h.running END))`,
	quoted([]ledger.Kind{ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided, ledger.HoldExpired}), ledger.HoldPosted, ledger.HoldVoided, ledger.HoldExpired)

// within is the condition that an entry is in one of the domains.
func within(of []domain) string {
	out := make([]string, len(of))
	for i, p := range of {
		chain := "chain = '" + p.chain + "'"
		if strings.HasSuffix(p.chain, "/") {
			chain = "starts_with(chain, '" + p.chain + "')"
		}
		out[i] = chain + " AND kind IN (" + quoted(p.kinds) + ")"
	}
	return strings.Join(out, " OR ")
}

// quoted is a list of kinds as SQL has it.
func quoted(kinds []ledger.Kind) string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = "'" + string(k) + "'"
	}
	return strings.Join(out, ", ")
}
