package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// dialects are the drafts, with the names that --draft and batches use.
var dialects = []struct{ name, uri string }{
	{"draft4", "http://json-schema.org/draft-04/schema#"},
	{"draft6", "http://json-schema.org/draft-06/schema#"},
	{"draft7", "http://json-schema.org/draft-07/schema#"},
	{"draft2019-09", "https://json-schema.org/draft/2019-09/schema"},
	{"draft2020-12", "https://json-schema.org/draft/2020-12/schema"},
}

// inclusion is the JSON answer for one pair of schemas.
type inclusion struct {
	// OK reports whether every value of the left is one of the right.
	OK      bool            `json:"ok"`
	Verdict string          `json:"verdict"`
	Witness json.RawMessage `json:"witness"`
	// Causes say which parts of the witness the right rejects.
	Causes []cause `json:"causes"`
	// Reason says what stopped the proof.
	Reason string `json:"reason"`
	Micros int64  `json:"micros"`
}

// cause is one reason of the validator; both places are JSON pointers.
type cause struct {
	Instance string `json:"instance"`
	Keyword  string `json:"keyword"`
	Message  string `json:"message"`
}

func containCommand(p *Program, fs *flag.FlagSet) action {
	draft := fs.String("draft", "", "`NAME` of the draft of schemas without $schema: "+strings.Join(draftNames(), ", ")+" (the default)")
	batch := fs.Bool("batch", false, `read lines {"id", "lhs", "rhs", "dialect"} from standard input, and answer each with a line`)
	return func(ctx context.Context, operands []string) error {
		if *draft != "" && draftURI(*draft) == "" {
			return misuse("there is no draft %q", *draft).meant("", *draft, draftNames(), "There are: "+strings.Join(draftNames(), ", ")+".")
		}
		switch {
		case *batch && len(operands) > 0:
			return misuse("--batch reads its schemas from standard input, and does not take %q", operands[0])
		case *batch:
			return p.containBatch(ctx, *draft)
		case len(operands) < 2:
			return misuse("chimera contain needs LHS and RHS, or --batch").
				withHint("A schema is a file, JSON text, or - for standard input.")
		case countOf(operands, "-") > 1:
			return misuse("standard input can be read once")
		}
		var pair [2]*schemas.Schema
		for i, side := range []string{"left", "right"} {
			var err error
			if pair[i], err = p.schemaOperand(side, operands[i], *draft); err != nil {
				return err
			}
		}
		return p.contain(pair[0], pair[1])
	}
}

func draftNames() []string {
	var names []string
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}

// draftURI returns the $schema of a draft, or "" if there is no such draft.
func draftURI(name string) string {
	for _, d := range dialects {
		if d.name == name {
			return d.uri
		}
	}
	return ""
}

// schemaOperand reads and compiles an operand: JSON text, a file or "-". Whatever may
// be a schema is taken as text; a file named true is given as ./true.
func (p *Program) schemaOperand(side, operand, draft string) (*schemas.Schema, error) {
	name, text := "the schema on the "+side, []byte(operand)
	if t := strings.TrimSpace(operand); !strings.HasPrefix(t, "{") && t != "true" && t != "false" {
		src, err := p.read(operand)
		if err != nil {
			return nil, err
		}
		name, text = src.Name, src.Text
	}
	s, err := compileDraft(text, draft)
	if err != nil {
		return nil, misuse("%s: %s", name, err)
	}
	return s, nil
}

// compileDraft compiles a schema; draft applies to a schema without $schema, and ""
// is the validator's default.
func compileDraft(text []byte, draft string) (*schemas.Schema, error) {
	if draft == "" || len(text) > schemas.MaxSchemaBytes {
		return schemas.Compile(text)
	}
	root, err := schemas.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	object, ok := root.(map[string]any)
	if _, says := object["$schema"]; !ok || says {
		return schemas.Compile(text)
	}
	out := fmt.Appendf(nil, `{"$schema":%q`, draftURI(draft))
	if len(object) > 0 {
		out = append(out, ',')
	}
	return schemas.Compile(append(out, text[bytes.IndexByte(text, '{')+1:]...))
}

// proved tries to prove one pair, and returns the answer.
func proved(lhs, rhs *schemas.Schema) inclusion {
	start := time.Now()
	res := containment.Prove(lhs, rhs, containment.Options{})
	answer := inclusion{
		OK: res.Verdict == containment.Proved, Verdict: res.Verdict.String(), Witness: res.JSON,
		Reason: res.Reason, Micros: time.Since(start).Microseconds(), Causes: []cause{},
	}
	if res.Verdict != containment.Refuted {
		return answer
	}
	var invalid *schemas.Invalid
	if errors.As(rhs.Validate(res.Witness), &invalid) {
		for _, c := range invalid.Causes {
			answer.Causes = append(answer.Causes, cause(c))
		}
	}
	return answer
}

func (p *Program) contain(lhs, rhs *schemas.Schema) error {
	answer := proved(lhs, rhs)
	code := exitDone
	switch answer.Verdict {
	case containment.Refuted.String():
		code = exitNegative
	case containment.Unknown.String():
		code = exitUnanswered
	}
	if p.json() {
		if err := p.document(answer); err != nil {
			return err
		}
	} else {
		p.explain(answer)
	}
	if code == exitDone {
		return nil
	}
	return &failure{code: code}
}

// explain prints the answer for people.
func (p *Program) explain(a inclusion) {
	switch a.Verdict {
	case containment.Proved.String():
		p.printf("proved: every value of the left is a value of the right\n")
	case containment.Refuted.String():
		p.printf("refuted: the left takes this value, and the right does not\n\n    %s\n\n", printable(shortened(a.Witness)))
		const shown = 5
		for _, c := range a.Causes[:min(shown, len(a.Causes))] {
			at := "the value"
			if c.Instance != "" {
				at = "at " + c.Instance
			}
			by := c.Keyword
			if by == "" {
				by = "/"
			}
			p.printf("%s: %s (%s of the right)\n", printable(at), printable(c.Message), printable(by))
		}
		if more := len(a.Causes) - shown; more > 0 {
			p.printf("and %s\n", plural(more, "more reason"))
		}
	default:
		p.printf("unknown: it is neither proved nor refuted; what stopped the proof: %s\n", printable(a.Reason))
	}
}

// shortened truncates a long witness for people.
func shortened(witness []byte) string {
	const shown = 2000
	if len(witness) <= shown {
		return string(witness)
	}
	return strings.ToValidUTF8(string(witness[:shown]), "") + fmt.Sprintf("… (%d bytes; --format json gives all)", len(witness))
}

// reasons puts causes on one line.
func reasons(causes []cause) string {
	inv := schemas.Invalid{}
	for _, c := range causes {
		inv.Causes = append(inv.Causes, schemas.Cause(c))
	}
	return inv.Error()
}

// question is one line of a batch.
type question struct {
	id       json.RawMessage
	lhs, rhs json.RawMessage
	dialect  string
}

// reply is the answer to one line of a batch.
type reply struct {
	ID      json.RawMessage `json:"id"`
	Verdict string          `json:"verdict"`
	// Witness is null unless the verdict is refuted.
	Witness json.RawMessage `json:"witness"`
	// Reason says what stopped the proof, or which parts of the witness the right rejects.
	Reason string `json:"reason"`
	Micros int64  `json:"micros"`
}

// parseQuestion parses a line. It returns the id even if the rest is invalid.
func parseQuestion(line []byte) (q question, err error) {
	// Decode refuses what two readers could understand differently.
	if _, err := schemas.Decode(line); err != nil {
		return q, fmt.Errorf("the line: %w", err)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil || fields == nil {
		return q, errors.New("the line is not an object")
	}
	q.id, q.lhs, q.rhs = fields["id"], fields["lhs"], fields["rhs"]
	for _, name := range []string{"lhs", "rhs"} {
		if fields[name] == nil {
			return q, fmt.Errorf("the line has no %s", name)
		}
	}
	if raw, ok := fields["dialect"]; ok && !bytes.Equal(raw, []byte("null")) {
		if json.Unmarshal(raw, &q.dialect) != nil || !slices.Contains(draftNames(), q.dialect) {
			return q, fmt.Errorf("the dialect is not one of %s", strings.Join(draftNames(), ", "))
		}
	}
	return q, nil
}

// answer answers one line; wrong is the error of reading it, or nil.
func answer(line []byte, wrong error, draft string) reply {
	out := reply{Verdict: containment.Unknown.String()}
	if wrong != nil {
		out.Reason = wrong.Error()
		return out
	}
	q, err := parseQuestion(line)
	out.ID = q.id
	if err != nil {
		out.Reason = err.Error()
		return out
	}
	if q.dialect == "" {
		q.dialect = draft
	}
	lhs, err := compileDraft(q.lhs, q.dialect)
	if err != nil {
		out.Reason = "lhs: " + err.Error()
		return out
	}
	rhs, err := compileDraft(q.rhs, q.dialect)
	if err != nil {
		out.Reason = "rhs: " + err.Error()
		return out
	}
	a := proved(lhs, rhs)
	out.Verdict, out.Witness, out.Reason, out.Micros = a.Verdict, a.Witness, a.Reason, a.Micros
	if a.Verdict == containment.Refuted.String() {
		out.Reason = reasons(a.Causes)
	}
	return out
}

// containBatch answers each line of standard input with a line, in order. It also
// answers malformed lines, and goes on.
func (p *Program) containBatch(ctx context.Context, draft string) error {
	p.written = true // lines of JSON are the answer, and no document follows
	rows := make(chan row, 8)
	go rowsOf(ctx, p.Stdin, rows)
	out := bufio.NewWriter(p.Stdout)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for {
		var r row
		select {
		case r = <-rows:
		default:
			// The asker may wait for this answer before sending the next line.
			if err := out.Flush(); err != nil {
				return unanswered("writing an answer: %s", err)
			}
			select {
			case r = <-rows:
			case <-ctx.Done():
				return unanswered("interrupted")
			}
		}
		switch {
		case r.last:
			if err := out.Flush(); err != nil {
				return unanswered("writing an answer: %s", err)
			}
			if r.err != nil {
				return unanswered("reading %s: %s", stdinName, r.err)
			}
			return nil
		case ctx.Err() != nil:
			_ = out.Flush() // the error below says that answers are missing
			return unanswered("interrupted")
		}
		if err := e.Encode(answer(r.text, r.err, draft)); err != nil {
			return unanswered("writing an answer: %s", err)
		}
	}
}
