package display

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
)

// token is a word of the frame, or a string in quotes.
type token struct {
	text   string
	quoted bool
}

// line is a line of a text, its rows joined.
type line struct {
	indent int
	label  string
	tokens []token
}

var (
	rowHead   = regexp.MustCompile(`^( *)(?:([a-z][a-z ]*):( +)|(\$)|(\+ ))`)
	frameOnly = regexp.MustCompile(`^(|chimera approval text, version 2|action [0-9]+ of [0-9]+|end of the approval text|    \.\.\. [0-9]+ of [0-9]+ values? left out \.\.\.)$`)
	// overlong are the rows that may be wider than others: a digest, and what belongs to
	// the row before it or after it anyway.
	overlong = regexp.MustCompile(`^( *[a-z ]+: +|[ $.\["+=]*)"?sha256:[0-9a-f]{64}"?$`)
	labels   = strings.Split("deployment,audience,namespace,workflow,barrier,plan,plan digest,agent,requester,opened,expires,must sign,escalates,then must sign,"+
		"may not sign,checkpoint,actions,action digest,operation,effect,amount,details,node,path,fingerprint,description,"+
		"resource,tainted port,taint decides,precheck,changed words,were,are now,reason,undo,approved undo,invocation,decision,evidence,inputs,question,if executed,if not executed,permitted", ",")
)

// read splits a text into its lines and holds each row to the frame.
func read(t require.TestingT, text string) []line {
	require.True(t, strings.HasSuffix(text, "\n"))
	var out []line
	for row := range strings.Lines(text) {
		row = strings.TrimSuffix(row, "\n")
		columns := 0
		for _, r := range row {
			columns++
			if r < ' ' || r > '~' {
				columns++
				if of, _ := lookup(r); of == 0 {
					require.Fail(t, "a character that a text must not have", "%q in %q", r, row)
				}
			}
		}
		require.False(t, strings.HasSuffix(row, " "), row)
		if columns > width {
			require.Regexp(t, overlong, row)
		}
		if frameOnly.MatchString(row) {
			out = append(out, line{label: strings.TrimSpace(row)})
			continue
		}
		m := rowHead.FindStringSubmatch(row)
		require.NotNil(t, m, "%q is no row of the frame", row)
		rest := row[len(m[0]):]
		switch {
		case m[5] != "":
			require.NotEmpty(t, out)
			l := &out[len(out)-1]
			tokens := split(t, rest)
			if n := len(l.tokens); n > 0 && l.tokens[n-1].quoted && tokens[0].quoted {
				l.tokens[n-1].text += tokens[0].text
				tokens = tokens[1:]
			}
			l.tokens = append(l.tokens, tokens...)
		case m[4] != "":
			require.Len(t, m[1], leafIndent)
			out = append(out, line{indent: leafIndent, label: "$", tokens: split(t, rest)})
		default:
			require.Contains(t, labels, m[2])
			require.Len(t, m[0], column)
			out = append(out, line{indent: len(m[1]), label: m[2], tokens: split(t, rest)})
		}
	}
	return out
}

// split reads the tokens of a row.
func split(t require.TestingT, s string) []token {
	var out []token
	for s != "" {
		switch c := s[0]; {
		case c == ' ':
			s = s[1:]
		case c == '"':
			i := strings.IndexByte(s[1:], '"')
			require.GreaterOrEqual(t, i, 0, s)
			out = append(out, token{unescape(t, s[1:i+1]), true})
			s = s[i+2:]
		case c == '[' || c == ']':
			out = append(out, token{s[:1], false})
			s = s[1:]
		default:
			n := strings.IndexAny(s[1:], ` "[].`) + 1
			if n == 0 || strings.HasPrefix(s, "...") || c != '.' && !strings.ContainsAny(s[:1], "=") && s[n] == '.' {
				if n = strings.IndexAny(s, ` "[]`); n < 0 {
					n = len(s)
				}
			}
			out = append(out, token{s[:n], false})
			s = s[n:]
		}
	}
	require.NotEmpty(t, out)
	return out
}

func unescape(t require.TestingT, s string) string {
	var b strings.Builder
	for s != "" {
		before, rest, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			break
		}
		kind := rest[0]
		require.Equal(t, byte('{'), rest[1])
		hex, rest, found := strings.Cut(rest[2:], "}")
		require.True(t, found)
		n, err := strconv.ParseUint(hex, 16, 32)
		require.NoError(t, err)
		if s = rest; kind == 'x' {
			b.WriteByte(byte(n))
		} else {
			require.Equal(t, byte('u'), kind)
			b.WriteRune(rune(n))
		}
	}
	return b.String()
}

// reader takes the lines of a text one after the other.
type reader struct {
	t     require.TestingT
	lines []line
}

func (r *reader) next(label string) []token {
	require.NotEmpty(r.t, r.lines, "a line %s", label)
	l := r.lines[0]
	require.Equal(r.t, label, l.label)
	r.lines = r.lines[1:]
	return l.tokens
}

func (r *reader) at(label string) bool { return len(r.lines) > 0 && r.lines[0].label == label }

// value takes a value off the front of tokens, and checks it against want.
func (r *reader) value(tokens []token, want string) []token {
	require.NotEmpty(r.t, tokens)
	require.True(r.t, tokens[0].quoted, "%v", tokens)
	got := tokens[0].text
	tokens = tokens[1:]
	var size, left int
	if len(tokens) > 0 && tokens[0].text == "..." {
		require.Equal(r.t, "of bytes left out ...", strings.Join([]string{tokens[2].text, tokens[4].text, tokens[5].text, tokens[6].text, tokens[7].text}, " "))
		_, err := fmt.Sscan(tokens[1].text+" "+tokens[3].text, &left, &size)
		require.NoError(r.t, err)
		tail := tokens[8].text
		require.True(r.t, tokens[8].quoted)
		require.True(r.t, strings.HasPrefix(want, got) && strings.HasSuffix(want, tail))
		require.Equal(r.t, len(want), size)
		require.Equal(r.t, left, size-len(got)-len(tail))
		require.Positive(r.t, left)
		tokens = tokens[9:]
	} else {
		require.Equal(r.t, want, got)
	}
	for open := false; len(tokens) > 0 && (open || strings.HasPrefix(tokens[0].text, "(")); tokens = tokens[1:] {
		require.False(r.t, tokens[0].quoted)
		open = !strings.HasSuffix(tokens[0].text, ")")
	}
	if left > 0 {
		require.Equal(r.t, Digest(want), tokens[0].text)
		tokens = tokens[1:]
	}
	return tokens
}

func (r *reader) none(tokens []token) { require.Equal(r.t, []token{{"none", false}}, tokens) }

func (r *reader) field(label, want string) {
	tokens := r.next(label)
	if want == "" {
		r.none(tokens)
		return
	}
	require.Empty(r.t, r.value(tokens, want))
}

func (r *reader) list(label string, want []string) {
	if len(want) == 0 {
		r.none(r.next(label))
	}
	for _, s := range want {
		require.Empty(r.t, r.value(r.next(label), s))
	}
	require.False(r.t, r.at(label))
}

// words checks the frame's own words of a line.
func (r *reader) words(label string, want ...string) {
	var got []string
	for _, k := range r.next(label) {
		require.False(r.t, k.quoted)
		got = append(got, k.text)
	}
	require.Equal(r.t, want, got)
}

func (r *reader) essence(it *Item) {
	r.field("action digest", it.Action)
	r.field("operation", it.Operation)
	r.field("effect", it.Effect)
	if it.Amount == "" && it.Currency == "" {
		r.words("amount", "unknown")
		return
	}
	rest := r.value(r.next("amount"), it.Amount)
	require.Equal(r.t, token{"in", false}, rest[0])
	require.Empty(r.t, r.value(rest[1:], it.Currency))
}

// verify reads a text back and holds it to the view that it is of.
func verify(t require.TestingT, v *View, text string) {
	r := &reader{t, read(t, text)}
	r.next("chimera approval text, version 2")
	r.field("deployment", v.Deployment)
	r.field("audience", v.Audience)
	r.field("namespace", v.Namespace)
	r.field("workflow", v.Workflow)
	r.field("barrier", v.Barrier)
	r.field("plan", v.Plan)
	r.field("plan digest", v.PlanDigest)
	r.field("agent", v.Agent)
	r.field("requester", v.Requester)
	r.field("opened", v.Opened)
	r.field("expires", v.Expires)
	if len(v.Groups) == 0 {
		r.words("must sign", "none")
	}
	groups := func(label string, list []Group) {
		for _, g := range list {
			tokens := r.next(label)
			require.Equal(t, []token{{strconv.Itoa(g.Min), false}, {"of", false}}, tokens[:2])
			require.Empty(t, r.value(tokens[2:], g.Role))
		}
	}
	groups("must sign", v.Groups)
	if v.Escalates != "" || len(v.Later) > 0 {
		r.field("escalates", v.Escalates)
		groups("then must sign", v.Later)
	}
	r.list("may not sign", v.Excluded)
	r.field("checkpoint", v.Checkpoint)
	r.words("actions", strconv.Itoa(len(v.Items)))
	require.Equal(t, v.Outcome, r.at("question"))
	if v.Outcome {
		for _, label := range []string{"question", "if executed", "if not executed"} {
			for _, k := range r.next(label) {
				require.False(t, k.quoted)
			}
		}
	}
	for i := range v.Items {
		it := &v.Items[i]
		r.next("")
		r.next(fmt.Sprintf("action %d of %d", i+1, len(v.Items)))
		r.essence(it)
		if r.at("details") {
			r.next("details")
			continue
		}
		r.rest(it)
	}
	r.next("")
	r.next("end of the approval text")
	require.Empty(t, r.lines)
}

func (r *reader) rest(it *Item) {
	r.field("node", it.Node)
	r.field("path", it.Path)
	r.field("fingerprint", it.Fingerprint)
	r.field("description", it.Description)
	r.list("resource", it.Resources)
	r.list("tainted port", it.TaintedPorts)
	r.words("taint decides", yes(it.TaintedDecision))
	for _, c := range it.Prechecks {
		rest := r.value(r.next("precheck"), c.Node)
		require.Equal(r.t, token{"returned", false}, rest[0])
		require.Empty(r.t, r.value(rest[1:], c.Output))
	}
	for _, w := range it.Reworded {
		r.field("changed words", w.Path)
		for _, x := range [][2]string{{"were", w.Was}, {"are now", w.Is}} {
			for _, k := range r.lines[0].tokens {
				require.False(r.t, !k.quoted && k.text == "...", "something is left out")
			}
			r.field(x[0], x[1])
		}
	}
	r.list("reason", it.Reasons)
	r.field("undo", it.Undo)
	for _, s := range it.Undoing {
		var said []string
		for _, k := range r.value(r.next("approved undo"), s) {
			require.False(r.t, k.quoted)
			said = append(said, k.text)
		}
		require.Equal(r.t, covered, strings.Join(said, " "))
	}
	r.field("invocation", it.Invocation)
	r.field("decision", it.Decision)
	r.field("evidence", it.Evidence)
	require.Equal(r.t, it.Permitted != "", r.at("permitted"))
	if it.Permitted != "" {
		r.field("permitted", it.Permitted)
	}

	v := decoded(r.t, it.Inputs)
	canonical, err := plan.Canonical(v)
	require.NoError(r.t, err)
	want := leaves(v)
	r.words("inputs", strings.Fields(fmt.Sprintf("%s in %d bytes, %s", count(len(want), "value"), len(canonical), Digest(string(canonical))))...)
	var got [][]token
	gap, left := -1, 0
	for len(r.lines) > 0 && r.lines[0].label != "" {
		if l := r.lines[0]; l.label != "$" {
			require.Negative(r.t, gap)
			gap = len(got)
			var all int
			_, err := fmt.Sscanf(l.label, "... %d of %d value", &left, &all)
			require.NoError(r.t, err)
			require.Equal(r.t, len(want), all)
		} else {
			got = append(got, l.tokens)
		}
		r.lines = r.lines[1:]
	}
	require.Equal(r.t, len(want), left+len(got))
	for i, tokens := range got {
		if gap >= 0 && i >= gap {
			i += left
		}
		r.leaf(tokens, want[i])
	}
}

func (r *reader) leaf(tokens []token, want leaf) {
	var steps []*step
	for s := want.at; s != nil; s = s.up {
		steps = append([]*step{s}, steps...)
	}
	for _, s := range steps {
		if tokens[0].text != "[" {
			require.Equal(r.t, token{"." + s.key, false}, tokens[0])
			require.False(r.t, s.element)
			tokens = tokens[1:]
			continue
		}
		if s.element {
			require.Equal(r.t, token{strconv.Itoa(s.index), false}, tokens[1])
			tokens = tokens[2:]
		} else {
			tokens = r.value(tokens[1:], s.key)
		}
		require.Equal(r.t, token{"]", false}, tokens[0])
		tokens = tokens[1:]
	}
	require.Equal(r.t, token{"=", false}, tokens[0])
	tokens = tokens[1:]
	switch v := want.value.(type) {
	case string:
		require.Empty(r.t, r.value(tokens, v))
	case json.Number:
		if tokens[0].text == "number" {
			require.Empty(r.t, r.value(tokens[1:], string(v)))
			return
		}
		require.Equal(r.t, []token{{string(v), false}}, tokens)
	default:
		raw, err := plan.Canonical(v)
		require.NoError(r.t, err)
		var all string
		for _, k := range tokens {
			require.False(r.t, k.quoted)
			all += k.text
		}
		require.Equal(r.t, string(raw), all)
	}
}

func TestReaderRefusesForgery(t *testing.T) {
	for _, text := range []string{
		"amount:           \"1\"\n  amount of:      \"1\"\n", "chimera approval text, version 2\nhello\n",
		"amount:           \"1\" in \"\u202e\"\n",
	} {
		require.Panics(t, func() { read(panics{}, text) }, text)
	}
}

type panics struct{}

func (panics) Errorf(format string, args ...any) {}
func (panics) FailNow()                          { panic("failed") }
