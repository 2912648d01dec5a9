package compiler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/schemas"
)

// parse gives the first document of a file as decoded JSON.
func parse(t testing.TB, name string, text []byte) any {
	t.Helper()
	docs, ds := syntax.Parse(name, text, fields.Limits)
	require.Empty(t, show(ds))
	require.NotEmpty(t, docs)
	return docs[0].Root.Any()
}

func editor(t testing.TB, name string) *schemas.Schema {
	t.Helper()
	raw, err := os.ReadFile("../schemas/" + name + ".json")
	require.NoError(t, err)
	s, err := schemas.Compile(raw)
	require.NoError(t, err)
	return s
}

// TestEditorAccepts: what compiles is valid for an editor, and so is what only
// an editor cannot know to be wrong.
func TestEditorAccepts(t *testing.T) {
	s := editor(t, "plan")
	files := good(t)
	for _, dir := range []string{"graphs", "later"} {
		more, err := filepath.Glob("testdata/" + dir + "/*.yaml")
		require.NoError(t, err)
		files = append(files, more...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, s.Validate(parse(t, file, text)), file)
	}
	text, err := os.ReadFile("testdata/catalog.yaml")
	require.NoError(t, err)
	require.NoError(t, editor(t, "catalog").Validate(parse(t, "catalog.yaml", text)))
	text, err = os.ReadFile("testdata/policy.yaml")
	require.NoError(t, err)
	require.NoError(t, editor(t, "policy").Validate(parse(t, "policy.yaml", text)))
}

// TestEditorRefuses: every file with an error of shape is refused by an editor
// too.
func TestEditorRefuses(t *testing.T) {
	for _, file := range []string{"top", "missing", "list", "nonodes", "nodes", "edges"} {
		text, err := os.ReadFile("testdata/shape/" + file + ".yaml")
		require.NoError(t, err)
		require.Error(t, editor(t, "plan").Validate(parse(t, file, text)), file)
	}
	text, err := os.ReadFile("testdata/catalogs/errors.yaml")
	require.NoError(t, err)
	require.Error(t, editor(t, "catalog").Validate(parse(t, "errors.yaml", text)))
	text, err = os.ReadFile("testdata/policies/errors.yaml")
	require.NoError(t, err)
	require.Error(t, editor(t, "policy").Validate(parse(t, "errors.yaml", text)))
}

// TestEditorWords: editors and the compiler refuse every word that is not in a
// closed set, and accept every word that is in one.
func TestEditorWords(t *testing.T) {
	const template = `apiVersion: chimera/v1
kind: Plan
name: words
version: "1"
allow: [pure, staged, committing, irreversible]
input_schema: {type: object}
output_schema: {type: object}
nodes:
  - id: a
    provider_type: skill
    provider_name: other
    operation: call
    mode: deter
    effect_class: pure
    input_schema: {type: object}
    output_schema: {type: object}
    timeout_ms: 1000
    retry_policy: {max_retries: 0, on: [timeout]}
    trust_requirement: allow_auto
    priority: low
`
	s := editor(t, "plan")
	for field, set := range map[string][]string{
		"provider_type: skill": fields.ProviderTypes, "mode: deter": fields.Modes, "effect_class: pure": fields.EffectClasses,
		"trust_requirement: allow_auto": fields.TrustStates, "priority: low": lint.Priorities, "on: [timeout]": catalog.Retryable(),
	} {
		name, was, _ := strings.Cut(field, ": ")
		for _, word := range append([]string{"other", "PURE", ""}, set...) {
			now := strings.Replace(was, strings.Trim(was, "[]"), `"`+word+`"`, 1)
			text := strings.Replace(template, field, name+": "+now, 1)
			require.NotEqual(t, was, now)
			_, ds := Compile(Source{Name: "words", Text: []byte(text)}, testCatalog(t), nil)
			refused := false
			for _, d := range ds {
				refused = refused || d.Code == "plan/schema"
			}
			require.Equal(t, refused, s.Validate(parse(t, "words", []byte(text))) != nil, "%s: %s", name, word)
		}
	}
}
