package expr

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReferences(t *testing.T) {
	for _, c := range []struct {
		src  string
		want [][3]string
	}{
		{"nodes.read.text", [][3]string{{"nodes.read.text", "read", "text"}}},
		{"nodes.read", [][3]string{{"nodes.read", "read", ""}}},
		{"nodes.plan-route.eta + 1", [][3]string{{"nodes.plan-route.eta", "plan-route", "eta"}}},
		{`nodes["plan-route"]['a b'].size()`, [][3]string{{`nodes["plan-route"]['a b']`, "plan-route", "a b"}}},
		{"nodes.read.text.size() > nodes.b.n", [][3]string{{"nodes.read.text", "read", "text"}, {"nodes.b.n", "b", "n"}}},
		{"nodes.read.size()", [][3]string{{"nodes.read", "read", ""}}},
		{"nodes.read.?text.orValue('')", [][3]string{{"nodes.read", "read", ""}}},
		{"nodes.read.$error.kind", [][3]string{{"nodes.read.$error", "read", "$error"}}},
		{"nodes", [][3]string{{"nodes", "", ""}}},
		{"input.nodes.x + 'nodes.a.b' + r'\\nodes.a' // nodes.c.d", nil},
		{"input.?nodes.hasValue()", nil},
		{"input.list.map(nodes, nodes.x)", nil},
		{"{'nodes': nodes.a.b}", [][3]string{{"nodes.a.b", "a", "b"}}},
	} {
		var got [][3]string
		for _, r := range References(c.src, "nodes") {
			got = append(got, [3]string{c.src[r.Start:r.End], r.First, r.Second})
			if r.First != "" {
				require.Equal(t, r.First, c.src[r.FirstAt[0]:r.FirstAt[1]])
			}
			if r.Second != "" {
				require.Equal(t, r.Second, c.src[r.SecondAt[0]:r.SecondAt[1]])
			}
		}
		require.Equal(t, c.want, got, c.src)
	}
}

func TestAlternatives(t *testing.T) {
	for _, c := range []struct {
		src   string
		want  []string
		fault Fault
	}{
		{"a ?? b ?? 'c ?? d'", []string{"a ", " b ", " 'c ?? d'"}, SoundAlternatives},
		{"a", []string{"a"}, SoundAlternatives},
		{"f(a ?? b)", []string{"f(a ?? b)"}, NestedAlternatives},
		{"a[?0].x", []string{"a[?0].x"}, SoundAlternatives},
		{"a.?x.orValue(1) ?? b", []string{"a.?x.orValue(1) ", " b"}, SoundAlternatives},
		{"a ?? b > 3 ? 1 : 2", []string{"a ", " b > 3 ? 1 : 2"}, MixedAlternatives},
		{"a ?? b || c", []string{"a ", " b || c"}, MixedAlternatives},
		{"a ?? (b ? 1 : 2)", []string{"a ", " (b ? 1 : 2)"}, SoundAlternatives},
		{"x ? 1 : 2", []string{"x ? 1 : 2"}, SoundAlternatives},
		{`r"\" ?? """a ?? "b" ?? c""" ?? b'?? \'' // ?? d`, []string{`r"\" `, ` """a ?? "b" ?? c""" `, ` b'?? \'' // ?? d`}, SoundAlternatives},
		{"a.`b ?? c` ?? d", []string{"a.`b ?? c` ", " d"}, SoundAlternatives},
		{"a ?? 'b", []string{"a ", " 'b"}, SoundAlternatives},
	} {
		parts, fault := Alternatives(c.src)
		var got []string
		for _, p := range parts {
			got = append(got, c.src[p[0]:p[1]])
		}
		require.Equal(t, c.want, got, c.src)
		require.Equal(t, c.fault, fault, c.src)
	}
}

func TestReplaced(t *testing.T) {
	names := map[string]string{"value": "nodes.a.x", "value.b_y": "nodes.b.y"}
	for src, want := range map[string]string{
		"value == 3":              "nodes.a.x == 3",
		"value.b_y + value.z":     "nodes.b.y + nodes.a.x.z",
		"value.b_y.c":             "nodes.b.y.c",
		"input.value + 'value'":   "input.value + 'value'",
		"size(value) > value.b_y": "size(nodes.a.x) > nodes.b.y",
	} {
		require.Equal(t, want, Replaced(src, names))
	}
}

// wordsAt cuts places out of a source.
func wordsAt(src string, places [][2]int) []string {
	var out []string
	for _, at := range places {
		out = append(out, src[at[0]:at[1]])
	}
	return out
}

// TestReferencesByQuotes: a member in quotes is taken as it stands, if nothing in it is escaped
// and nothing else stands in the brackets.
func TestReferencesByQuotes(t *testing.T) {
	for src, want := range map[string][3]string{
		`nodes['a b']["c"]`:        {`nodes['a b']["c"]`, "a b", "c"},
		`nodes["it's"].x`:          {`nodes["it's"].x`, "it's", "x"},
		`nodes.a['b-c']`:           {`nodes.a['b-c']`, "a", "b-c"},
		`nodes.a['b'][0]`:          {`nodes.a['b']`, "a", "b"},
		`nodes['a'](1)`:            {`nodes['a']`, "a", ""},
		`nodes['a\'b'].x`:          {"nodes", "", ""},
		`nodes[r'a'].x`:            {"nodes", "", ""},
		`nodes[''].x`:              {"nodes", "", ""},
		`nodes["""a"""].x`:         {"nodes", "", ""},
		`nodes['a' ].x`:            {"nodes", "", ""},
		`nodes['a' + 'b']`:         {"nodes", "", ""},
		`nodes[?'a']`:              {"nodes", "", ""},
		"nodes.`a`.b":              {"nodes", "", ""},
		`nodes.a['']`:              {"nodes.a", "a", ""},
		`nodes.a[0]`:               {"nodes.a", "a", ""},
		`'nodes.x' + nodes['a'].b`: {`nodes['a'].b`, "a", "b"},
	} {
		found := References(src, "nodes")
		require.Len(t, found, 1, src)
		r := found[0]
		require.Equal(t, want, [3]string{src[r.Start:r.End], r.First, r.Second}, src)
		require.Equal(t, r.First, src[r.FirstAt[0]:r.FirstAt[1]], src)
		require.Equal(t, r.Second, src[r.SecondAt[0]:r.SecondAt[1]], src)
	}
}

// TestReferencesWithHyphens: the first member is an id and may have hyphens. A difference needs
// blanks, and the second member has none.
func TestReferencesWithHyphens(t *testing.T) {
	for src, want := range map[string][]string{
		"nodes.a-b.c":           {"nodes.a-b.c"},
		"nodes.a-b-2":           {"nodes.a-b-2"},
		"nodes.a--b.c":          {"nodes.a--b.c"},
		"nodes.a - nodes.b":     {"nodes.a", "nodes.b"},
		"nodes.a.x-nodes.b.x":   {"nodes.a.x", "nodes.b.x"},
		"nodes.a-nodes.b.c":     {"nodes.a-nodes.b"}, // an id with the word in it
		"nodes.a.b-1":           {"nodes.a.b"},
		"nodes.a -1":            {"nodes.a"},
		"nodes.a-b(1)":          {"nodes"},
		"nodes.a-b.size()":      {"nodes.a-b"},
		"-nodes.a-b.c":          {"nodes.a-b.c"},
		"nodes['a-b'].c":        {"nodes['a-b'].c"},
		"nodes.a-b.c ?? nodes.": {"nodes.a-b.c", "nodes"},
	} {
		var got []string
		for _, r := range References(src, "nodes") {
			got = append(got, src[r.Start:r.End])
		}
		require.Equal(t, want, got, src)
	}
}

// TestReferencesBound: where a macro binds the name, whatever stands between, the expression
// selects nothing from it.
func TestReferencesBound(t *testing.T) {
	for _, src := range []string{
		"input.list.map(nodes, nodes.x)", "nodes.a.b + input.list.exists(nodes, true)", "input.list.all( nodes , nodes.x)",
		"input.list.map(// nodes.a\nnodes // nodes.b,\n, nodes.c)", "input.a.map(x, x.map(nodes, nodes.y))",
	} {
		require.Empty(t, References(src, "nodes"), src)
	}
	for _, src := range []string{"f(nodes.a, 1)", "f((nodes), 1)", "[nodes, 1]", "f(1, nodes)", "f('nodes', nodes.a)", "f(// nodes,\n1, nodes)"} {
		require.Len(t, References(src, "nodes"), 1, src)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		src         string
		names, free []string
	}{
		{"a.b + c", []string{"a", "c"}, []string{"a"}},
		{"x + x", []string{"x", "x"}, []string{"x", "x"}},
		{"input.list.map(x, x + y)", []string{"input", "y"}, []string{"x", "x"}},
		{"input.list.map( // x, y\n x // z\n , x + y)", []string{"input", "y"}, []string{"x", "x"}},
		{"x.map(a, b.map(c, a + c + d))", []string{"x", "b", "d"}, []string{"x", "a", "a"}},
		{"x + input.list.map(x, 1)", []string{"input"}, []string{"x", "x"}},
		{"a . b // c\n. d", []string{"a"}, []string{"a"}},
		{"a.?b[c].d ? e : a.?x", []string{"a", "c", "e", "a"}, []string{"a", "a"}},
		{"a?.b", []string{"a"}, []string{"a"}},
		{"{'x': a, x: 1}", []string{"a", "x"}, []string{"a", "x"}},
		{`'x' + "a" + r'x' + b"a" + """x""" + '\'a'`, nil, nil},
		{"1e5 + 0xa + 3u", nil, nil},
		{"a.`x y`.x", []string{"a"}, []string{"a"}},
		{"a // x", []string{"a"}, []string{"a"}},
		{"size(a) > x", []string{"size", "a", "x"}, []string{"a", "x"}},
		{"xa + a_x + _", []string{"xa", "a_x", "_"}, nil},
		{"(x) + [x, a]", []string{"x", "x", "a"}, []string{"x", "x", "a"}},
		{"a + 'x", []string{"a"}, []string{"a"}},
		{"", nil, nil},
	} {
		require.Equal(t, c.names, wordsAt(c.src, Names(c.src)), c.src)
		require.Equal(t, c.free, wordsAt(c.src, Free(c.src, "x", "a")), c.src)
	}
	require.Empty(t, Free("a + b"))
}

func TestSegments(t *testing.T) {
	for _, c := range []struct {
		text string
		// want has expressions in angle brackets.
		want []string
	}{
		{"", nil},
		{"a", []string{"a"}},
		{"$ {a}$", []string{"$ {a}$"}},
		{"${a}", []string{"<a>"}},
		{"${a}${ b }", []string{"<a>", "< b >"}},
		{"é${ü}é", []string{"é", "<ü>", "é"}},
		{"$${x}", []string{"$${x}"}},
		{"a $${b} ${c} $${", []string{"a $${b} ", "<c>", " $${"}},
		{"$${${a}$${b}}", []string{"$${", "<a>", "$${b}}"}},
		{"$$${a}", []string{"$$${a}"}},
		{"${ {'a': 1}.a } b", []string{"< {'a': 1}.a >", " b"}},
		{"${'}' + \"${\"}", []string{"<'}' + \"${\">"}},
		{"${a // }\n}", []string{"<a // }\n>"}},
	} {
		segments, ok := Segments(c.text)
		require.True(t, ok, c.text)
		var got []string
		at := 0
		for _, s := range segments {
			part := c.text[s.Start:s.End]
			if s.Expression {
				require.Equal(t, at+len("${"), s.Start, c.text)
				part, at = "<"+part+">", s.End+len("}")
			} else {
				require.Equal(t, at, s.Start, c.text)
				at = s.End
			}
			got = append(got, part)
		}
		require.Equal(t, c.want, got, c.text)
		require.Equal(t, len(c.text), at, "the segments cover the text")
	}
	for _, text := range []string{"${a", "${}", "a ${ } b", "${'a}", "${a // }"} {
		segments, ok := Segments(text)
		require.False(t, ok, text)
		require.Empty(t, segments, text)
	}
}

// TestInMessage: a message has names of the expression, and the same words of the language.
func TestInMessage(t *testing.T) {
	names := map[string]string{"value": "nodes.a.x", "value.b": "nodes.b.y", "value['c d']": "nodes.c"}
	for message, want := range map[string]string{
		"`value` is a string":                 "`nodes.a.x` is a string",
		"the value is 3, and no value is":     "the value is 3, and no value is",
		"found value.b, not value.c":          "found nodes.b.y, not nodes.a.x.c",
		"value.b() has no overload":           "nodes.a.x.b() has no overload",
		"`value['c d'].e` may be absent":      "`nodes.c.e` may be absent",
		"input.value and input.?value":        "input.value and input.?value",
		"each value, value":                   "each value, nodes.a.x",
		"it is value.":                        "it is nodes.a.x.",
		"values, avalue and value_1 are none": "values, avalue and value_1 are none",
		"value":                               "nodes.a.x",
		"":                                    "",
	} {
		require.Equal(t, want, InMessage(message, names))
	}
	require.Equal(t, "value", InMessage("value", nil))
}

func TestReplacedPlaces(t *testing.T) {
	names := map[string]string{"value": "nodes.a-b.x", "value['c d']": "nodes.c", "output": "nodes.a-b"}
	for src, want := range map[string]string{
		"value['c d'].e + value.e":                      "nodes.c.e + nodes.a-b.x.e",
		`value["c d"]`:                                  `nodes.a-b.x["c d"]`,
		"// value\nvalue // value":                      "// value\nnodes.a-b.x // value",
		"values + xvalue + value_1":                     "values + xvalue + value_1",
		"a.?value + a.value + a.`value`":                "a.?value + a.value + a.`value`",
		"value.?b.orValue(output.c)":                    "nodes.a-b.x.?b.orValue(nodes.a-b.c)",
		"r'value' + \"value\" + {'value': value}.value": "r'value' + \"value\" + {'value': nodes.a-b.x}.value",
		"": "",
	} {
		require.Equal(t, want, Replaced(src, names))
	}
	require.Equal(t, "value + 1", Replaced("value + 1", nil))
}
