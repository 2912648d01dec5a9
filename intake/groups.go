package intake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/plan"
)

// Tool is a tool of a server.
type Tool struct {
	Server, Name string
	Definition   json.RawMessage
}

// Group is tools about which one question may be asked.
type Group struct {
	// Title is the question's subject, such as "github: 52 tools that only read".
	Title string
	// Server is that of all of them.
	Server string
	// Proposal holds for each of them. It is never less dangerous than a tool's own.
	Proposal Proposal
	// Tools are their names.
	Tools []string
}

// Groups puts tools together about which one question may be asked, in the order of the first of
// each. A tool with a flag, or a name that is flagged among those of its server, stands alone, and
// so does one whose definition cannot be read, which is blocked.
//
// Tools of which the server says the same share a group. A guess is coarser: of the tools of one
// server those that only read, and those that act, each as the most dangerous of them.
func Groups(tools []Tool, hints bool) []Group {
	type key struct {
		server, single string
		proposal       Proposal
		acts           bool
	}
	odd := oddNames(tools)
	at := map[key]int{}
	var groups []Group
	for i, t := range tools {
		p, err := Propose(t.Definition, hints)
		if err != nil {
			p = blocked("Its definition cannot be read.")
		}
		flags, _ := Flags(t.Definition) // fails as Propose has
		k := key{server: t.Server, proposal: p}
		switch {
		case err != nil || len(flags) > 0 || odd[t.Server][t.Name]:
			k.single = fmt.Sprint(i)
		case p.Guess:
			k.proposal, k.acts = Proposal{Guess: true}, p.Effect.Acts()
		}
		g, ok := at[k]
		if !ok {
			g = len(groups)
			at[k] = g
			groups = append(groups, Group{Server: t.Server, Proposal: p})
		}
		groups[g].Proposal = Stricter(groups[g].Proposal, p)
		groups[g].Tools = append(groups[g].Tools, t.Name)
	}
	for i := range groups {
		groups[i].title()
	}
	return groups
}

// oddNames are the names of each server's tools that are flagged among those of that server.
func oddNames(tools []Tool) map[string]map[string]bool {
	names := map[string][]string{}
	for _, t := range tools {
		names[t.Server] = append(names[t.Server], t.Name)
	}
	odd := map[string]map[string]bool{}
	for server, of := range names {
		odd[server] = map[string]bool{}
		for _, f := range FlagNames(of) {
			i, _ := strconv.Atoi(strings.TrimPrefix(f.Path, "/"))
			odd[server][of[i]] = true
		}
	}
	return odd
}

// Stricter is what is the stricter of two proposals in each respect. Its reason is one for tools that share a question.
func Stricter(a, b Proposal) Proposal {
	s := Proposal{
		Effect: worse(a.Effect, b.Effect), Status: a.Status, OpenWorld: a.OpenWorld || b.OpenWorld,
		Reason: a.Reason, Guess: a.Guess || b.Guess,
	}
	states := []plan.Trust{plan.AllowAuto, plan.ManualReview, plan.Block}
	if slices.Index(states, b.Status) > slices.Index(states, a.Status) {
		s.Status = b.Status
	}
	switch {
	case a.Reason == b.Reason:
	case s.Effect.Acts():
		s.Reason = "By their names, descriptions or arguments they act, or they do not say what they do."
	default:
		s.Reason = "By their names they only read, and some of them from the open world."
	}
	return s
}

// title names the group.
func (g *Group) title() {
	what := fmt.Sprintf("%d tools that", len(g.Tools))
	verbs := [2]string{"read", "act"}
	if len(g.Tools) == 1 {
		what = fmt.Sprintf("the tool %s, which", excerpt(g.Tools[0], 0))
		verbs = [2]string{"reads", "acts"}
	}
	switch {
	case g.Proposal.Status == plan.Block:
		what += " cannot be trusted as declared"
	case g.Proposal.Effect == plan.Pure:
		what += " only " + verbs[0]
	case g.Proposal.Effect == plan.Committing:
		what += " " + verbs[1] + ", and can be undone"
	default:
		what += " may do what cannot be undone"
	}
	g.Title = g.Server + ": " + what
}
