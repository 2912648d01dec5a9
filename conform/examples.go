package conform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// MaxExamples bounds the examples of a file.
const MaxExamples = 1_000

// Example is a call that the suite may make.
type Example struct {
	Tool string
	// Arguments is a JSON object.
	Arguments json.RawMessage
	// ExpectError: the call has to fail.
	ExpectError bool
}

// Examples are those of a file that the server's author keeps: the server's own suite.
type Examples struct {
	Calls []Example
	// Digest is that of the file's bytes, "" if there is no file.
	Digest string
}

// exampleFields is the table of an example.
var exampleFields = &fields.Table{What: "an example", Fields: []fields.Field{
	fields.Required("tool", fields.FormText, "the name of a tool of the server"),
	fields.Optional("arguments", fields.FormMap, "what the tool is called with; an empty map if it is left out"),
	fields.Optional("expect_error", fields.FormBool, "whether the call has to fail"),
}}

// exampleLimits bound a file of examples.
var exampleLimits = syntax.Limits{Bytes: 4 << 20, Depth: 64, Nodes: 200_000, AliasNodes: 100_000}

// ReadExamples reads a file, YAML or JSON: a list of maps with the fields tool, arguments and
// expect_error. Its findings are errors.
func ReadExamples(src diag.Source) (Examples, diag.Diagnostics) {
	rep := fields.NewReader(src)
	sum := sha256.Sum256(src.Text)
	out := Examples{Digest: "sha256:" + hex.EncodeToString(sum[:])}
	root := rep.Single("list of examples", exampleLimits)
	switch {
	case root == nil:
	case root.Kind != syntax.List:
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "the file is not a list of examples",
			Detail: "It is a list of maps such as {tool: read, arguments: {path: a.txt}}.", Subject: fields.Head(root),
		})
	default:
		for _, item := range rep.AtMost(root.Items, MaxExamples, "examples") {
			if e, ok := readExample(rep, item); ok {
				out.Calls = append(out.Calls, e)
			}
		}
	}
	if rep.Found.HasErrors() {
		return Examples{}, rep.Found
	}
	return out, rep.Found
}

func readExample(rep *fields.Reader, v *syntax.Value) (Example, bool) {
	r := rep.Read(v, exampleFields, "")
	name := r.Get("tool")
	if name == nil {
		return Example{}, false
	}
	e := Example{Tool: name.Text, Arguments: json.RawMessage(`{}`), ExpectError: fields.IsTrue(r.Get("expect_error"))}
	if args := r.Get("arguments"); args != nil {
		raw, err := plan.Canonical(args.Any())
		if err != nil {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: "the arguments cannot be written as JSON", Detail: fields.Sentence(err.Error()), Subject: args.Range(),
			})
			return Example{}, false
		}
		e.Arguments = raw
	}
	return e, true
}
