package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

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

// confirm asks a question, again until the answer is yes or no, or an empty line for what is usual.
func (a *asker) confirm(usual bool, format string, args ...any) (bool, error) {
	for {
		line, err := a.answer(format, args...)
		if err != nil {
			return false, err
		}
		switch line {
		case "":
			return usual, nil
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
		a.p.say("Answer y or n.")
	}
}

// What --here says.
const (
	hereUnsaid = ""
	hereYes    = "true"
	hereNo     = "false"
	hereOnly   = "only"
)

// place decides where the tools of a server are called: of those of which the catalog pins no endpoint
// as flags say, or on a terminal where the server is; and of those which it pins elsewhere as flags
// say, or people on a terminal. What became of it is said. asIt is what differs of the server besides.
func (a *asker) place(server string, is introduced, said string, open []*importedTool, asIt string) error {
	endpoint := is.Introduction.Endpoint
	var anywhere, moved []*importedTool
	for _, x := range open {
		switch {
		case x.was == nil || len(x.was.Endpoints) == 0:
			anywhere = append(anywhere, x)
		case x.moved:
			moved = append(moved, x)
		case said == hereOnly:
			x.endpoint, x.only = endpoint, true
		}
	}
	switch pin := said == hereYes || said == hereOnly || said == hereUnsaid && a.ask; {
	case len(anywhere) == 0:
	case !pin && said == hereUnsaid:
		a.p.say("%s: where the server is does not count: its tools at any other place are taken for the same. --here pins it", foreign(server))
	case pin:
		if said == hereUnsaid {
			a.p.say("%s: tools are called only where the server is now, which may be elsewhere on other machines. --here=false leaves that open", foreign(server))
		}
		a.p.say("%s: pinned %s", foreign(server), foreign(is.pins(server)))
		for _, x := range anywhere {
			x.endpoint = endpoint
		}
	}
	if len(moved) == 0 {
		return nil
	}
	if said == hereUnsaid && a.ask {
		var err error
		if said, err = a.moved(server, is, len(moved), asIt); err != nil {
			return err
		}
	}
	if said == hereYes || said == hereOnly {
		a.p.say("%s: pinned %s", foreign(server), foreign(is.pins(server)))
		for _, x := range moved {
			x.endpoint, x.only, x.settled = endpoint, said == hereOnly, a.ask && x.same
		}
		return nil
	}
	a.p.say("%s: %s still pinned to the old place, and not called where the server is now. --here pins the new place, too, and --here=only the new one alone",
		foreign(server), plural(len(moved), "tool")+" "+agree(len(moved), "is", "are"))
	for _, x := range moved {
		if x.same {
			x.leaveOut()
			x.settled = true
		}
	}
	return nil
}

// moved asks where tools are called whose server is not where the catalog pins it.
func (a *asker) moved(server string, is introduced, n int, asIt string) (said string, err error) {
	a.p.say("\n%s: the server is not where the catalog pins %s. It is now:\n  %s", foreign(server), plural(n, "tool"), foreign(whereabouts(is.place)))
	if asIt != "" {
		a.p.say("  %s", foreign(asIt))
	}
	for {
		switch line, err := a.answer("  Call them [o]nly where the server is now, [b]oth there and where it was, or [k]eep the old place?"); {
		case err != nil:
			return "", err
		case line == "o" || line == "only":
			return hereOnly, nil
		case line == "b" || line == "both":
			return hereYes, nil
		case line == "k" || line == "keep":
			return hereNo, nil
		}
	}
}

// decide decides on tools of a server that are new or have changed.
func (a *asker) decide(o *intakeOptions, server string, open []*importedTool, hints bool) error {
	open = slices.DeleteFunc(slices.Clone(open), func(x *importedTool) bool { return x.settled })
	if a.ask {
		return a.inGroups(server, slices.DeleteFunc(open, func(x *importedTool) bool {
			named := o.named(server, x)
			if named {
				x.set(x.proposal.Effect, x.proposal.Status)
			}
			return named
		}), hints)
	}
	for _, x := range open {
		named := o.named(server, x)
		x.comment = x.why()
		switch {
		case o.out == "" && x.look && !named:
			x.leaveOut()
			x.Warnings = append(x.Warnings, "it needs a look: name it with --accept once you have had one")
		case x.look && !named && x.was != nil:
			x.set(x.proposal.Effect, plan.Block)
			x.comment += fmt.Sprintf("\nThe catalog has: %s, %s. Until somebody says so again, it is blocked.", x.was.Effect, x.was.Status)
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
		case x.Resource != nil && len(o.resources) == 0 && (x.was == nil || x.widened()):
			x.set(plan.Pure, plan.ManualReview)
		default:
			x.set(x.proposal.Effect, x.proposal.Status)
		}
	}
	return nil
}

// why is what speaks for the proposal, and against it.
func (x *importedTool) why() string {
	all := append([]string{x.proposal.Reason}, x.Warnings...)
	if x.was != nil && x.was.Definition != nil && x.definition != nil {
		changes, err := fingerprint.Compare(x.was.Definition, x.definition)
		if err != nil {
			return strings.Join(append(all, err.Error()), "\n")
		}
		for _, c := range changes[:min(len(changes), shownChanges)] {
			all = append(all, c.String())
		}
		if n := len(changes) - shownChanges; n > 0 {
			all = append(all, plural(n, "change")+" more")
		}
	}
	return strings.Join(all, "\n")
}

// shownChanges bounds the changes of a tool that a comment names.
const shownChanges = 20

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
