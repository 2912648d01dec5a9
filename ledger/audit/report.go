package audit

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// Report is the result of a verification. OK is the answer; the other fields are
// the reasons.
type Report struct {
	OK     bool        `json:"ok"`
	Origin string      `json:"origin"`
	Size   int64       `json:"size"`
	Root   ledger.Hash `json:"root"`
	// Audience is that of the trust file: "dev" for a log of development.
	Audience string `json:"audience,omitempty"`
	// Key is the log's key that signed the checkpoint, or "".
	Key string `json:"log_key,omitempty"`
	// Witnesses have cosigned the checkpoint, at the times of Cosigned.
	Witnesses []string    `json:"witnesses,omitempty"`
	Cosigned  []time.Time `json:"cosigned,omitempty"`
	// Time is the latest of these: the log was at least that long at that time.
	Time *time.Time `json:"checkpoint_time,omitempty"`
	// Unwitnessed counts the entries after the last checkpoint, older ones included, that a known
	// witness has cosigned: all of them if none has.
	Unwitnessed int64 `json:"not_yet_witnessed"`
	// Last is when the last entry was stated: nothing later is proved.
	Last *ledger.Time `json:"last_entry,omitempty"`
	// Against is the size of the older checkpoint that the log was held against.
	Against *int64 `json:"against,omitempty"`

	Chains int `json:"chains"`
	Runs   int `json:"runs"`
	// OpenRuns are runs whose chain has no end, the one silent for longest
	// first, and Open is their number.
	OpenRuns []OpenRun `json:"open_runs"`
	Open     int       `json:"open"`
	// NotUndone are effects that nobody has undone, although their plans say how: those of
	// runs that could not, since Temporal ended them. Standing is their number.
	NotUndone []NotUndone `json:"not_undone,omitempty"`
	Standing  int         `json:"standing,omitempty"`
	// Overdrafts are what agents were let spend whatever their budgets said, by agent and
	// currency, and Lifted the holds, with those who have approved that.
	Overdrafts []Overdraft `json:"overdrafts,omitempty"`
	Lifted     []Lifted    `json:"lifted,omitempty"`
	// Missing counts bodies that are gone for a stated reason, Sealed those that
	// cannot be read without a key.
	Missing int64 `json:"missing_bodies"`
	Sealed  int64 `json:"sealed_bodies"`
	// Packets counts the evidence packets of entries.
	Packets int64 `json:"evidence_packets"`
	// Replayed counts the decisions that were made again from their evidence, with the same
	// record, and NotReplayable those whose evidence is gone, sealed or from elsewhere.
	Replayed      int64 `json:"replayed_decisions"`
	NotReplayable int64 `json:"not_replayable_decisions"`
	// Pruned are the acts of pruning that the log states, in order, the last of
	// them where there are many. Held are the chains under legal hold, and Erased
	// counts the subjects that were erased.
	Pruned  []ledger.PrunedData `json:"pruned,omitempty"`
	Held    []string            `json:"legal_holds,omitempty"`
	Erased  int                 `json:"erased_subjects,omitempty"`
	Pending int64               `json:"pending"`
	// Lost counts the entries that neither had a place nor waited for one, and Aside the rows
	// that the sequencer has set aside.
	Lost  int64 `json:"lost,omitempty"`
	Aside int64 `json:"aside,omitempty"`

	// Problems are what is wrong, in the order in which it was found; More is how
	// many are not listed.
	Problems []Problem `json:"problems"`
	More     int64     `json:"more_problems,omitempty"`
	// Warnings are worth a look, but do not affect OK; MoreWarnings are not
	// listed.
	Warnings     []Problem `json:"warnings,omitempty"`
	MoreWarnings int64     `json:"more_warnings,omitempty"`
}

// OpenRun is a run whose chain has no end.
type OpenRun struct {
	Workflow string      `json:"workflow"`
	Chain    string      `json:"chain"`
	Entries  int64       `json:"entries"`
	Last     ledger.Time `json:"last_entry"`
}

// NotUndone is an effect of a run that ended without unwinding.
type NotUndone struct {
	Workflow string          `json:"workflow"`
	Chain    string          `json:"chain"`
	Node     string          `json:"node"`
	State    ledger.RunState `json:"state"`
}

// ProblemKind says what is wrong.
type ProblemKind string

// The kinds of problems.
const (
	// BadExport: a file is missing, or is not one of an export.
	BadExport ProblemKind = "export"
	// BadCheckpoint: the checkpoint is not signed as the trust file asks.
	BadCheckpoint ProblemKind = "checkpoint"
	// BadRoot: the entries are not those that the checkpoint was signed over.
	BadRoot ProblemKind = "root"
	// BadHistory: the log does not begin with what an older checkpoint was signed
	// over.
	BadHistory ProblemKind = "history"
	// BadEntry: a line is not an entry of this log.
	BadEntry ProblemKind = "entry"
	// BadChain: a chain has a gap, a fork or a repetition.
	BadChain ProblemKind = "chain"
	// BadBody: a body is not that of its entry, or is missing without a reason.
	BadBody ProblemKind = "body"
	// BadStory: an entry states something that cannot have happened.
	BadStory ProblemKind = "story"
	// BadAuthority: a statement of admins does not hold, or there is a signer, an
	// agent, a trusted tool, a budget, a plan or a start that none of them bears out.
	BadAuthority ProblemKind = "authority"
	// BadTime: time runs backwards in a chain, or a start was stated after its grant
	// has expired; a clock may have been set, so it is a warning.
	BadTime ProblemKind = "time"
)

// Kinds lists the kinds of problems.
func Kinds() []ProblemKind {
	return []ProblemKind{BadExport, BadCheckpoint, BadRoot, BadHistory, BadEntry, BadChain, BadBody, BadStory, BadAuthority, BadTime}
}

// Problem is one thing that is wrong.
type Problem struct {
	Kind ProblemKind `json:"kind"`
	// Index is the entry's place in the log, -1 where it is about none.
	Index   int64  `json:"index"`
	Message string `json:"message"`
}

func (p Problem) at() string {
	if p.Index < 0 {
		return ""
	}
	return fmt.Sprintf(", at entry %d", p.Index)
}

// maxProblems bounds the problems, and the warnings of each sort, that are listed.
const maxProblems = 100

func (r *Report) problem(kind ProblemKind, index int64, format string, args ...any) {
	if len(r.Problems) >= maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, Problem{kind, index, plain(fmt.Sprintf(format, args...))})
}

// warn adds a warning. Each sort of them, which its format tells, is bounded by itself: nobody
// hides one behind others.
func (v *verifier) warn(kind ProblemKind, index int64, format string, args ...any) {
	if v.warned[format] >= maxProblems {
		v.MoreWarnings++
		return
	}
	if v.warned == nil {
		v.warned = map[string]int{}
	}
	v.warned[format]++
	v.Warnings = append(v.Warnings, Problem{kind, index, plain(fmt.Sprintf(format, args...))})
}

// plain makes foreign text safe for people: short, and without characters that move
// a terminal's cursor, end a line, or reverse the order of letters.
func plain(s string) string {
	const most = 1000
	var b strings.Builder
	for _, r := range s {
		if b.Len() > most {
			return b.String() + "…"
		}
		if unicode.IsGraphic(r) && r != utf8.RuneError {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// ago formats how long before now an instant was.
func ago(at, now time.Time) string {
	if d := now.Sub(at).Round(time.Second); d >= 0 {
		return d.String() + " ago"
	}
	return at.Sub(now).Round(time.Second).String() + " IN THE FUTURE"
}

// WriteText writes the report for people. now is for ages.
func (r *Report) WriteText(w io.Writer, now time.Time) error {
	p := func(format string, args ...any) (err error) {
		_, err = fmt.Fprintf(w, format, args...)
		return err
	}
	if r.OK {
		if err := p("verified: %s of %s, root %s\n", count(r.Size, "entry", "entries"), r.Origin, r.Root); err != nil {
			return err
		}
	} else if err := p("NOT VERIFIED: %s\n", r.Origin); err != nil {
		return err
	}
	if r.Audience == string(trust.Dev) {
		if err := p("  a log of development: it proves nothing to others\n"); err != nil {
			return err
		}
	}
	for _, x := range r.Problems {
		if err := p("  %s%s: %s\n", x.Kind, x.at(), x.Message); err != nil {
			return err
		}
	}
	if r.More > 0 {
		if err := p("  and %d more\n", r.More); err != nil {
			return err
		}
	}
	for _, x := range r.Warnings {
		if err := p("  warning%s: %s\n", x.at(), x.Message); err != nil {
			return err
		}
	}
	if r.MoreWarnings > 0 {
		if err := p("  and %d more warnings\n", r.MoreWarnings); err != nil {
			return err
		}
	}
	if r.Replayed+r.NotReplayable > 0 {
		text := count(r.Replayed, "decision", "decisions") + " made again from the evidence, with the same record"
		if r.NotReplayable > 0 {
			text += fmt.Sprintf("; %d not, whose evidence is gone, sealed or from elsewhere", r.NotReplayable)
		}
		if err := p("  %s\n", text); err != nil {
			return err
		}
	}
	if r.Last != nil {
		if err := p("  last entry: %s, %s\n", r.Last, ago(r.Last.Time(), now)); err != nil {
			return err
		}
	}
	if len(r.Witnesses) == 0 {
		if err := p("  no witness has cosigned: only the operator says when the checkpoint was signed\n"); err != nil {
			return err
		}
	}
	for i, name := range r.Witnesses {
		if err := p("  cosigned by %s at %s, %s\n", plain(name), r.Cosigned[i].UTC().Format(time.RFC3339), ago(r.Cosigned[i], now)); err != nil {
			return err
		}
	}
	if r.Unwitnessed > 0 && r.Unwitnessed < r.Size {
		if err := p("  %s not yet witnessed\n", count(r.Unwitnessed, "entry", "entries")); err != nil {
			return err
		}
	}
	if r.Against != nil && r.OK {
		if err := p("  it begins with the %s of the older checkpoint\n", count(*r.Against, "entry", "entries")); err != nil {
			return err
		}
	}
	if err := p("  %s, %s, %d of them open; %s pruned, %d sealed; %s after this checkpoint\n",
		count(r.Chains, "chain", "chains"), count(r.Runs, "run", "runs"), r.Open,
		count(r.Missing, "body", "bodies"), r.Sealed, count(r.Pending, "entry", "entries")); err != nil {
		return err
	}
	if r.Lost > 0 {
		if err := p("  %s lost: without a place in the log, and not waiting for one\n", count(r.Lost, "entry was", "entries were")); err != nil {
			return err
		}
	}
	if r.Aside > 0 {
		if err := p("  %s\n", count(r.Aside, "row was set aside, since it is no entry", "rows were set aside, since they are no entries")); err != nil {
			return err
		}
	}
	for _, x := range r.Pruned {
		if err := p("  pruned: %s of class %s that were stated before %s (%s)\n", count(x.Count, "body", "bodies"), plain(string(x.Class)), x.Before, plain(x.Reason)); err != nil {
			return err
		}
	}
	for _, chain := range r.Held {
		if err := p("  under legal hold: %s\n", plain(chain)); err != nil {
			return err
		}
	}
	if r.Erased > 0 {
		if err := p("  %s erased\n", count(r.Erased, "subject", "subjects")); err != nil {
			return err
		}
	}
	if r.Standing > 0 {
		if err := p("  %s not undone, of runs that ended without unwinding\n", count(r.Standing, "effect", "effects")); err != nil {
			return err
		}
	}
	for _, x := range r.NotUndone {
		if err := p("  not undone: %s of %s, which was %s\n", plain(x.Node), plain(x.Workflow), strings.ReplaceAll(string(x.State), "_", " ")); err != nil {
			return err
		}
	}
	for _, x := range r.Overdrafts {
		if err := p("  beyond the budget of %s: %s, %s\n", plain(x.Agent), x.Amount, count(x.Holds, "hold", "holds")); err != nil {
			return err
		}
	}
	for _, x := range r.Lifted {
		by := "nobody has approved it"
		switch {
		case x.Again:
			by = "the call was made again after a reset"
		case x.Barrier != "":
			by = fmt.Sprintf("approved at %s by %s", plain(x.Barrier), plain(strings.Join(x.Signers, ", ")))
		}
		if err := p("  beyond the budget: %s of %s, for %s; %s\n", x.Amount, plain(x.Agent), plain(x.Hold), by); err != nil {
			return err
		}
	}
	for _, x := range r.OpenRuns {
		if err := p("  open: %s, %s, the last %s\n", plain(x.Workflow), count(x.Entries, "entry", "entries"), ago(x.Last.Time(), now)); err != nil {
			return err
		}
	}
	return nil
}

// count formats a number with its noun.
func count[N int | int64](n N, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}
