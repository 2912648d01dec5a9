package compiler

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/policy"
)

// certain checks each certain edit of a plan, made alone: its finding goes, and nothing that was
// readable gets lost. It returns the texts that the edits leave.
func certain(t *testing.T, name string, text []byte, cat *catalog.Catalog, pol *policy.Bundle) (after [][]byte) {
	t.Helper()
	_, found := Check(Source{Name: name, Text: text}, cat, pol)
	for _, d := range found {
		if d.Applicability != diag.Certain {
			continue
		}
		made := edited(t, text, d.Edits)
		about := "%s:%d: %s\n%s"
		args := []any{name, d.Subject.Start.Line, d.Summary, d.Edits[0].Replacement}
		_, faults := syntax.Parse(name, made, fields.Limits)
		require.Empty(t, faults, append([]any{about}, args...)...)
		_, left := Check(Source{Name: name, Text: made}, cat, pol)
		require.Less(t, same(left, d), same(found, d), append([]any{about + "\n" + show(left)}, args...)...)
		require.LessOrEqual(t, coded(left, diag.PlanSyntax), coded(found, diag.PlanSyntax), append([]any{about + "\n" + show(left)}, args...)...)
		require.GreaterOrEqual(t, strings.Count(string(made), "??"), strings.Count(string(text), "??"), append([]any{about}, args...)...)
		after = append(after, made)
	}
	return after
}

// coded counts the findings with a code.
func coded(ds diag.Diagnostics, code diag.Code) (n int) {
	for _, d := range ds {
		if d.Code == code {
			n++
		}
	}
	return n
}

// TestCertainEditsAlone: a certain edit of a plan in short forms is right without the others.
func TestCertainEditsAlone(t *testing.T) {
	made := 0
	for glob, cat := range map[string]*catalog.Catalog{"testdata/short/*.yaml": testCatalog(t), "testdata/drafts/plans/*": draftCatalog(t)} {
		files, err := filepath.Glob(glob)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var pol *policy.Bundle
			if strings.Contains(glob, "short") {
				pol = testPolicy(t)
			}
			made += len(certain(t, file, text, cat, pol))
		}
	}
	require.GreaterOrEqual(t, made, 40)
}

// right is a plan in short forms without a mistake.
const right = `apiVersion: chimera/v1
kind: Plan
name: right
version: "1.0.0"
input_schema:
  type: object
  properties: {path: {type: string}, nick: {type: string}, most: {type: integer}, fast: {type: boolean}}
  required: [path, most, fast]
output_schema:
  type: object
  properties: {say: {type: string}, n: {type: integer}, text: {type: string}}
  required: [say, n]
nodes:
  - {id: read, template: text/draft, with: {prompt: "Read ${input.path}"}}
  - {id: read-more, template: text/draft, with: {prompt: "${input.path}"}, after: read, when: "input.fast && input.most > 3"}
  - {id: slow, template: text/draft, otherwise_of: read-more, with: {prompt: "slow ${nodes.read.text}"}}
  - {id: name, template: engine/pass, with: {name: "${input.nick ?? 'friend'}"}}
  - {id: count, template: text/count, with: {text: "${nodes.read-more.text ?? nodes.slow.text}"}}
  - {id: long, template: engine/pass, when: "nodes.count.words > input.most", with: {say: "long"}}
  - {id: short, template: engine/pass, otherwise_of: long, with: {say: "short, ${nodes.name.name}"}}
  - {id: note, template: text/draft, after: [count, name], with: {prompt: "note"}}
  - {id: last, template: engine/pass}
edges:
  - "[count, name] -> last"
  - {edge: "note.$error -> $output.text", transform: "${error.message}"}
output:
  say: "${nodes.long.say ?? nodes.short.say}"
  n: "${nodes.count.words}"
  text: "${nodes.slow.text ?? nodes.read.text}"
`

// mistakes are ways to get it wrong: a text, what stands there, and what is meant by that if it is
// not the text.
var mistakes = [][3]string{
	// Misspelt ids and ports.
	{"${nodes.count.words}", "${nodes.cuont.words}"}, {"${nodes.count.words}", "${nodes.count.wrods}"}, {"${nodes.count.words}", "${nodes.count.word}"},
	{"${nodes.read-more.text ??", "${nodes.read_more.text ??"}, {"${nodes.read-more.text ??", "${nodes.readmore.text ??"}, {"?? nodes.slow.text}\"}}", "?? nodes.slwo.text}\"}}"},
	{"${nodes.slow.text ?? nodes.read.text}", "${nodes.slow.txt ?? nodes.read.text}"}, {"nodes.long.say ??", "nodes.Long.say ??"}, {"?? nodes.short.say", "?? nodes.short.sya"},
	{"otherwise_of: long", "otherwise_of: lnog"}, {"after: read,", "after: raed,"}, {"after: [count, name]", "after: [cuont, name]"}, {"[count, name] ->", "[count, nmae] ->"}, {"-> last", "-> lst"},
	{"input.most > 3", "input.msot > 3"}, {"${input.path}\"}, after", "${input.pth}\"}, after"}, {"${input.nick ??", "${input.nik ??"}, {"note.$error", "note.$eror"}, {"$output.text", "$ouput.text"}, {"$output.text", "output.text"},
	{"with: {text: ", "with: {txt: "}, {"prompt: \"slow", "promt: \"slow"}, {"  say: \"${", "  sya: \"${"}, {"template: text/count", "template: text/cuont"}, {"template: text/count", "template: txt/count"}, {"template: text/count", "template: count"},
	// Fields, and those of other notations.
	{"otherwise_of: long", "otherwise: long"}, {"otherwise_of: long", "else: long"}, {"otherwise_of: long", "otherwise_off: long"}, {"after: read,", "afetr: read,"}, {"after: read,", "depends_on: read,"}, {"after: [count, name]", "needs: [count, name]"},
	{"when: \"nodes", "if: \"nodes"}, {"when: \"nodes", "wehn: \"nodes"}, {"with: {name", "wiht: {name"}, {"with: {name", "inputs: {name"}, {"output:\n", "outputs:\n"}, {"output:\n", "ouput:\n"}, {"transform:", "trasform:"}, {"{edge:", "{egde:"},
	// Operators and functions of other languages.
	{"input.fast && input.most", "input.fast and input.most"}, {"input.fast && input.most", "input.fast AND input.most"}, {"input.fast && input.most", "input.fast & input.most"}, {"input.fast && input.most > 3", "input.fast === true && input.most > 3", "input.fast == true && input.most > 3"},
	{"input.fast &&", "not (not input.fast) and", "!(!input.fast) &&"}, {"input.fast && input.most > 3", "input.fast is True and input.most > 3"}, {"nodes.count.words > input.most", "nodes.count.words gt input.most"}, {"nodes.count.words > input.most", "nodes.count.words => input.most"},
	{"input.nick ?? 'friend'", "input.nick || 'friend'"}, {"input.nick ?? 'friend'", "input.nick or 'friend'"}, {"input.nick ?? 'friend'", "input.nick | default('friend')"}, {"input.nick ?? 'friend'", "input.nick ?: 'friend'"},
	{"${nodes.long.say ?? nodes.short.say}", "${nodes.long.say || nodes.short.say}"}, {"${nodes.long.say ?? nodes.short.say}", "${nodes.long.say or nodes.short.say}"}, {"${nodes.long.say ?? nodes.short.say}", "${coalesce(nodes.long.say, nodes.short.say)}"}, {"${nodes.long.say ?? nodes.short.say}", "${nodes.long?.say ?? nodes.short?.say}"},
	{"${nodes.long.say ?? nodes.short.say}", "${(nodes.long.say ?? nodes.short.say)}"}, {"${nodes.long.say ?? nodes.short.say}", "${nodes.long.say} ?? ${nodes.short.say}"}, {"${nodes.long.say ?? nodes.short.say}", "${nodes.long.say ?? nodes.short.say ?? nodes.long.say}"},
	// Marks.
	{"\"${nodes.count.words}\"", "\"{{ nodes.count.words }}\""}, {"\"${nodes.count.words}\"", "\"{nodes.count.words}\""}, {"\"${nodes.count.words}\"", "\"$nodes.count.words\""}, {"\"${nodes.count.words}\"", "nodes.count.words"}, {"\"${nodes.count.words}\"", "\"${{ nodes.count.words }}\""}, {"\"${nodes.count.words}\"", "\"#{nodes.count.words}\""},
	{"\"${nodes.count.words}\"", "\"<nodes.count.words>\""}, {"\"${nodes.count.words}\"", "\"${count.words}\""}, {"\"${nodes.count.words}\"", "\"${nodes.count.output.words}\""}, {"\"${nodes.count.words}\"", "\"${nodes.count.outputs.words}\""}, {"\"${nodes.count.words}\"", "\"${steps.count.words}\""}, {"\"${nodes.count.words}\"", "\"${nodes.count.result.words}\""},
	{"slow ${nodes.read.text}", "slow {{nodes.read.text}}"}, {"slow ${nodes.read.text}", "slow {{ nodes.read.text | trim }}"}, {"slow ${nodes.read.text}", "slow ${ read.text }", "slow ${ nodes.read.text }"}, {"slow ${nodes.read.text}", "slow {{ read.output.text }}"}, {"Read ${input.path}", "Read {{ input.path }}"}, {"Read ${input.path}", "Read ${inputs.path}"}, {"Read ${input.path}", "Read {{ $json.path }}"},
	{"when: \"nodes.count.words > input.most\"", "when: \"${nodes.count.words > input.most}\""}, {"when: \"nodes.count.words > input.most\"", "when: \"{{ nodes.count.words > input.most }}\""}, {"when: \"nodes.count.words > input.most\"", "when: \"${nodes.count.words} > ${input.most}\""}, {"when: \"nodes.count.words > input.most\"", "when: \"count.words > input.most\""},
	{"${nodes.long.say ?? nodes.short.say}", "{{ nodes.long.say ?? nodes.short.say }}"}, {"${nodes.long.say ?? nodes.short.say}", "{{ nodes.long.say or nodes.short.say }}"}, {"${nodes.long.say ?? nodes.short.say}", "${long.say ?? short.say}"}, {"${nodes.long.say ?? nodes.short.say}", "nodes.long.say ?? nodes.short.say"},
	// Quotes.
	{"n: \"${nodes.count.words}\"", "n: ${nodes.count.words} # words"}, {"'friend'", "friend"}, {"'friend'", "‘friend’"}, {"say: \"long\"", "say: '\"long\"'"}, {"version: \"1.0.0\"", "version: 1.0", "version: \"1.0\""}, {"\"[count, name] -> last\"", "[count, name] -> last"}, {"\"[count, name] -> last\"", "\"[count, name] --> last\""}, {"\"[count, name] -> last\"", "\"[count, name] => last\""},
	{"\"[count, name] -> last\"", "\"count & name -> last\""}, {"\"[count, name] -> last\"", "{from: [count, name], to: last}"}, {"edge: \"note.$error", "edge: \"nodes.note.$error"}, {"edge: \"note.$error", "edge: \"note.error"},
	{"otherwise_of: long", "otherwise_of: \"${nodes.long}\""}, {"after: read,", "after: \"${nodes.read}\","}, {"after: read,", "after: nodes.read,"}, {"after: read,", "after: \"read, name\","},
}

// TestCertainOfOneMistake: where a plan has one mistake and the edit of a finding is certain, it
// leaves the plan that was meant.
func TestCertainOfOneMistake(t *testing.T) {
	cat := testCatalog(t)
	_, findings := said(t, Source{Name: "plan.yaml", Text: []byte(right)}, cat, nil)
	require.Empty(t, findings)
	require.Equal(t, 1, strings.Count(right, "\nkind: Plan\n"))
	made := 0
	for _, m := range mistakes {
		t.Run(m[1], func(t *testing.T) {
			require.Contains(t, right, m[0])
			text := strings.Replace(right, m[0], m[1], 1)
			meant, _ := said(t, Source{Name: "plan.yaml", Text: []byte(strings.Replace(right, m[0], cmp.Or(m[2], m[0]), 1))}, cat, nil)
			require.NotEmpty(t, meant)
			for _, after := range certain(t, "plan.yaml", []byte(text), cat, nil) {
				made++
				got, left := said(t, Source{Name: "plan.yaml", Text: after}, cat, nil)
				require.Equal(t, meant, got, "%s\n%s", after, left)
			}
		})
	}
	require.Greater(t, made, 30)
}

// TestNothingCertainOfRightPlans: there is no certain edit of a plan that is as it should be.
func TestNothingCertainOfRightPlans(t *testing.T) {
	forms, err := os.ReadFile("testdata/short/forms.yaml")
	require.NoError(t, err)
	texts := []string{string(forms), right}
	page, err := os.ReadFile("../docs/cookbook.md")
	require.NoError(t, err)
	cookbook := engineCatalog()
	for _, part := range strings.Split(string(page), "\n```yaml ")[1:] {
		info, body, _ := strings.Cut(part, "\n")
		body, _, _ = strings.Cut(body, "\n```")
		if info == "plan" {
			texts = append(texts, body)
			continue
		}
		if strings.Contains(body, "kind: Catalog") {
			own, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: []byte(body)})
			require.False(t, ds.HasErrors(), show(ds))
			cookbook, ds = cookbook.Merge(own)
			require.Empty(t, ds)
		}
	}
	require.Greater(t, len(texts), 12)
	for i, text := range texts {
		cat := cookbook
		if i < 2 {
			cat = testCatalog(t)
		}
		_, ds := Check(Source{Name: "plan.yaml", Text: []byte(text)}, cat, nil)
		if !strings.Contains(text, "engine/sleep") { // which the tests have elsewhere
			require.False(t, ds.HasErrors(), "%s\n%s", text, show(ds))
		}
		require.False(t, slices.ContainsFunc(ds, func(d diag.Diagnostic) bool { return d.Applicability == diag.Certain }), "%s\n%s", text, show(ds))
	}
}
