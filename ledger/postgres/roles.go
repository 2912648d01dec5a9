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
// Whoever reads may not read the keys of subjects. Only the guardian states
// decisions, permits, holds and what permits consume, in the tables and in the
// log; the engine states everything else, claims and ends what was permitted,
// and gives entries their places in the log. Tools read and add large values, where
// these lie in the database, and see nothing else of it.
type Roles struct {
	Engine, Guardian, Reader, Tools string
}

func (r Roles) all() []string { return []string{r.Engine, r.Guardian, r.Reader, r.Tools} }

// DefaultRoles are the names that documents use.
var DefaultRoles = Roles{Engine: "chimera_engine", Guardian: "chimera_guardian", Reader: "chimera_reader", Tools: "chimera_tools"}

// guarded are the kinds of entries that only the guardian states.
var guarded = []ledger.Kind{
	ledger.DecisionMade, ledger.ApprovalConsumed, ledger.InvocationPermitted, ledger.BudgetSet,
	ledger.HoldOpened, ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided, ledger.HoldExpired,
}

// keysTable has what opens sealed bodies.
const keysTable = "subject_keys"

// grants lists by table what a role may do besides reading.
var grants = map[string]struct{ engine, guardian string }{
	"entries":           {"INSERT", "INSERT"},
	"pending":           {"INSERT, DELETE", "INSERT"},
	"bodies":            {"INSERT", "INSERT"},
	keysTable:           {"SELECT, INSERT", "SELECT, INSERT"},
	"log_batches":       {"INSERT", ""},
	"log_index":         {"INSERT", ""},
	"log_tiles":         {"INSERT, DELETE", ""}, // a trigger keeps what no wider tile has
	"log_cosignatures":  {"INSERT", ""},
	"blobs":             {"INSERT", "INSERT"},
	"evidence":          {"INSERT", "INSERT"},
	"evidence_refs":     {"INSERT", "INSERT"},
	"agent_identity":    {"INSERT", ""},
	"causal_hypothesis": {"INSERT, UPDATE (observed, state)", "INSERT, UPDATE (observed, state)"},
	"mcp_tool_registry": {"INSERT, UPDATE (status)", ""},
	"plans":             {"INSERT", ""},
	"runs":              {"INSERT, UPDATE (state, doc, closed_at, value)", ""},
	"outcomes":          {"INSERT", ""},
	"tasks":             {"INSERT, UPDATE (state, doc)", "INSERT, UPDATE (state, doc)"},
	"signers":           {"INSERT, UPDATE (doc)", ""},
	"authority":         {"INSERT", ""},
	"snapshots":         {"INSERT", "INSERT"},
	"approvals":         {"INSERT", "INSERT, UPDATE (consumed_by, doc)"},
	"budgets":           {"", "INSERT, UPDATE (every, parent, lim)"},
	"budget_use":        {"", "INSERT, UPDATE (pending, posted)"},
	"holds":             {"", "INSERT, UPDATE (status, running, posted)"},
	"financial_ledger":  {"", "INSERT, UPDATE (status)"},
	"decisions":         {"", "INSERT"},
	"invocations":       {"UPDATE (state, attempt, call_not_after, output_digest)", "INSERT, UPDATE (state, attempt, call_not_after, output_digest)"},
	"legal_holds":       {"", ""},
	"goose_db_version":  {"", ""},
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
	readers := strings.Join([]string{r.Engine, r.Guardian, r.Reader}, ", ")
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
		if g.engine != "" {
			statements = append(statements, "GRANT "+g.engine+" ON "+table+" TO "+r.Engine)
		}
		if g.guardian != "" {
			statements = append(statements, "GRANT "+g.guardian+" ON "+table+" TO "+r.Guardian)
		}
	}
	kinds := make([]string, len(guarded))
	for i, k := range guarded {
		kinds[i] = "'" + string(k) + "'"
	}
	statements = append(statements,
		"REVOKE ALL ON FUNCTION prune_bodies, drop_packets FROM PUBLIC, "+all, "GRANT EXECUTE ON FUNCTION prune_bodies, drop_packets TO "+r.Engine,
		// What an entry states is what its bytes say, not what its column says.
		"ALTER TABLE entries ENABLE ROW LEVEL SECURITY",
		"DROP POLICY IF EXISTS read ON entries", "CREATE POLICY read ON entries FOR SELECT USING (true)",
		"DROP POLICY IF EXISTS guardian ON entries", "CREATE POLICY guardian ON entries FOR INSERT TO "+r.Guardian+" WITH CHECK (true)",
		"DROP POLICY IF EXISTS engine ON entries", "CREATE POLICY engine ON entries FOR INSERT TO "+r.Engine+
			" WITH CHECK (convert_from(bytes, 'UTF8')::json ->> 'kind' = kind AND kind NOT IN ("+strings.Join(kinds, ", ")+"))",
		// Only the guardian consumes approvals.
		"ALTER TABLE approvals ENABLE ROW LEVEL SECURITY",
		"DROP POLICY IF EXISTS read ON approvals", "CREATE POLICY read ON approvals FOR SELECT USING (true)",
		"DROP POLICY IF EXISTS guardian ON approvals", "CREATE POLICY guardian ON approvals TO "+r.Guardian+" USING (true) WITH CHECK (true)",
		"DROP POLICY IF EXISTS engine ON approvals", "CREATE POLICY engine ON approvals FOR INSERT TO "+r.Engine+" WITH CHECK (consumed_by IS NULL)",
	)
	for _, q := range statements {
		if _, err := t.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
