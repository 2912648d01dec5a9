package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/intake"
	"chimera.ai/engine/plan"
)

// asker asks people about tools, or decides without them.
type asker struct {
	p   *Program
	in  *bufio.Reader
	ask bool
}

// answer asks a question, and returns what is answered.
func (a *asker) answer(format string, args ...any) (string, error) {
	a.p.say(format, args...)
	line, err := a.in.ReadString('\n')
	if err != nil {
		return "", negative("nothing was imported: the answers end")
	}
	return strings.ToLower(strings.TrimSpace(line)), nil
}

func (a *asker) yes(format string, args ...any) (bool, error) {
	line, err := a.answer(format, args...)
	return line == "y" || line == "yes", err
}

func (a *asker) no(format string, args ...any) (bool, error) {
	line, err := a.answer(format, args...)
	return line == "n" || line == "no", err
}

// place pins where a server is for tools of which the catalog pins no endpoint, or does not, as flags
// say; without one it does on a terminal. What became of it is said.
func (a *asker) place(server, endpoint string, here *bool, open []*importedTool) {
	var anywhere []*importedTool
	for _, x := range open {
		if x.was == nil || len(x.was.Endpoints) == 0 {
			anywhere = append(anywhere, x)
		}
	}
	pin := a.ask
	if here != nil {
		pin = *here
	}
	switch {
	case len(anywhere) == 0:
	case !pin && here == nil:
		a.p.say("%s: where the server is does not count: its tools at any other place are taken for the same. --here pins it", foreign(server))
	case pin:
		if here == nil {
			a.p.say("%s: tools are called only where the server is now, by its program and files, or address and keys, which may be others on other machines. --here=false leaves that open", foreign(server))
		}
		for _, x := range anywhere {
			x.endpoint = endpoint
		}
	}
}

// decide decides on tools of a server that are new or have changed.
func (a *asker) decide(o *intakeOptions, server string, open []*importedTool, hints bool) error {
	if a.ask {
		return a.inGroups(server, open, hints)
	}
	for _, x := range open {
		named := slices.Contains(o.accept, x.Name) || slices.Contains(o.accept, catalog.OperationName(server, x.Name))
		x.comment = x.why()
		switch {
		case o.out == "" && x.look && !named:
			x.leaveOut()
			x.Warnings = append(x.Warnings, "it needs a look: name it with --accept once you have had one")
		case x.look && !named:
			x.set(plan.Irreversible, plan.Block)
			if x.Resource != nil {
				x.set(plan.Pure, plan.Block)
			}
			x.comment += "\nIt needs a look. Until somebody says otherwise, it is blocked."
		case x.proposal.Guess && x.published && !named:
			x.comment = fmt.Sprintf("The manifest says that it is %s, and its publisher is not known here: that was not taken.", x.proposal.Effect)
			x.set(plan.Irreversible, plan.ManualReview)
			x.proposal.OpenWorld = true
		case x.proposal.Guess && !named:
			x.comment = fmt.Sprintf("By its name and description it may be %s. That is a guess, and was not taken.", x.proposal.Effect)
			x.set(plan.Irreversible, plan.ManualReview)
			x.proposal.OpenWorld = true
		case x.Resource != nil && x.was == nil && len(o.resources) == 0:
			x.set(plan.Pure, plan.ManualReview)
		default:
			x.set(x.proposal.Effect, x.proposal.Status)
		}
	}
	return nil
}

// why is what speaks for the proposal, and against it.
func (x *importedTool) why() string {
	return strings.Join(append([]string{x.proposal.Reason}, x.Warnings...), "\n")
}

// inGroups asks about tools that are alike at once, and about those that need a look one by one.
func (a *asker) inGroups(server string, open []*importedTool, hints bool) error {
	by := map[string]*importedTool{}
	var guessed, said []intake.Tool
	var resources []*importedTool
	for _, x := range open {
		if x.Resource != nil {
			if !x.look {
				resources = append(resources, x)
			}
			continue
		}
		by[x.Name] = x
		switch t := (intake.Tool{Server: server, Name: x.Name, Definition: x.definition}); {
		case x.look, x.published:
		case x.proposal.Guess:
			guessed = append(guessed, t)
		default:
			said = append(said, t)
		}
	}
	for _, effect := range saidEffects {
		for _, world := range []bool{false, true} {
			var of []*importedTool
			for _, x := range open {
				if x.published && !x.look && x.proposal.Effect == effect && x.proposal.OpenWorld == world {
					of = append(of, x)
				}
			}
			if len(of) > 0 {
				if err := a.about(server, "", of[0].proposal, of); err != nil {
					return err
				}
			}
		}
	}
	for _, g := range append(intake.Groups(guessed, true), intake.Groups(said, hints)...) {
		var of []*importedTool
		for _, name := range g.Tools {
			of = append(of, by[name])
		}
		if err := a.about(server, g.Title, g.Proposal, of); err != nil {
			return err
		}
	}
	if len(resources) > 0 {
		if err := a.about(server, "", ofResources, resources); err != nil {
			return err
		}
	}
	for _, x := range open {
		if x.look {
			if err := a.about(server, "", x.proposal, []*importedTool{x}); err != nil {
				return err
			}
		}
	}
	return nil
}

// about asks about tools for which the same is proposed.
func (a *asker) about(server, title string, proposal intake.Proposal, of []*importedTool) error {
	var names []string
	for _, x := range of {
		names = append(names, foreign(x.Name))
	}
	a.p.say("\n%s: %s", foreign(server), strings.Join(names, ", "))
	if title != "" && len(of) > 1 {
		a.p.say("  %s", foreign(title))
	}
	effects := saidEffects
	for _, x := range of {
		if x.Resource != nil {
			a.p.say("  %s", foreign(x.reads()))
			effects = saidEffects[:1]
		}
	}
	if len(of) == 1 {
		for _, w := range of[0].Warnings {
			a.p.say("  ! %s", foreign(w))
		}
		if was := of[0].was; was != nil && was.Definition != nil {
			changes, err := fingerprint.Compare(was.Definition, of[0].definition)
			if err != nil {
				return negative("%s", err)
			}
			for _, c := range changes {
				a.p.say("  ! %s", foreign(c.String()))
			}
		}
	}
	guess := ""
	switch {
	case of[0].published:
		guess = " (its publisher's word)"
	case proposal.Guess:
		guess = " (a guess)"
	}
	a.p.say("  %s\n  proposed: %s, %s%s", foreign(proposal.Reason), proposal.Effect, proposal.Status, guess)
	example := "irreversible manual_review"
	if len(effects) == 1 {
		example = "pure manual_review"
	}
	each := ""
	if len(of) > 1 {
		each = "[e]ach by itself, "
	}
	for {
		line, err := a.answer("  [a]ccept, %s[s]kip, or EFFECT STATUS such as: %s", each, example)
		if err != nil {
			return err
		}
		effect, status, ok := strings.Cut(line, " ")
		switch {
		case line == "a" || line == "accept":
			for _, x := range of {
				if x.was == nil { // otherwise the catalog has its own
					x.proposal = proposal
				}
				x.set(x.proposal.Effect, x.proposal.Status)
			}
			return nil
		case line == "s" || line == "skip":
			for _, x := range of {
				x.leaveOut()
			}
			return nil
		case (line == "e" || line == "each") && len(of) > 1:
			for _, x := range of {
				if err := a.about(server, "", x.proposal, []*importedTool{x}); err != nil {
					return err
				}
			}
			return nil
		case ok && slices.Contains(effects, plan.EffectClass(effect)) && slices.Contains(saidStates, plan.Trust(status)):
			for _, x := range of {
				x.set(plan.EffectClass(effect), plan.Trust(status))
			}
			return nil
		}
	}
}

// What can be said of a tool. Resources are pure, which is the first.
var (
	saidEffects = []plan.EffectClass{plan.Pure, plan.Staged, plan.Committing, plan.Irreversible}
	saidStates  = []plan.Trust{plan.AllowAuto, plan.ManualReview, plan.Block}
)
