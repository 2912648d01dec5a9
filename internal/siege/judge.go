package siege

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome is what the ledger records of a node.
type Outcome struct {
	Node    string
	Fate    Fate
	In, Out string
	Kind    string
	Message string
	// Attempts counts calls.
	Attempts int
}

// End is how a run ended, as one of its witnesses reports it.
type End struct {
	// State is succeeded, failed or cancelled; "" if the witness does not know the
	// run.
	State string
	// Digest is the output's, of a run that succeeded.
	Digest string
	// Kind and Node are the failure's.
	Kind, Node string
	// Message is for people.
	Message string
}

// Seen is what was observed of a run.
type Seen struct {
	// Ledger, Temporal, Client and Query are what each of them says of the end.
	Ledger, Temporal, Client, Query End
	Outcomes                        []Outcome
	// Counts has the states of nodes, as the query counts them; "dropped" is one.
	Counts map[string]int
	// Cancelled and Late: the run was cancelled, its deadline may have passed.
	Cancelled, Late bool
	// Reset: outcomes are also those of the run before, which may have gone farther.
	Reset bool
	// Restless: workers were killed, so that calls may have been made twice.
	Restless bool
}

// maxFindings bounds the findings of one run.
const maxFindings = 12

// Judge compares what was observed of a run with the model, and lists the differences.
func (m *Model) Judge(s *Seen) []string {
	j := &judgement{m: m, s: s}
	j.agree()
	j.end()
	j.outcomes()
	j.counts()
	if n := len(j.findings); n > maxFindings {
		j.findings = append(j.findings[:maxFindings:maxFindings], fmt.Sprintf("and %d more", n-maxFindings))
	}
	return j.findings
}

type judgement struct {
	m        *Model
	s        *Seen
	findings []string
}

func (j *judgement) say(format string, args ...any) {
	j.findings = append(j.findings, fmt.Sprintf(format, args...))
}

// agree: all witnesses tell one end.
func (j *judgement) agree() {
	client := j.s.Client
	for _, w := range []struct {
		name string
		end  End
		deep bool
	}{{"the ledger", j.s.Ledger, true}, {"Temporal", j.s.Temporal, false}, {"the query", j.s.Query, false}} {
		if w.end.State == "" && w.name == "the ledger" && client.State != string(Succeeds) && len(j.s.Outcomes) == 0 {
			continue // it had not begun
		}
		switch {
		case w.end.State != client.State:
			j.say("two ends: %s says %q (%s %s), the client got %q (%s %s)", w.name, w.end.State, w.end.Kind, w.end.Node, client.State, client.Kind, client.Node)
		case w.deep && w.end.Digest != client.Digest:
			j.say("two outputs: %s has %s, the client got %s", w.name, w.end.Digest, client.Digest)
		case w.deep && (w.end.Kind != client.Kind || w.end.Node != client.Node):
			j.say("two failures: %s has %s of %q, the client got %s of %q", w.name, w.end.Kind, w.end.Node, client.Kind, client.Node)
		}
	}
}

// end: it is one that the model allows.
func (j *judgement) end() {
	end := j.s.Client
	switch {
	case end.State == "succeeded" && (!j.m.Complete || len(j.m.Fatal) > 0):
		j.say("the run succeeded, which it cannot: fatal are %v", j.fatal())
	case end.State == "succeeded":
		if end.Digest != j.m.Digest {
			j.say("the output is %s, not %s", end.Digest, j.m.Digest)
		}
	case end.State == "cancelled":
		if !j.s.Cancelled {
			j.say("the run is cancelled, and nobody did that")
		}
	case end.State == "failed" && end.Kind == "deadline":
		if !j.s.Late {
			j.say("the run failed by its deadline, which is far")
		}
	case end.State == "failed":
		if !j.m.Fatal[end.Node] {
			j.say("the run failed with %s of %q (%.200s); fatal are %v", end.Kind, end.Node, end.Message, j.fatal())
		} else if f := j.m.Nodes[end.Node].Failure; f.Kind != end.Kind {
			j.say("the run failed with %s of %q, which fails with %s", end.Kind, end.Node, f.Kind)
		}
	default:
		j.say("the run has no end: %q", end.State)
	}
}

func (j *judgement) fatal() []string {
	var ids []string
	for id := range j.m.Fatal {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), 5)]
}

// outcomes: those of the model, all of them where the run was not cut short, none
// twice, none without what led to it.
func (j *judgement) outcomes() {
	got := map[string]Outcome{}
	for _, o := range j.s.Outcomes {
		if _, twice := got[o.Node]; twice {
			j.say("%s ended twice in the ledger", o.Node)
		}
		got[o.Node] = o
		j.outcome(o)
	}
	for _, o := range j.s.Outcomes {
		for _, e := range j.m.in[o.Node] {
			if _, ok := got[e.From]; !ok && e.From != input {
				j.say("%s has %s in the ledger, and %s before it has not ended", o.Node, o.Fate, e.From)
				break
			}
		}
	}
	switch end := j.s.Client; {
	case end.State == "succeeded":
		for _, n := range j.m.Plan.Nodes {
			if _, ok := got[n.ID]; !ok {
				j.say("the ledger misses %s, which has %s", n.ID, j.m.Nodes[n.ID].Fate)
			}
		}
	case end.State == "failed" && j.m.Fatal[end.Node]:
		if _, ok := got[end.Node]; !ok {
			j.say("the ledger misses %s, whose failure ended the run", end.Node)
		}
	}
}

func (j *judgement) outcome(o Outcome) {
	d := j.m.Nodes[o.Node]
	if d == nil {
		j.say("the ledger has a node %q that the plan has not", o.Node)
		return
	}
	switch {
	case d.Fate != o.Fate:
		j.say("%s has %s (%s %s), and must have %s", o.Node, o.Fate, o.Kind, o.Message, d.Fate)
	case o.Fate != Skipped && j.m.doomed[o.Node]:
		j.say("%s was called after a failure that is fatal at once", o.Node)
	case o.Fate == Succeeds && (o.In != d.In || o.Out != d.Out):
		j.say("%s took %s and gave %s, not %s and %s", o.Node, o.In, o.Out, d.In, d.Out)
	case o.Fate == Fails && o.Kind != d.Failure.Kind:
		j.say("%s failed with %s (%s), not %s", o.Node, o.Kind, o.Message, d.Failure.Kind)
	case o.Fate == Fails && d.Failure.Message != "" && !strings.HasPrefix(d.Failure.Message, strings.TrimSuffix(o.Message, "…")):
		j.say("%s failed with %q, not %.80q", o.Node, o.Message, d.Failure.Message)
	case o.Fate == Fails && o.Attempts != d.Failure.Attempts && !j.s.Restless:
		j.say("%s failed after %d attempts, not %d", o.Node, o.Attempts, d.Failure.Attempts)
	}
}

// counts: the query counts what the ledger has.
func (j *judgement) counts() {
	if j.s.Reset || j.s.Query.State == "" || len(j.s.Counts) == 0 {
		return
	}
	want := map[string]int{"dropped": len(j.m.Plan.Nodes)}
	for _, o := range j.s.Outcomes {
		want[string(o.Fate)]++
		want["dropped"]--
	}
	for _, state := range []string{"succeeded", "failed", "skipped", "dropped", "pending", "running"} {
		if j.s.Counts[state] != want[state] {
			j.say("the query counts %d %s, the ledger %d", j.s.Counts[state], state, want[state])
		}
	}
}
