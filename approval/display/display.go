// Package display renders what a person reads before signing an approval.
//
// [Text] is a pure function of a [View]: whoever renders the same view gets the same
// bytes, on whichever machine, and the [Digest] of these bytes is signed. The values of a
// view are foreign: attackers choose inputs, descriptions and names. Whatever they
// contain, the text says what the view says, and two views that differ have different
// texts.
//
// # Form
//
// The text is lines that end in '\n'. The first names the form and its version, the last
// says that the text ends; between them are the lines of the barrier, and after an empty
// line those of each action:
//
//	chimera approval text, version 2
//	deployment:       "acme"
//	...
//	actions:          1
//
//	action 1 of 1
//	  action digest:  "sha256:..."
//	  ...
//	  inputs:         2 values in 31 bytes,
//	                  + sha256:...
//	    $.amount = 12.50
//	    $["pay to"] = "Ann"
//
//	end of the approval text
//
// If people are asked what a call did, whose outcome nobody knows, the lines question,
// if executed and if not executed follow the number of actions, and say what is asked and what
// each answer leads to; the line permitted of the action says when the call was permitted.
//
// If the words in the definition of an action's tool are not those that the plan pins, the lines
// "changed words", were and "are now" before the reasons have each text that differs: where it stands, as it
// was and as it is. Nothing of them is left out, however long they are, unless the action's share is too small
// for them.
//
// Labels belong to the frame, and so does everything outside double quotes save numbers
// and plain keys of inputs. Each element of a list has a line. A field that is empty is
// the word none, as is an empty list, but for prechecks and "approved undo", which have no
// line then; if amount and currency are both empty, they are the word unknown. Empty strings
// elsewhere are "". The lines "escalates" and "then must sign" are there only if more groups
// are asked after a while. A row is at most 78 columns wide, unless a digest needs more. What
// does not fit continues on a row that begins with spaces and a plus sign; a string that
// is split ends with a quote and begins again with one, and its
// value is the pieces joined. So no row begins with a foreign character, not even in a
// terminal 80 columns wide. In counting columns, a character that is not ASCII counts as
// two.
//
// # Strings
//
// Every foreign string but a plain key stands in double quotes. Inside them are
//
//   - printable ASCII characters except the double quote and the backslash. A space is
//     itself only if it is neither the first nor the last character and does not follow
//     another space;
//   - letters and marks of other scripts, subject to the next section;
//   - \x{HH} for a byte that is not part of UTF-8;
//   - \u{H...} for every other character: its code point in upper-case hexadecimal
//     without leading zeros.
//
// Thus a double quote is always one of the frame, and a backslash always an escape.
//
// If a string holds letters or marks that are not ASCII and shown as themselves, the
// scripts of all letters shown follow the closing quote, in order of their names:
//
//	"Zürich"  (Latin)
//	"счёт Acme"  (Cyrillic, Latin)
//
// A string whose form in quotes has more than 400 bytes (a key of an object: 100) is
// shown by at most 200 (50) bytes of its beginning and of its end, and by the SHA-256 of
// all of it:
//
//	"beginning" ... 999600 of 1000000 bytes left out ... "end" sha256:...
//
// The counts are of the value's own bytes. A digest, that is "sha256:" with 64 hex
// digits, is always shown in full and in one piece.
//
// # Letters
//
// The letters and marks that may be shown as themselves are listed in this package, so
// that they change with [Version] only and not with the version of Unicode that a program
// was built with. They belong to the scripts that UAX #31 recommends, and are left-to-right
// letters in common use that NFKC keeps, with two vowels of Thai and Lao besides. Letters
// written from right to left are escaped: beside digits and quotes, a terminal would
// show them in another order than they are in. So are digits other than ASCII digits,
// symbols, punctuation, controls, and everything that is invisible.
//
// A word is a longest sequence of such letters, marks, ASCII letters and ASCII digits. Its
// characters that are not ASCII are shown as themselves only if
//
//   - its letters are of one script, or of a combination that UTS #39 calls highly
//     restrictive: Latin and Han with Hiragana and Katakana, or with Hangul;
//   - it does not look like ASCII: if it has letters that are not ASCII, at least one of
//     them resembles no ASCII characters (by the data of UTS #39, and as browsers extend
//     them for domain names);
//   - its marks follow letters, at most four in a row, no two of them equal; at most two
//     of those that belong to no script, such as accents, which go with Latin, Greek and
//     Cyrillic only;
//   - it is in NFC.
//
// What looks alike within one script ("l" and "1", or two Han characters) is not marked.
//
// # Inputs
//
// The inputs of an action are its JSON value, each number, string, true, false, null,
// empty list and empty object of it on a line, with its path from $ on: .key for keys of
// at most 40 ASCII letters, digits and underscores that begin with no digit, ["key"] for
// others, [0] for elements. Keys are in the order of their bytes. Numbers are shown as
// written; one of more than 60 bytes is in quotes, after the word number. The line before
// gives the digest of the whole in canonical form.
//
// # Bounds
//
// Of the values of an action's inputs at most 200 are shown, one from the beginning and one
// from the end in turn; a line between them says how many are left out. All actions of a
// text share 256 KiB equally. An action whose share is too small for its values shows fewer,
// and if even the rest does not fit, it shows its digest, operation, effect and amount, with
// at most 48 bytes of each string, and the digest of the lines that it would have without
// the values of its inputs. What an action shows does thus not depend on the others, only on
// their number.
//
// Whatever shows the text must show it verbatim, without markup, in a font of fixed width,
// and must not wrap rows of up to 80 columns.
package display

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Version is the version of the form of the text. It changes whenever the text of any
// view does, or the words in which package approval puts the same things into one.
const Version = 2

// Bounds of a view. Text refuses what exceeds them.
const (
	// MaxItems is the number of actions.
	MaxItems = 1000
	// MaxList is the number of elements of every other list.
	MaxList = 64
	// MaxName is the length of each string that is no free text, in bytes.
	MaxName = 1 << 10
	// MaxFree is the length of a description, resource, reason or undo, and of inputs, in bytes.
	MaxFree = 1 << 20
	// MaxView is the length of all strings and inputs of a view together, in bytes.
	MaxView = 64 << 20
	// MaxText is the length of a text, in bytes. No view within the other bounds exceeds it.
	MaxText = 2 << 20
)

// View is what a person is shown of a barrier.
type View struct {
	Deployment, Audience, Namespace, Workflow, Barrier string
	// Plan is the plan's name and version: name@version.
	Plan       string
	PlanDigest string
	// Agent is for whom the actions are done, Requester who started the run.
	Agent, Requester string
	// Opened and Expires are instants as in RFC 3339.
	Opened, Expires string
	// Groups are those who must sign.
	Groups []Group
	// Escalates is the instant from which on the groups in Later must sign, too, or "".
	Escalates string
	Later     []Group
	// Excluded are the persons who may not.
	Excluded []string
	// Checkpoint is the log's latest checkpoint: its origin, size and hash.
	Checkpoint string
	// Items are the actions that one signature approves.
	Items []Item
	// Outcome: people are not asked to approve the one item, but what its call did.
	Outcome bool
}

// Group is a number of persons in a role who must sign.
type Group struct {
	Role string
	Min  int
}

// Item is one action.
type Item struct {
	Node, Path, Operation, Fingerprint, Effect, Description string
	// Resources are what the action is about.
	Resources []string
	// Inputs are the arguments of the call: one JSON value.
	Inputs json.RawMessage
	// Amount is a decimal, Currency a code of ISO 4217. Both are "" if not known.
	Amount, Currency string
	// TaintedPorts are the inputs that depend on untrusted data. TaintedDecision says
	// that such data decided whether the action happens.
	TaintedPorts    []string
	TaintedDecision bool
	// Prechecks are the nodes that have succeeded before.
	Prechecks []Precheck
	// Reworded are the words in the definition of the called tool that are not those that the plan pins.
	Reworded []Rewording
	// Reasons say what of the guardian's decision is lifted, or why people are asked.
	Reasons []string
	// Undo says how the action is undone, or why it cannot be.
	Undo string
	// Undoing names the actions that undo it and are approved with it.
	Undoing []string
	// Action is the digest of the action, Invocation and Decision are ids, and Evidence
	// is the digest of the evidence.
	Action, Invocation, Decision, Evidence string
	// Permitted is when a call was permitted that was made, as in RFC 3339, or "".
	Permitted string
}

// Precheck is a node that has succeeded before an action, with the digest of its output.
type Precheck struct{ Node, Output string }

// Rewording is a text in the definition of a tool, where it stands there, as it was and as it is; one
// that was not, or is not, there is "".
type Rewording struct{ Path, Was, Is string }

// Text returns the text of a view. Its errors are inputs that are not JSON and bounds that
// are exceeded. Inputs that differ in white space or in the order of keys are the same.
func Text(v *View) (string, error) {
	if err := v.check(); err != nil {
		return "", fmt.Errorf("render an approval: %w", err)
	}
	p := page{limit: shownLimit}
	p.header(v)
	for i := range v.Items {
		text, err := item(v, i)
		if err != nil {
			return "", fmt.Errorf("render action %d of an approval: %w", i+1, err)
		}
		p.b.WriteString("\n" + text)
	}
	p.line(0, "")
	p.line(0, "end of the approval text")
	if p.b.Len() > MaxText {
		return "", fmt.Errorf("render an approval: the text has %d bytes, more than %d", p.b.Len(), MaxText)
	}
	return p.b.String(), nil
}

// Digest returns the SHA-256 of a text, as it is signed: "sha256:" and 64 hex digits.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (p *page) header(v *View) {
	p.line(0, fmt.Sprintf("chimera approval text, version %d", Version))
	p.indent = 0
	p.field("deployment", v.Deployment)
	p.field("audience", v.Audience)
	p.field("namespace", v.Namespace)
	p.field("workflow", v.Workflow)
	p.field("barrier", v.Barrier)
	p.field("plan", v.Plan)
	p.field("plan digest", v.PlanDigest)
	p.field("agent", v.Agent)
	p.field("requester", v.Requester)
	p.field("opened", v.Opened)
	p.field("expires", v.Expires)
	p.groups("must sign", v.Groups)
	if len(v.Groups) == 0 {
		p.words("must sign", "none")
	}
	if v.Escalates != "" || len(v.Later) > 0 {
		p.field("escalates", v.Escalates)
		p.groups("then must sign", v.Later)
	}
	p.list("may not sign", v.Excluded)
	p.field("checkpoint", v.Checkpoint)
	p.words("actions", fmt.Sprint(len(v.Items)))
	if v.Outcome {
		p.sentence("question", "A call was made, and nobody knows what it did: did it have its effect? Find out before you sign.")
		p.sentence("if executed", "It had its effect. It counts as done, and is never made again. What it answered stays unknown. What was held for it is spent.")
		p.sentence("if not executed", "It had no effect, and can have none any more. It may be made again, as the plan says. What was held for it is freed.")
	}
}

// groups writes a line for each group.
func (p *page) groups(label string, groups []Group) {
	for _, g := range groups {
		p.label(label)
		p.word("", fmt.Sprintf("%d of", g.Min))
		p.quote(" ", show(g.Role, p.limit))
		p.end()
	}
}

// check holds a view to its bounds.
func (v *View) check() error {
	if v == nil {
		return errors.New("there is no view")
	}
	if len(v.Items) > MaxItems {
		return fmt.Errorf("%d actions, more than %d", len(v.Items), MaxItems)
	}
	if len(v.Groups) > MaxList || len(v.Later) > MaxList {
		return fmt.Errorf("%d groups, more than %d", max(len(v.Groups), len(v.Later)), MaxList)
	}
	var b bounds
	b.names(v.Deployment, v.Audience, v.Namespace, v.Workflow, v.Barrier, v.Plan, v.PlanDigest, v.Agent, v.Requester, v.Opened, v.Expires, v.Escalates, v.Checkpoint)
	for _, g := range slices.Concat(v.Groups, v.Later) {
		b.names(g.Role)
	}
	b.list(MaxName, v.Excluded)
	for i := range v.Items {
		it := &v.Items[i]
		b.names(it.Node, it.Path, it.Operation, it.Fingerprint, it.Effect, it.Amount, it.Currency, it.Action, it.Invocation, it.Decision, it.Evidence, it.Permitted)
		b.texts(MaxFree, it.Description, it.Undo)
		b.list(MaxName, it.TaintedPorts)
		if len(it.Prechecks) > MaxList {
			b.fail("a list of %d prechecks, more than %d", len(it.Prechecks), MaxList)
		}
		for _, c := range it.Prechecks {
			b.names(c.Node, c.Output)
		}
		if len(it.Reworded) > MaxList {
			b.fail("a list of %d texts of a tool, more than %d", len(it.Reworded), MaxList)
		}
		for _, r := range it.Reworded {
			b.names(r.Path)
			b.texts(MaxFree, r.Was, r.Is)
		}
		b.list(MaxFree, it.Resources)
		b.list(MaxFree, it.Reasons)
		b.list(MaxFree, it.Undoing)
		b.total += len(it.Inputs)
		if n := len(it.Inputs); n > MaxFree {
			b.fail("inputs of %d bytes, more than %d", n, MaxFree)
		}
		if b.err != nil {
			return fmt.Errorf("action %d: %w", i+1, b.err)
		}
	}
	if b.total > MaxView {
		b.fail("%d bytes in all, more than %d", b.total, MaxView)
	}
	return b.err
}

// bounds adds up strings, and remembers the first bound that is exceeded.
type bounds struct {
	total int
	err   error
}

func (b *bounds) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

func (b *bounds) names(names ...string) { b.texts(MaxName, names...) }

func (b *bounds) texts(most int, texts ...string) {
	for _, s := range texts {
		b.total += len(s)
		if len(s) > most {
			b.fail("a string of %d bytes, more than %d", len(s), most)
		}
	}
}

func (b *bounds) list(most int, texts []string) {
	if len(texts) > MaxList {
		b.fail("a list of %d strings, more than %d", len(texts), MaxList)
	}
	b.texts(most, texts...)
}
