package intake

import (
	"slices"
	"strings"

	"chimera.ai/engine/plan"
)

// Words that make a guess more dangerous.
var (
	// sweeping: an effect on whatever there is, which nobody can list to undo it.
	sweeping = set("all bulk everything force many mass permanently recursive unsafe")
	// nouns make up names that only say what is answered.
	nouns = set("collection database db directory disk file indexes info logs memory schema size stats status storage table tree")
	// joins stand between two verbs.
	joins = set("and or then")
	// negations: what follows is not done.
	negations = set("cannot doesn don never no not without won")
	// programs are names of arguments that hold what is to be executed.
	programs = set("actions cmd code command commands cypher expression function javascript js mutation program python script shell sql statement")
	// languages that a query may be in that changes what it reads.
	languages = set("cypher graphql sparql sql")
	// choices are names of arguments that choose what the tool does.
	choices = set("action command method op operation verb")
	// hooks are addresses that are told.
	hooks = set("callback webhook webhooks")
	// files and outputs: an argument with a word of either says where an answer is written.
	files   = set("dir directory file filename folder path")
	outputs = set("dest destination download export local out output request response save target")
	// saving says that such an argument is written to.
	saving = set("export output save saved saves saving store stored write writes written")
	// outside are words of those who reach the open world.
	outside = set("browse crawl domain domains fetch http https internet online scrape uri uris url urls web webpage website websites")
)

func set(words string) map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		all[word] = true
	}
	return all
}

// guess proposes what the name says, or something more dangerous that the rest says.
func (d *definition) guess() Proposal {
	name := words(d.name)
	effect := byName(name)
	if effect == "" && len(name) > 1 && !slices.ContainsFunc(name, func(word string) bool { return !nouns[word] }) {
		effect = plan.Pure
	}
	unknown := effect == ""
	if unknown || !ascii(d.name) {
		effect = plan.Irreversible
	}
	arguments := d.arguments()
	for _, text := range []string{d.title, d.description} {
		effect = worse(effect, byText(words(text)))
	}
	effect = worse(effect, byArguments(effect, arguments))
	if slices.Contains(name, "query") && anyOf(languages, words(d.description)) {
		effect = plan.Irreversible
	}
	switch {
	case unknown:
		return Proposal{Effect: effect, Status: plan.ManualReview, OpenWorld: true, Guess: true, Reason: "Its name does not say what it does."}
	case effect == plan.Irreversible:
		return Proposal{Effect: effect, Status: plan.ManualReview, OpenWorld: true, Guess: true,
			Reason: "By its name, description or arguments, it may do what cannot be undone."}
	case effect == plan.Committing:
		return Proposal{Effect: effect, Status: plan.ManualReview, OpenWorld: true, Guess: true,
			Reason: "By its name, description or arguments, it changes something."}
	case d.reachesOut(name, arguments):
		return Proposal{Effect: effect, Status: plan.AllowAuto, OpenWorld: true, Guess: true,
			Reason: "By its name it only reads, and by its name, description or arguments from the open world."}
	default:
		return Proposal{Effect: effect, Status: plan.AllowAuto, Guess: true, Reason: "By its name it only reads."}
	}
}

// byName returns the effect that the words of a name tell, or "".
func byName(name []string) (effect plan.EffectClass) {
	if n := len(name); n > 1 && name[0] == "resolve" && (name[n-1] == "id" || name[n-1] == "ids") {
		return plan.Pure // looks up, and settles nothing
	}
	plain := false // behind a verb of plain reading
	for i, word := range name {
		next := ""
		if i+1 < len(name) {
			next = name[i+1]
		}
		v, ok := verbOf(word)
		switch {
		case joins[word]:
			plain = false
			continue
		case word == "merge" && strings.HasPrefix(next, "request"), word == "request" && i > 0 && (name[i-1] == "pull" || name[i-1] == "merge"):
			continue // nouns
		case word == "check" && (next == "in" || next == "out" || next == "off"):
			v = verb{effect: plan.Irreversible}
		case !ok, v.noun && plain:
			continue
		}
		plain = plain || v.plain
		effect = worse(effect, v.effect)
	}
	if effect == plan.Committing && anyOf(sweeping, name) || effect == plan.Pure && slices.Contains(name, "unsafe") {
		return plan.Irreversible
	}
	return effect
}

// byText returns the effect that a description admits, or "". To resolve is no effect in one: names
// and addresses are resolved more often than what is settled.
func byText(text []string) (effect plan.EffectClass) {
	for i, word := range text {
		v, ok := formOf(word)
		if !ok || v.noun && i > 0 || strings.HasPrefix(word, "resolv") || anyOf(negations, text[max(0, i-3):i]) {
			continue
		}
		effect = worse(effect, v.effect)
	}
	return effect
}

// byArguments returns the effect that the arguments of a tool of an effect suggest, or "".
func byArguments(of plan.EffectClass, arguments []argument) (effect plan.EffectClass) {
	var address, method bool
	for _, a := range arguments {
		name := words(a.name)
		if len(name) == 0 {
			continue
		}
		last := name[len(name)-1]
		choice := choices[last] || last == "event" && of.Acts() // events are more often what is asked for
		address = address || anyOf(outside, name)
		method = method || last == "method" && len(a.values) == 0
		switch v, ok := verbOf(name[0]); {
		case programs[strings.Join(name, "")] && !(choice && len(a.values) > 0), anyOf(hooks, name):
			effect = plan.Irreversible
		case ok && v.effect.Acts() && !v.noun:
			effect = worse(effect, v.effect)
		case anyOf(files, name) && (anyOf(outputs, name) || anyOf(saving, words(a.description))):
			effect = worse(effect, plan.Committing)
		}
		if !choice {
			continue
		}
		if len(a.values) == 0 && of.Acts() {
			effect = worse(effect, byText(words(a.description)))
		}
		for _, value := range a.values {
			first := words(value)
			if len(first) == 0 {
				continue
			}
			if v, ok := verbOf(first[0]); ok && (!v.noun || of.Acts()) {
				effect = worse(effect, v.effect)
			}
			if slices.Contains([]string{"POST", "PUT", "PATCH"}, value) {
				effect = plan.Irreversible
			}
		}
	}
	if address && method {
		return plan.Irreversible // any request of HTTP
	}
	return effect
}

// reachesOut reports whether anything says that a tool reads from the open world.
func (d *definition) reachesOut(name []string, arguments []argument) bool {
	if anyOf(outside, name) || anyOf(outside, words(d.title)) || anyOf(outside, words(d.description)) {
		return true
	}
	return slices.ContainsFunc(arguments, func(a argument) bool { return anyOf(outside, words(a.name)) })
}

// worse is the more dangerous of two effects, each of which may be unknown.
func worse(a, b plan.EffectClass) plan.EffectClass {
	order := []plan.EffectClass{"", plan.Pure, plan.Staged, plan.Committing, plan.Irreversible}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

func anyOf(set map[string]bool, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return set[word] })
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > '~' }) < 0
}
