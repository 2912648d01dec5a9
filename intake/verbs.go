package intake

import (
	"strings"

	"chimera.ai/engine/plan"
)

// verb is what a word of a name says of its tool.
type verb struct {
	effect plan.EffectClass
	// noun reports that the word is often no verb: in names it counts for nothing behind a verb
	// of plain reading, and in descriptions only where they begin.
	noun bool
	// plain reports a verb that only ever reads, so that what follows is its object.
	plain bool
}

// verbs are the words that say what a tool does.
var verbs = tabled(map[verb]string{
	{effect: plan.Pure, plain: true}: `describe fetch find get list lookup read retrieve show`,
	{effect: plan.Pure}: `analyse analyze browse calculate check compare compute count crawl diff echo estimate examine
		explain inspect preview query scrape search summarize validate view whoami`,

	{effect: plan.Committing}: `add append attach configure create decrement disable edit enable increment insert
		modify prepend put replace reprioritize resolve save toggle unresolve unstar upsert write`,
	{effect: plan.Committing, noun: true}: `commit copy download duplicate fork link mark move patch pin rename set star store update`,

	{effect: plan.Irreversible}: `accept activate apply approve assign authorize ban broadcast buy cancel checkout cleanup
		confirm connect deactivate decline delete deny deploy destroy detach disconnect dismiss dispatch drop eject emit enqueue
		erase eval evaluate exec execute flush forget inject install invoke kick kill login logout migrate mutate notify nuke
		overwrite pay prune publish purge reboot refund reject remove restart restore resume revert revoke
		rollback rotate scrub sell send shutdown shuffle spawn submit subscribe suspend terminate tweet unapprove uninstall
		unsubscribe upload wipe withdraw`,
	{effect: plan.Irreversible, noun: true}: `alert allow archive backup block book boot build call cast charge clean clear clone close
		deposit email empty end export feedback follow forward freeze grant halt import invite invoice join launch leave
		load lock merge open order pause payment place play post press print process promote purchase push queue record
		refresh release reload reply report request reset run schedule share sign start stop swap switch sync trade
		transaction transfer trash trigger truncate vote webhook`,
})

func tabled(of map[verb]string) map[string]verb {
	all := map[string]verb{}
	for v, words := range of {
		for word := range strings.FieldsSeq(words) {
			all[word] = v
		}
	}
	return all
}

// verbOf returns what a word of a name says. What undoes or repeats an effect is one.
func verbOf(word string) (verb, bool) {
	if v, ok := verbs[word]; ok {
		return v, true
	}
	if rest, ok := strings.CutPrefix(word, "un"); ok {
		if v := verbs[rest]; v.effect.Acts() {
			return verb{effect: plan.Irreversible}, true
		}
	}
	if rest, ok := strings.CutPrefix(word, "re"); ok {
		if v := verbs[rest]; v.effect.Acts() {
			return v, true
		}
	}
	return verb{}, false
}

// formOf returns what a word of a text says, as an infinitive, in the third person or as a
// gerund. Participles tell of the past.
func formOf(word string) (verb, bool) {
	if v, ok := verbOf(word); ok {
		return v, true
	}
	var stems []string
	switch {
	case strings.HasSuffix(word, "ies"):
		stems = []string{word[:len(word)-3] + "y"}
	case strings.HasSuffix(word, "es"):
		stems = []string{word[:len(word)-1], word[:len(word)-2]}
	case strings.HasSuffix(word, "s"):
		stems = []string{word[:len(word)-1]}
	case strings.HasSuffix(word, "ing"):
		stem := word[:len(word)-3]
		stems = []string{stem, stem + "e"}
		if n := len(stem); n > 1 && stem[n-1] == stem[n-2] {
			stems = append(stems, stem[:n-1])
		}
	}
	for _, stem := range stems {
		if v, ok := verbOf(stem); ok {
			return v, true
		}
	}
	return verb{}, false
}

// words splits a name where case changes, and at whatever is no letter or digit of ASCII. They
// are in lower case.
func words(name string) (all []string) {
	start := 0
	flush := func(end int) {
		if end > start {
			all = append(all, strings.ToLower(name[start:end]))
		}
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case !alphanumeric(c):
			flush(i)
			start = i + 1
		case i > start && upper(c) && (!upper(name[i-1]) || i+1 < len(name) && lower(name[i+1])):
			flush(i)
			start = i
		}
	}
	flush(len(name))
	return all
}

func upper(c byte) bool { return 'A' <= c && c <= 'Z' }

func lower(c byte) bool { return 'a' <= c && c <= 'z' }

func alphanumeric(c byte) bool { return upper(c) || lower(c) || '0' <= c && c <= '9' }
