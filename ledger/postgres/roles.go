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

// Roles are the database roles of the parts of a deployment: group roles, of which
// the users that programs connect as are members. They own nothing. Only the role
// that owns the tables migrates, prunes and erases.
//
// Whoever reads may not read the keys of subjects. Only the guardian states decisions,
// permits, budgets, holds and what permits consume, in the tables and in the log. Only
// effects claims and ends what was permitted, with its hold and its task, and states the calls
// on which effects rely. The engine states everything else, and gives entries their places in
// the log. Tools read and add large values, where these lie in the database, and see nothing
// else of it.
type Roles struct {
	Engine, Guardian, Effects, Reader, Tools string
}

func (r Roles) all() []string { return []string{r.Engine, r.Guardian, r.Effects, r.Reader, r.Tools} }

// DefaultRoles are the names that documents use.
var DefaultRoles = Roles{
	Engine: "chimera_engine", Guardian: "chimera_guardian", Effects: "chimera_effects", Reader: "chimera_reader", Tools: "chimera_tools",
}

// guarded are the kinds of entries that only the guardian states, and called those of
// effects, which the guardian states too for calls that nobody else can end.
var (
	guarded = []ledger.Kind{
		ledger.DecisionMade, ledger.ApprovalAccepted, ledger.ApprovalRefused, ledger.ApprovalConsumed, ledger.InvocationPermitted, ledger.BudgetSet, ledger.HoldOpened, ledger.HoldExpired,
		ledger.TaskDrafted, ledger.TaskSigned, ledger.TaskClosed, ledger.RulesKept, ledger.BarrierOpened, ledger.BarrierClosed, ledger.BarrierReminded, ledger.BarrierEscalated,
	}
	called = []ledger.Kind{
		ledger.InvocationCalling, ledger.InvocationReleased, ledger.InvocationSettled, ledger.InvocationUnknown,
		ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided, ledger.TaskExecuted,
	}
	// relied are those that only effects states.
	relied = []ledger.Kind{ledger.CheckMade}
	// seen are those that guardian and engine state.
	seen = []ledger.Kind{ledger.HypothesisStated, ledger.HypothesisObserved, ledger.SnapshotTaken}
)

// keysTable has what opens sealed bodies.
const keysTable = "subject_keys"

// grants lists by table what a role may do besides reading.
var grants = map[string]struct{ engine, guardian, effects string }{
	"entries":           {"INSERT", "INSERT", "INSERT"},
	"pending":           {"INSERT, DELETE", "INSERT", "INSERT"},
	"bodies":            {"INSERT", "INSERT", "INSERT"},
	keysTable:           {"SELECT, INSERT", "SELECT, INSERT", "SELECT"},
	"aside":             {"", "", ""},
	"pruned_early":      {"", "", ""},
	"log_batches":       {"INSERT", "", ""},
	"log_index":         {"INSERT", "", ""},
	"log_tiles":         {"INSERT, DELETE", "", ""}, // a trigger keeps what no wider tile has
	"log_cosignatures":  {"INSERT", "", ""},
	"blobs":             {"INSERT", "INSERT", "INSERT"},
	"evidence":          {"", "INSERT", ""},
	"evidence_refs":     {"INSERT", "INSERT", ""},
	"agent_identity":    {"INSERT", "", ""},
	"causal_hypothesis": {"INSERT, UPDATE (observed, state)", "INSERT, UPDATE (observed, state)", ""},
	"mcp_tool_registry": {"INSERT, UPDATE (status)", "", ""},
	"plans":             {"INSERT", "", ""},
	"runs":              {"INSERT, UPDATE (state, doc, closed_at, value)", "", ""},
	"outcomes":          {"INSERT", "", ""},
	"orders":            {"INSERT", "", ""},
	"tasks":             {"", "INSERT, UPDATE (state, doc)", "UPDATE (state, doc)"},
	"signers":           {"INSERT, UPDATE (doc)", "", ""},
	"authority":         {"INSERT", "", ""},
	"snapshots":         {"INSERT", "INSERT", "INSERT"},
	"approvals":         {"", "INSERT", ""},
	"barriers":          {"", "INSERT, UPDATE (state, refused, doc)", ""},
	"checks":            {"", "", "INSERT"},
	"consumptions":      {"", "INSERT", ""},
	"budgets":           {"", "INSERT, UPDATE (every, parent, lim)", ""},
	"budget_use":        {"", "INSERT, UPDATE (pending, posted)", "UPDATE (pending, posted)"},
	"holds":             {"", "INSERT, UPDATE (status, running, posted)", "UPDATE (status, running, posted)"},
	"financial_ledger":  {"", "INSERT, UPDATE (status)", "UPDATE (status)"},
	"decisions":         {"", "INSERT", ""},
	// Pruning takes outputs.
	"invocations": {
		"UPDATE (output)",
		"INSERT, UPDATE (chain, origin, action_digest, decision_id, task_id, hold_id, repeatable, permit, permit_until, unused, state, output_digest, output)",
		"UPDATE (unused, token, state, attempt, doubted, call_not_after, output_digest, output)",
	},
	"legal_holds":      {"", "", ""},
	"goose_db_version": {"", "", ""},
}

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
	readers := strings.Join([]string{r.Engine, r.Guardian, r.Effects, r.Reader}, ", ")
	for table, g := range grants {
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
		for _, x := range []struct{ to, what string }{{r.Engine, g.engine}, {r.Guardian, g.guardian}, {r.Effects, g.effects}} {
			if x.what != "" {
				statements = append(statements, "GRANT "+x.what+" ON "+table+" TO "+x.to)
			}
		}
	}
	// What an entry states is what its bytes say, not what its columns say.
	const honest = ` WITH CHECK (hash = sha256('\x00'::bytea || bytes) AND EXISTS (
		SELECT FROM json_to_record(convert_from(entries.bytes, 'UTF8')::json) AS j (kind text, chain text, n text, key text)
		WHERE j.kind = entries.kind AND j.chain = entries.chain AND j.n = entries.n::text AND j.key = entries.key) AND kind `
	statements = append(statements,
		"REVOKE ALL ON FUNCTION prune_bodies, drop_packets, set_aside FROM PUBLIC, "+all, "GRANT EXECUTE ON FUNCTION prune_bodies, drop_packets, set_aside TO "+r.Engine,
		"ALTER TABLE entries ENABLE ROW LEVEL SECURITY",
		"DROP POLICY IF EXISTS read ON entries", "CREATE POLICY read ON entries FOR SELECT USING (true)",
		"DROP POLICY IF EXISTS guardian ON entries", "CREATE POLICY guardian ON entries FOR INSERT TO "+r.Guardian+
			honest+"IN ("+quoted(slices.Concat(guarded, called, seen))+"))",
		"DROP POLICY IF EXISTS effects ON entries", "CREATE POLICY effects ON entries FOR INSERT TO "+r.Effects+
			honest+"IN ("+quoted(slices.Concat(called, relied, []ledger.Kind{ledger.SnapshotTaken}))+"))",
		"DROP POLICY IF EXISTS engine ON entries", "CREATE POLICY engine ON entries FOR INSERT TO "+r.Engine+
			honest+"NOT IN ("+quoted(slices.Concat(guarded, called, relied))+"))",
		// What has its place in the tree gets no other.
		"ALTER TABLE pending ENABLE ROW LEVEL SECURITY",
		"DROP POLICY IF EXISTS read ON pending", "CREATE POLICY read ON pending FOR SELECT USING (true)",
		"DROP POLICY IF EXISTS place ON pending", "CREATE POLICY place ON pending FOR DELETE TO "+r.Engine+" USING (true)",
		"DROP POLICY IF EXISTS add ON pending", "CREATE POLICY add ON pending FOR INSERT WITH CHECK (NOT EXISTS (SELECT FROM log_index i WHERE i.serial = pending.serial))",
		// Effects ends tasks, and makes none of them another.
		"ALTER TABLE tasks ENABLE ROW LEVEL SECURITY",
		"DROP POLICY IF EXISTS read ON tasks", "CREATE POLICY read ON tasks FOR SELECT USING (true)",
		"DROP POLICY IF EXISTS draft ON tasks", "CREATE POLICY draft ON tasks FOR INSERT TO "+r.Guardian+" WITH CHECK (true)",
		"DROP POLICY IF EXISTS sign ON tasks", "CREATE POLICY sign ON tasks FOR UPDATE TO "+r.Guardian+" USING (true)",
		"DROP POLICY IF EXISTS execute ON tasks", "CREATE POLICY execute ON tasks FOR UPDATE TO "+r.Effects+" USING (state = 'signed') WITH CHECK (state = 'executed')",
	)
	for _, q := range statements {
		if _, err := t.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// quoted is a list of kinds as SQL has it.
func quoted(kinds []ledger.Kind) string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = "'" + string(k) + "'"
	}
	return strings.Join(out, ", ")
}
