package adversary

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"chimera.ai/engine/ledger/audit"
)

// Outcome is what became of an attack.
type Outcome string

// The outcomes.
const (
	// Refused: the database refuses it, or a running part does not act on it and says so.
	Refused Outcome = "refused"
	// Found: audit verify reports a problem, or nothing can be exported any more.
	Found Outcome = "found"
	// Warned: audit verify shows something that it did not show before.
	Warned Outcome = "warned"
	// OutOfReach: nobody notices, and the documents say so.
	OutOfReach Outcome = "documented"
	// Unseen: somebody believes it, and nobody notices.
	Unseen Outcome = "UNSEEN"
	// Spoilt: one user of the database has stopped the deployment, its log or its export.
	Spoilt Outcome = "SPOILT"
)

// Outcomes lists them in the order of the drill's table.
func Outcomes() []Outcome {
	return []Outcome{Refused, Found, Warned, OutOfReach, Unseen, Spoilt}
}

// Failed reports whether the drill fails by it.
func (o Outcome) Failed() bool { return o == Unseen || o == Spoilt }

// Class says what kind of thing an attack does.
type Class string

// The classes.
const (
	RowAdded   Class = "row added"
	RowChanged Class = "row changed"
	RowGone    Class = "row deleted"
	EntryMade  Class = "entry forged"
	EntryMoved Class = "entry moved, doubled or hidden"
	TreeBent   Class = "tree or checkpoint"
	Clock      Class = "times"
	Signature  Class = "signature"
	FileBent   Class = "file"
	ServerBent Class = "server"
)

// Classes lists them.
func Classes() []Class {
	return []Class{RowAdded, RowChanged, RowGone, EntryMade, EntryMoved, TreeBent, Clock, Signature, FileBent, ServerBent}
}

// Statement is a statement of SQL with its arguments.
type Statement struct {
	Text string
	Args []any
}

func (s Statement) String() string {
	var b strings.Builder
	b.WriteString(s.Text)
	for i, a := range s.Args {
		if raw, ok := a.([]byte); ok {
			a = fmt.Sprintf("%q", raw)
		}
		fmt.Fprintf(&b, "\n    $%d = %v", i+1, a)
	}
	return b.String()
}

// Attack is one thing that a thief does: SQL as a user of the database, or anything else.
type Attack struct {
	Thief Thief
	Class Class
	// About is what it lies about: a table, the kind of an entry, or a word of its own, by which
	// the documents are looked up. Name tells it from others.
	About, Name string
	// Random reports that a seed has chosen it, and Long that the core leaves it out.
	Random, Long bool
	// Role is the group role whose user makes the statements, or "" for the owner.
	Role string
	SQL  []Statement
	// On is an attack on a copy that is made by other means than SQL. An error of it is a refusal.
	On func(t testing.TB, c *Copy) error
	// Quorum is how many witnesses the auditor asks for.
	Quorum int
	// Do is an attack that is not made of statements alone, and judges itself. What it says
	// is shown if the drill fails.
	Do func(t testing.TB, d *Deployment) (o Outcome, says string)
}

func (a *Attack) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", a.Thief, a.Class, a.About, a.Name)
}

// Result is an attack and its outcome.
type Result struct {
	*Attack
	Outcome Outcome
	// Says is by what it shows.
	Says string
}

// Judge makes an attack and says what became of it. base has what the honest parts see without one.
func (d *Deployment) Judge(t testing.TB, a *Attack, base Bases) Result {
	t.Helper()
	r := Result{Attack: a}
	if a.Do != nil {
		r.Outcome, r.Says = a.Do(t, d)
		return r.excused()
	}
	if len(a.SQL) > 0 {
		// The template itself is free between the copies.
		database := d.Database
		if a.Role != "" {
			database = d.users[a.Role]
		}
		if err := execute(t.Context(), database, a, false); err != nil {
			r.Outcome, r.Says = refusal(err)
			return r
		}
	}
	d.On(t, func(c *Copy) {
		if a.On != nil {
			if err := a.On(t, c); err != nil {
				r.Outcome, r.Says = Refused, err.Error()
				return
			}
		} else if err := execute(t.Context(), c.as(a.Role), a, true); err != nil {
			r.Outcome, r.Says = refusal(err)
			return
		}
		r.Outcome, r.Says = compare(a, base[a.Quorum], c.Proceed(t, a.Quorum))
	})
	return r.excused()
}

// excused looks up whether the documents say that nobody notices.
func (r Result) excused() Result {
	if r.Outcome == Unseen && excuse(r.Attack, r.Says) != "" {
		r.Outcome = OutOfReach
	}
	return r
}

// refusal is the outcome of an error of the database, which is a fault of the drill if the
// statement could not be read.
func refusal(err error) (Outcome, string) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !strings.HasPrefix(pg.Code, "42") || errors.As(err, &pg) && pg.Code == "42501" {
		return Refused, pg.Code + " " + pg.Message
	}
	if errors.Is(err, errNothing) {
		return Refused, "there is no such row"
	}
	return Unseen, "the drill's own fault: " + err.Error()
}

// compare says what the honest parts have noticed.
func compare(a *Attack, base, have *Seen) (Outcome, string) {
	// Whoever owns the database can end everything, which nobody overlooks.
	stops := Found
	if a.Thief.user() {
		stops = Spoilt
	}
	for _, part := range []string{partStore, partExport, partVerify, partAuthority, partSequencer, partPlans, partRegistry, partRuns, partBarriers} {
		switch say := have.Troubles[part]; {
		case say == "":
		case ownPart[part] == a.Thief:
			return Unseen, stopsItself + ": " + part + ": " + say
		default:
			return stops, part + ": " + say
		}
	}
	if !have.Report.OK {
		o := Found
		if a.Thief.user() && (a.Class == RowAdded || a.Class == RowChanged || a.Class == RowGone || a.Class == TreeBent) {
			o = Spoilt // an honest part has written what does not verify, and never will
		}
		return o, fmt.Sprintf("%s: %s", have.Report.Problems[0].Kind, have.Report.Problems[0].Message)
	}
	if have.Aside > base.Aside {
		return Refused, "the sequencer has set it aside"
	}
	if says := news(base, have); says != "" {
		return Warned, says
	}
	for what, row := range have.Believed {
		if base.Believed[what] != row {
			return Unseen, "believed: " + what + " " + row
		}
	}
	for what := range base.Believed {
		if _, ok := have.Believed[what]; !ok {
			return Warned, "no longer believed: " + what // calls that need it are refused, and say why
		}
	}
	if notBelieved[a.About] {
		return Refused, "no statement of the admins, or no author, has signed it"
	}
	return Unseen, "nothing shows"
}

// notBelieved are tables whose rows count only as far as signatures cover them, which believed
// looks at.
var notBelieved = map[string]bool{"agent_identity": true, "signers": true, "mcp_tool_registry": true, "plans": true, "budgets": true}

// plainly are fields of reports and exports that differ without meaning anything.
var plainly = map[string]bool{
	"ok": true, "size": true, "root": true, "last_entry": true, "problems": true, "warnings": true, "chains": true, "runs": true, "entries": true, "bodies": true,
	"evidence_packets": true, "sealed_bodies": true, "log_key": true, "witnesses": true, "cosigned": true, "checkpoint_time": true, "replayed_decisions": true, "open_runs": true,
	"not_yet_witnessed": true, "cosigned_checkpoints": true,
}

// news says what the auditor shows besides problems and did not show before.
func news(base, have *Seen) string {
	for _, w := range have.Report.Warnings {
		if !slices.ContainsFunc(base.Report.Warnings, func(x audit.Problem) bool { return x.Kind == w.Kind && x.Message == w.Message }) {
			return fmt.Sprintf("%s: %s", w.Kind, w.Message)
		}
	}
	for _, pair := range [][2]any{{base.Report, have.Report}, {base.Exported, have.Exported}} {
		was, is := fields(pair[0]), fields(pair[1])
		for name, value := range is {
			if !plainly[name] && was[name] != value {
				return fmt.Sprintf("%s is %s, not %s", name, value, was[name])
			}
		}
	}
	return ""
}

// fields are the fields of a value, as JSON.
func fields(v any) map[string]string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is ours
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		panic(err)
	}
	out := map[string]string{}
	for name, value := range all {
		out[name] = string(value)
	}
	return out
}
