package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/plan"
)

// byHand is a catalog as people write it.
const byHand = `# Tools of the notes server.
#   reviewed by ada

apiVersion: chimera/v1
kind: Catalog # of tools
templates:
  # Reads one note.
  - provider_type: mcp   # not a skill
    provider_name: notes
    operation: read

    mode: deter
    effect_class: pure # ada: checked the source
    status: allow_auto   # agreed
    retry_policy: {max_retries: 1} # flaky
    open_world: false
    # as it was in March
    definition: # do not touch
      name: read
      description: reads a note
      inputSchema: {type: object}
  # Writes one.
  - {provider_type: mcp, provider_name: notes, operation: write, mode: deter, effect_class: irreversible, status: block,
     definition: {name: write, inputSchema: {type: object}}} # in braces
  -   operation: 'look'
      provider_name: "notes"
      provider_type: mcp
      definition:
          inputSchema:
              type: object
          name: look   # the end of it
      mode: deter
      effect_class: pure
      status: manual_review
  # TODO: more
adapters: []
# the end
`

func parsed(t require.TestingT, text string) *catalog.Catalog {
	c, ds := compiler.ParseCatalog(compiler.Source{Name: "x.yaml", Text: []byte(text)})
	require.False(t, ds.HasErrors(), "%v\n%s", ds, text)
	return c
}

// changed is what an import makes of a template: another definition, and what change does.
func changed(t require.TestingT, text, name, definition string, change func(*catalog.Template)) catalog.Entry {
	for _, x := range parsed(t, text).Templates {
		if x.Name() != name {
			continue
		}
		was, err := x.Facts()
		require.NoError(t, err)
		if definition != "" {
			x.Definition = json.RawMessage(definition)
		}
		if change != nil {
			change(&x)
		}
		e := entry(t, &x)
		e.Was = was
		return e
	}
	require.Fail(t, "no "+name)
	return catalog.Entry{}
}

func fresh(t require.TestingT, name string) catalog.Entry {
	return entry(t, &catalog.Template{ProviderType: plan.MCP, Provider: "notes", Operation: name, Mode: plan.Deter, Effect: plan.Pure, Status: plan.AllowAuto,
		Definition: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)})
}

// stated are the facts of an entry but those of its definition.
func stated(t require.TestingT, e catalog.Entry) (facts map[string]any) {
	require.NoError(t, json.Unmarshal(e.Facts, &facts))
	delete(facts, "input_schema")
	delete(facts, "output_schema")
	return facts
}

// diff are the lines that two texts do not have in common, in order.
func diff(a, b string) (lines []string) {
	old, new := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	for len(old) > 0 || len(new) > 0 {
		switch i := index(new, old); {
		case len(old) == 0 || i > 0:
			if i < 0 {
				i = len(new)
			}
			for _, line := range new[:i] {
				lines = append(lines, "+"+line)
			}
			new = new[i:]
		case i < 0:
			lines, old = append(lines, "-"+old[0]), old[1:]
		default:
			old, new = old[1:], new[1:]
		}
	}
	return lines
}

// index is where the first of some lines stands in others, or -1.
func index(in, lines []string) int {
	if len(lines) > 0 {
		for i, line := range in {
			if line == lines[0] {
				return i
			}
		}
	}
	return -1
}

// TestUpdate: what changes of a tool is written where it stands, and all else stays to the byte.
func TestUpdate(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		entries []catalog.Entry
		want    []string
	}{
		"a status": {[]catalog.Entry{changed(t, byHand, "notes/read", "", func(x *catalog.Template) { x.Status, x.Effect = plan.ManualReview, plan.Irreversible })}, []string{
			"-    effect_class: pure # ada: checked the source\n", "+    effect_class: irreversible # ada: checked the source\n",
			"-    status: allow_auto   # agreed\n", "+    status: manual_review   # agreed\n",
		}},
		"a definition": {[]catalog.Entry{changed(t, byHand, "notes/read", `{"name":"read","description":"reads: all","inputSchema":{"type":"object"}}`, nil)}, []string{
			"-      description: reads a note\n", "-      inputSchema: {type: object}\n",
			"+      description: \"reads: all\"\n", "+      inputSchema:\n", "+        type: object\n",
		}},
		"what was not said": {[]catalog.Entry{changed(t, byHand, "notes/read", "", func(x *catalog.Template) { x.Instructions, x.Endpoints = digest, []string{digest} })}, []string{
			"+    endpoints:\n", "+      - \"" + digest + "\"\n", "+    instructions: \"" + digest + "\"\n",
		}},
		"another indent": {[]catalog.Entry{changed(t, byHand, "notes/look", `{"name":"look","inputSchema":{"type":"object"},"title":"x"}`, func(x *catalog.Template) { x.Instructions = digest })}, []string{
			"-          inputSchema:\n", "-              type: object\n", "-          name: look   # the end of it\n",
			"+        inputSchema:\n", "+          type: object\n", "+        name: look\n", "+        title: x   # the end of it\n",
			"+      instructions: \"" + digest + "\"\n",
		}},
		"a new one": {[]catalog.Entry{fresh(t, "more")}, []string{
			"+  - provider_type: mcp\n", "+    provider_name: notes\n", "+    operation: more\n", "+    mode: deter\n", "+    effect_class: pure\n",
			"+    status: allow_auto\n", "+    open_world: false\n", "+    definition:\n", "+      inputSchema:\n", "+        type: object\n", "+      name: more\n",
		}},
		"nothing": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, end := range []string{"\n", "\r\n"} {
				before := strings.ReplaceAll(byHand, "\n", end)
				text, err := catalog.Update([]byte(before), c.entries)
				require.NoError(t, err)
				after := strings.ReplaceAll(string(text), "\r\n", "\n")
				require.Equal(t, strings.ReplaceAll(after, "\n", end), string(text))
				require.ElementsMatch(t, c.want, diff(byHand, after), after)
				for _, e := range c.entries {
					back := changed(t, string(text), e.Operation, "", nil)
					require.Equal(t, stated(t, e), stated(t, back))
					require.JSONEq(t, string(e.Definition), string(back.Definition))
					require.Equal(t, e.Status, back.Status)
				}
			}
		})
	}
}

// TestUpdateAlways: one tool that changed, one that is new, comments that are not there yet.
func TestUpdateAlways(t *testing.T) {
	e := changed(t, byHand, "notes/read", `{"name":"read","inputSchema":{"type":"object"}}`, nil)
	e.Comment = "Reads one note.\nIt has changed."
	more := fresh(t, "more")
	more.Comment = "By its name it only reads."
	once, err := catalog.Update([]byte(byHand), []catalog.Entry{e, more})
	require.NoError(t, err)
	for line := range strings.Lines(byHand) {
		if i := strings.IndexByte(line, '#'); i >= 0 {
			require.Contains(t, string(once), line[i:])
		}
	}
	require.Equal(t, 1, strings.Count(string(once), "# Reads one note."))
	require.Contains(t, string(once), "  # It has changed.\n  - provider_type: mcp   # not a skill\n")
	require.Contains(t, string(once), "# By its name it only reads.\n  - provider_type: mcp\n")
	twice, err := catalog.Update(once, []catalog.Entry{e})
	require.NoError(t, err)
	require.Equal(t, string(once), string(twice))
}

func TestUpdateEmpty(t *testing.T) {
	for _, list := range []string{"templates: []", "templates:", "templates: [] # none\nadapters: []", "templates:\n# none yet\nadapters: []"} {
		for _, end := range []string{"", "\n", "\n\n# end\n"} {
			text, err := catalog.Update([]byte("apiVersion: chimera/v1\nkind: Catalog\n"+list+end), []catalog.Entry{fresh(t, "a"), fresh(t, "b")})
			require.NoError(t, err)
			require.Len(t, parsed(t, string(text)).Templates, 2, "%s", text)
			require.Equal(t, strings.Count(list+end, "#"), strings.Count(string(text), "#"))
		}
	}
}

func TestUpdateRefuses(t *testing.T) {
	braces := changed(t, byHand, "notes/write", "", func(x *catalog.Template) { x.Status = plan.AllowAuto })
	for text, want := range map[string]string{
		"":                      "not one YAML document",
		"a: 1\n---\nb: 2\n":     "not one YAML document",
		"a: [":                  "not one YAML document",
		"kind: Catalog\n":       "no list of templates",
		"templates: {}\n":       "no list of templates",
		"templates: [{a: 1}]\n": "in brackets",
		byHand:                  "notes/write: it does not stand in lines of its own",
	} {
		_, err := catalog.Update([]byte(text), []catalog.Entry{braces})
		require.ErrorContains(t, err, want, text)
	}
}

// TestUpdateGenerated: a file that was written is updated to what would have been written.
func TestUpdateGenerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c"}
		var entries []catalog.Entry
		for _, name := range names {
			entries = append(entries, fresh(t, name))
		}
		text, err := catalog.Write(entries)
		require.NoError(t, err)
		i := rapid.IntRange(0, 2).Draw(t, "which")
		definition := strings.Replace(hostile, `"name":"t"`, `"name":"`+names[i]+`"`, 1)
		e := changed(t, string(text), "notes/"+names[i], definition, func(x *catalog.Template) {
			x.Status = rapid.SampledFrom([]plan.Trust{plan.AllowAuto, plan.ManualReview, plan.Block}).Draw(t, "status")
			x.Effect = rapid.SampledFrom([]plan.EffectClass{plan.Pure, plan.Irreversible}).Draw(t, "effect")
			x.OpenWorld = rapid.Bool().Draw(t, "open")
			x.TimeoutMS = rapid.Int64Range(0, 3).Draw(t, "timeout")
		})
		entries[i] = e
		entries = append(entries, fresh(t, "d"))
		got, err := catalog.Update(text, []catalog.Entry{e, entries[3]})
		require.NoError(t, err)
		want, err := catalog.Write(entries)
		require.NoError(t, err)
		a, b := parsed(t, string(want)), parsed(t, string(got))
		for i := range a.Templates {
			require.Equal(t, entry(t, &a.Templates[i]), entry(t, &b.Templates[i]))
		}
	})
}
