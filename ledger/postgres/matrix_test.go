package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// matrix has what each role may do with each table, besides SELECT: i is INSERT, d
// is DELETE, and the columns in brackets are those of UPDATE. A new table or right
// is missing here on purpose: somebody has to decide about it.
var matrix = map[string][5]string{ // engine, guardian, effects, applier, publisher
	"agent_identity":    {"", "", "", "i", ""},
	"approvals":         {"", "i", "", "", ""},
	"barriers":          {"", "i(doc,refused,state)", "", "", ""},
	"authority":         {"", "", "", "i", ""},
	"blobs":             {"i", "i", "i", "", "i"},
	"bodies":            {"i", "i", "i", "i", "i"},
	"budget_use":        {"", "i(pending,posted)", "", "", ""},
	"budgets":           {"", "i(every,lim,parent)", "", "", ""},
	"causal_hypothesis": {"", "i(measured,observed,state)", "(measured,observed,state)", "", ""},
	"checks":            {"", "", "i", "", ""},
	"consumptions":      {"", "i", "", "", ""},
	"decisions":         {"", "i", "", "", ""},
	"entries":           {"i", "i", "i", "i", "i"},
	"evidence":          {"", "i", "", "", ""},
	"evidence_refs":     {"", "i", "", "", ""},
	"financial_ledger":  {"", "i", "", "", ""},
	"goose_db_version":  {"", "", "", "", ""},
	"holds":             {"", "i", "", "", ""},
	"invocations": {"(output)", "i(action_digest,chain,decision_id,hold_id,origin,output,output_digest,permit,permit_until,repeatable,state,task_id,unused)",
		"(attempt,call_not_after,doubted,output,output_digest,state,token,unused)", "", ""},
	"legal_holds":       {"", "", "", "", ""},
	"log_batches":       {"i", "", "", "", ""},
	"log_cosignatures":  {"i", "", "", "", ""},
	"log_index":         {"i", "", "", "", ""},
	"log_tiles":         {"id", "", "", "", ""},
	"mcp_tool_registry": {"", "", "", "i(status)", ""},
	"outcomes":          {"i", "", "", "", ""},
	"orders":            {"i", "", "", "", ""},
	"pending":           {"id", "i", "i", "i", "i"},
	"plans":             {"", "", "", "", "i"},
	"prunings":          {"", "", "", "", ""},
	"runs":              {"i(closed_at,doc,state,value)", "", "", "", ""},
	"signers":           {"", "", "", "i(doc)", ""},
	"snapshots":         {"i", "i", "i", "", ""},
	"subject_keys":      {"i", "i", "", "", ""},
	"tasks":             {"", "i(doc,state)", "(doc,state)", "", ""},
	"aside":             {}, // set_aside writes it
	"keyring":           {},
	"pruned_early":      {}, // prune_bodies does
	"placings":          {}, // a trigger does
}

// Every role has the rights of the matrix on every table, and no other; none on
// sequences, whose numbers order the log; and none but the engine prunes.
func TestPrivileges(t *testing.T) {
	o, _ := database(t)
	roles := postgres.DefaultRoles
	conn := connect(t, o)
	_, err := conn.Exec(t.Context(), "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC") // as PostgreSQL has it by default
	require.NoError(t, err)
	require.NoError(t, postgres.Grant(t.Context(), o, roles))
	all := func(query string, args ...any) []string {
		rows, err := conn.Query(t.Context(), query, args...)
		require.NoError(t, err)
		out, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return out
	}
	has := func(function, role, thing, privilege string) (yes bool) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT "+function+"($1, $2, $3)", role, thing, privilege).Scan(&yes))
		return yes
	}
	have, want := map[string]string{}, map[string]string{}
	for _, table := range all("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'") {
		for i, role := range []string{roles.Engine, roles.Guardian, roles.Effects, roles.Applier, roles.Publisher, roles.Reader, roles.Tools} {
			at := role + " " + table
			rights := ""
			for letter, privilege := range map[string]string{"i": "INSERT", "d": "DELETE", "U": "UPDATE", "T": "TRUNCATE", "R": "REFERENCES", "X": "TRIGGER"} {
				function := "has_table_privilege"
				if letter == "i" {
					function = "has_any_column_privilege"
				}
				if has(function, role, table, privilege) {
					rights += letter
				}
			}
			if strings.Contains(rights, "i") {
				// The database gives rows their numbers.
				require.Empty(t, all(`SELECT attname::text FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
					AND has_column_privilege($2, attrelid, attnum, 'INSERT') <> (attidentity = '') ORDER BY attname`, table, role), at)
			}
			letters := strings.Split(rights, "")
			slices.SortFunc(letters, func(a, b string) int { return strings.Compare(b, a) }) // i before d
			rights = strings.Join(letters, "")
			columns := all(`SELECT attname::text FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
				AND has_column_privilege($2, attrelid, attnum, 'UPDATE') ORDER BY attname`, table, role)
			if len(columns) > 0 {
				rights += "(" + strings.Join(columns, ",") + ")"
			}
			have[at] = rights
			reads := table != "subject_keys" || i < 3
			switch {
			case i < 5:
				want[at] = matrix[table][i]
			case role == roles.Tools && table == "blobs":
				want[at] = "i"
			default:
				want[at] = ""
			}
			if role == roles.Tools {
				reads = table == "blobs" || table == "goose_db_version"
			}
			_, known := matrix[table]
			require.True(t, known, "table %s is not in the matrix", table)
			require.Equal(t, reads, has("has_table_privilege", role, table, "SELECT"), at)
		}
	}
	require.Empty(t, cmp.Diff(want, have))
	const follows, waits, move = "entry_follows(bigint,bytea,text,bigint,text,text,bytea)", "entry_waits(bigint,boolean)", "move_hold(text,text,boolean,bigint)"
	may := map[string][]string{
		roles.Engine:   {"drop_packets()", follows, waits, "prune_bodies(text,bigint)", "set_aside(bigint[],text[])"},
		roles.Guardian: {follows, waits, move}, roles.Effects: {follows, waits, move}, roles.Applier: {follows, waits}, roles.Publisher: {follows, waits}, roles.Reader: nil, roles.Tools: nil,
	}
	for role, functions := range may {
		for _, sequence := range all("SELECT sequencename::text FROM pg_sequences WHERE schemaname = 'public'") {
			for _, p := range []string{"USAGE", "UPDATE"} {
				require.False(t, has("has_sequence_privilege", role, sequence, p), "%s %s %s", role, sequence, p)
			}
		}
		require.False(t, has("has_schema_privilege", role, "public", "CREATE"), role)
		require.ElementsMatch(t, functions, all(`SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
			AND has_function_privilege($1, p.oid, 'EXECUTE')`, role), role)
	}
}

// A chain of each sort, and the kinds that each role states there.
var stated = map[string]map[string][]ledger.Kind{
	"run/w/r1": {
		"engine": {ledger.RunClosed, ledger.RunPaused, ledger.RunResumed, ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped},
		"guardian": {
			ledger.DecisionMade, ledger.ApprovalConsumed, ledger.InvocationPermitted, ledger.TaskDrafted, ledger.TaskSigned, ledger.TaskClosed, ledger.InvocationUnknown,
			ledger.BarrierOpened, ledger.BarrierClosed, ledger.BarrierReminded, ledger.BarrierEscalated, ledger.ApprovalAccepted, ledger.ApprovalRefused,
		},
		"effects": {
			ledger.InvocationCalling, ledger.InvocationReleased, ledger.InvocationSettled, ledger.InvocationUnknown, ledger.TaskExecuted, ledger.CheckMade,
		},
	},
	"run/w/new":    {"engine": {ledger.RunOpened}},
	"budget/EUR":   {"guardian": {ledger.BudgetSet, ledger.HoldOpened, ledger.HoldExpired, ledger.HoldPosted, ledger.HoldVoided}, "effects": {ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided}},
	"hypotheses/a": {"guardian": {ledger.HypothesisStated, ledger.HypothesisObserved}, "effects": {ledger.HypothesisObserved}},
	"snapshots/s":  {"engine": {ledger.SnapshotTaken}, "guardian": {ledger.SnapshotTaken}, "effects": {ledger.SnapshotTaken}},
	"rules":        {"guardian": {ledger.RulesKept}},
	"ledger":       {"engine": {ledger.BodyPruned}},
	"authority":    {"applier": {ledger.AuthorityStated, ledger.SignerEnrolled, ledger.SignerRevoked}},
	"agents":       {"applier": {ledger.AgentAdded}},
	"tools":        {"applier": {ledger.ToolRegistered, ledger.ToolTrusted}},
	"plans":        {"publisher": {ledger.PlanPublished}},
	"other":        {},
}

// insertEntry inserts an entry with its hash.
const insertEntry = "INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES (sha256('\\x00'::bytea || $5), $1, $2, $3, $4, $5)"

// Every role tries to state every kind in every chain, and to change, to delete and to
// empty every table of the log, which has rows.
func TestMatrix(t *testing.T) {
	o, s := database(t)
	ledgertest.Story(t, s, false)
	ledgertest.Drain(t, s, ledgertest.Key(t))
	roles := postgres.DefaultRoles
	require.NoError(t, postgres.Grant(t.Context(), o, roles))
	conn := connect(t, o)
	_, err := conn.Exec(t.Context(), "INSERT INTO log_cosignatures (size, checkpoint) SELECT max(grown), 'x' FROM log_batches")
	require.NoError(t, err)
	try := func(role, query string, args ...any) error {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		_, err = tx.Exec(t.Context(), "SET LOCAL ROLE "+role)
		require.NoError(t, err)
		for part := range strings.SplitSeq(query, ";") {
			if _, err = tx.Exec(t.Context(), part, args...); err != nil {
				return err
			}
		}
		return nil
	}
	all := []string{roles.Engine, roles.Guardian, roles.Effects, roles.Reader}
	as := map[string]string{"engine": roles.Engine, "guardian": roles.Guardian, "effects": roles.Effects, "applier": roles.Applier, "publisher": roles.Publisher, "reader": roles.Reader}
	for chain, by := range stated {
		for _, kind := range ledger.Kinds() {
			e := next(t, s, chain, kind)
			bytes, err := e.Encode()
			require.NoError(t, err)
			if status := map[ledger.Kind]string{ledger.HoldRunning: "pending", ledger.HoldPosted: "posted", ledger.HoldVoided: "voided", ledger.HoldExpired: "expired"}[kind]; status != "" {
				// What is said of a hold is so.
				_, err := conn.Exec(t.Context(), "SET session_replication_role = replica") // without its entry
				require.NoError(t, err)
				_, err = conn.Exec(t.Context(), `INSERT INTO holds (id, agent, currency, charges, amount, status, overdraft, running, expires_at, root, origin, prob)
					VALUES ($1, 'a', 'USD', '[]', 1, $2, false, true, 0, '', '', false) ON CONFLICT (id) DO UPDATE SET status = $2`, fmt.Sprint(e.N), status)
				require.NoError(t, err)
				_, err = conn.Exec(t.Context(), "RESET session_replication_role")
				require.NoError(t, err)
			}
			for name, role := range as {
				bytes := bytes
				if name == "guardian" && kind == ledger.InvocationUnknown && slices.Contains(by[name], kind) {
					// It says so of abandoned calls alone.
					require.ErrorContains(t, try(role, insertEntry, chain, e.N, e.Key, string(kind), bytes), "row-level security")
					abandoned := *e
					abandoned.Key += "/abandoned"
					bytes, err = abandoned.Encode()
					require.NoError(t, err)
					require.NoError(t, try(role, insertEntry, chain, e.N, abandoned.Key, string(kind), bytes))
					continue
				}
				err := try(role, insertEntry, chain, e.N, e.Key, string(kind), bytes)
				switch {
				case slices.Contains(by[name], kind):
					require.NoError(t, err, "%s %s %s", name, kind, chain)
				case name == "reader":
					require.ErrorContains(t, err, "permission denied", kind)
				default:
					require.ErrorContains(t, err, "row-level security", "%s %s %s", name, kind, chain)
				}
			}
		}
	}
	// Nobody chooses the number of a row, and with it the order of the log.
	for table, columns := range map[string]string{
		"entries": "hash, chain, n, key, kind, bytes", "runs": "workflow, root, origin, opened_at, state, doc", "outcomes": "workflow, root, node, visit, element, doc",
		"snapshots": "server, fingerprint, digest, taken_at", "log_cosignatures": "size, checkpoint",
	} {
		err := try(roles.Engine, "INSERT INTO "+table+" (serial, "+columns+") OVERRIDING SYSTEM VALUE SELECT -1, "+columns+" FROM "+table)
		require.ErrorContains(t, err, "permission denied", table)
	}
	for table, column := range map[string]string{
		"entries": "kind", "aside": "why", "log_batches": "size", "log_index": "place", "log_tiles": "width", "log_cosignatures": "size", "authority": "prev", "bodies": "chain",
		"decisions": "doc", "outcomes": "doc", "plans": "doc", "blobs": "digest", "evidence": "doc", "snapshots": "digest",
	} {
		var rows int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&rows))
		if table != "blobs" && table != "evidence" && table != "aside" {
			require.Positive(t, rows, table)
		}
		for _, role := range all {
			for _, q := range []string{"UPDATE " + table + " SET " + column + " = " + column, "DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
				err := try(role, q)
				require.Error(t, err, "%s: %s", role, q)
				require.Regexp(t, "permission denied|of the ledger", err.Error(), "%s: %s", role, q)
			}
		}
	}
	for _, q := range []string{
		"INSERT INTO decisions (id, invocation, chain, doc) VALUES ('x', 'i', 'c', '{}')", newInvocation,
		"INSERT INTO consumptions (approval, action, invocation) VALUES ('a', 'b', 'c')",
		"INSERT INTO holds (id, agent, currency, charges, amount, status, overdraft, running, expires_at, root, origin, prob) VALUES ('x', 'a', 'USD', '[]', 1, 'pending', false, false, 0, '', '', false)",
		"INSERT INTO budgets (agent, currency, every, parent, lim) VALUES ('x', 'USD', 'day', '', 1)",
		"INSERT INTO financial_ledger (tx_id, agent_id, tx_type, amount, currency, status, created_at) VALUES ('x', 'a', 'hold', 1, 'USD', 'pending', 0)",
		"INSERT INTO tasks (task_id, chain, state, created_at, doc) VALUES ('x', 'c', 'draft', 0, '{}')",
		"UPDATE budgets SET lim = 1", "INSERT INTO budget_use (agent, currency, period, pending, posted) VALUES ('x', 'USD', '', 0, 0)",
		newInvocation + "; UPDATE invocations SET decision_id = id || '/9', permit_until = 0 WHERE id = 'x'",
	} {
		require.NoError(t, try(roles.Guardian, q), q)
		for _, role := range []string{roles.Engine, roles.Effects, roles.Reader} {
			require.ErrorContains(t, try(role, q), "permission denied", "%s: %s", role, q)
		}
	}
	for _, q := range []string{
		"UPDATE holds SET status = 'voided'", "UPDATE budget_use SET posted = 0", "UPDATE financial_ledger SET status = 'posted'", "UPDATE tasks SET state = 'executed' WHERE state = 'signed'",
	} {
		for _, role := range all {
			switch tasks := strings.Contains(q, "tasks"); {
			case role == roles.Guardian && tasks:
				require.NoError(t, try(role, q), "it does not find what is signed")
				require.ErrorContains(t, try(role, "INSERT INTO tasks (task_id, chain, state, created_at, doc) VALUES ('x', 'c', 'draft', 0, '{}'); UPDATE tasks SET state = 'executed' WHERE task_id = 'x'"), "row-level security")
			case role == roles.Guardian && !strings.Contains(q, "status") || role == roles.Effects && tasks:
				require.NoError(t, try(role, q), "%s: %s", role, q)
			default:
				require.ErrorContains(t, try(role, q), "permission denied", "%s: %s", role, q)
			}
		}
	}
	// Effects ends tasks that are signed, and changes no other.
	require.ErrorContains(t, try(roles.Effects, "UPDATE tasks SET doc = '{}' WHERE state = 'signed'"), "row-level security")
	_, err = conn.Exec(t.Context(), "INSERT INTO tasks (task_id, chain, state, created_at, doc) VALUES ('a draft', 'c', 'draft', 0, '{}')")
	require.NoError(t, err)
	const drafts = "WITH u AS (UPDATE tasks SET state = 'executed' WHERE state = 'draft' RETURNING 1) SELECT 1 / (CASE WHEN count(*) > 0 THEN 0 ELSE 1 END) FROM u"
	require.NoError(t, try(roles.Effects, drafts))
	require.ErrorContains(t, try(roles.Guardian, drafts), "row-level security", "it is called first")
	require.ErrorContains(t, try(roles.Guardian, strings.Replace(drafts, "executed", "signed", 1)), "division by zero")
	// The guardian does not call.
	require.ErrorContains(t, try(roles.Guardian, "UPDATE invocations SET attempt = 7"), "permission denied")
	// A role that may consume an approval may not change what it was.
	for _, q := range []string{"UPDATE approvals SET accepted = true", "UPDATE consumptions SET invocation = 'x'", "DELETE FROM consumptions", "UPDATE decisions SET doc = '{}'", "DELETE FROM holds"} {
		require.ErrorContains(t, try(roles.Guardian, q), "permission denied", q)
	}
}

// A role's own temporary tables do not stand in for those that the functions of
// the database look at.
func TestTemporaryTablesDeceiveNobody(t *testing.T) {
	o, s := database(t)
	ledgertest.Story(t, s, false)
	ledgertest.Drain(t, s, ledgertest.Key(t))
	require.NoError(t, s.PlaceLegalHold(t.Context(), ledger.RunChain("w", "r1"), "case"))
	d, err := s.Decision(t.Context(), "inv-1/1")
	require.NoError(t, err)
	records, err := s.Chain(t.Context(), ledger.RunChain("w", "r1"), 0, 100)
	require.NoError(t, err)
	packet := ""
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Key == "decision.made/"+d.ID {
			packet = e.Ref(ledger.EvidenceRef)
		}
	}
	require.NotEmpty(t, packet)
	roles := postgres.DefaultRoles
	require.NoError(t, postgres.Grant(t.Context(), o, roles))
	conn := connect(t, o)
	rows, err := conn.Query(t.Context(), `SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
		AND NOT coalesce(array_to_string(p.proconfig, ';') LIKE 'search_path=%, pg_temp;standard_conforming_strings=on', false)`)
	require.NoError(t, err)
	open, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, open, "a function names temporary tables last, and reads backslashes as they are")
	_, err = conn.Exec(t.Context(), "SET ROLE "+roles.Engine)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `CREATE TEMP TABLE legal_holds (chain TEXT); GRANT SELECT ON legal_holds TO PUBLIC;
		CREATE TEMP TABLE bodies (LIKE public.bodies); GRANT SELECT ON bodies TO PUBLIC;
		CREATE TEMP TABLE log_tiles AS SELECT level, n, 1000 AS width, data FROM public.log_tiles`)
	require.NoError(t, err, "what it is about can be tried")
	count := func(table string) (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM public."+table).Scan(&n))
		return n
	}
	bodies, tiles := count("bodies WHERE chain = 'run/w/r1'"), count("log_tiles")
	_, err = conn.Exec(t.Context(), "DELETE FROM public.log_tiles")
	require.ErrorContains(t, err, "of the ledger")
	tx, err := conn.Begin(t.Context()) // what is pruned would have to be stated before the end
	require.NoError(t, err)
	for _, class := range []ledger.Class{ledger.Operational, ledger.Evidence, ledger.Financial} {
		_, err = tx.Exec(t.Context(), "SELECT prune_bodies($1, $2)", string(class), int64(1)<<60)
		require.NoError(t, err)
	}
	_, err = conn.Exec(t.Context(), "SELECT drop_packets()")
	require.NoError(t, err)
	require.Equal(t, 1, count("evidence WHERE digest = '"+packet+"'"), "its body is there")
	require.Equal(t, bodies, count("bodies WHERE chain = 'run/w/r1'"), "what is under legal hold is there")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, tiles, count("log_tiles"))
}
