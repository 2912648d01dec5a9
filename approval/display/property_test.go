package display

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/plan"
)

// fragments are what hostile strings are made of.
var fragments = []string{
	"\n", "\r", "\t", " ", "  ", `"`, `\`, `\u{22}`, `\x{0A}`, "\x00", "\x1b[2K", "\xff", "\xe2\x80", "\ufffd",
	"amount:         \"1.00\" in \"EUR\"", "\n  effect:         \"pure\"", "\n\naction 2 of 2\n", "\nend of the approval text\n",
	"+ ", `" + "`, "$.amount = 1", " = ", `"] = "`, "]", "[0]", ".a", "none", "unknown", "(Latin)", `"  (Cyrillic)`,
	`" ... 10 of 500 bytes left out ... "`, "sha256:", strings.Repeat("a", 64), "number ",
	"\u202e", "\u2066", "\u200b", "\u200d", "\u2028", "\u00a0", "\u3000", "\u05d0", "\u0661", "\ufe0f", "\U000e0041", "\U0001f600",
	"a", "Z", "7", "pay", "\u0430", "\u0440\u0443", "ж", "счёт", "ο", "πλη", "é", "ı", "\u0301", "\u0338", "क", "्", "ि", "ก", "้", "支", "払う", "데", "カ", "ー",
	"e\u0301", "\uff21", strings.Repeat("x", 90), strings.Repeat("\u0436", 70), strings.Repeat(" ", 50),
}

func hostileString() *rapid.Generator[string] {
	part := rapid.OneOf(rapid.SampledFrom(fragments), rapid.SampledFrom(fragments), rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }))
	return rapid.Map(rapid.SliceOfN(part, 0, 14), func(parts []string) string { return clip(strings.Join(parts, "")) })
}

func clip(s string) string { return s[:min(len(s), MaxName)] }

// hostileJSON draws the decoded values of JSON texts.
func hostileJSON(depth int) *rapid.Generator[any] {
	text := rapid.Map(hostileString(), func(s string) string { return strings.ToValidUTF8(s, "?") })
	scalar := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.SampledFrom([]string{"0", "-1.50", "1e5", "1E+05", strings.Repeat("8", 61), strings.Repeat("9", 500)}), func(s string) any { return json.Number(s) }),
		rapid.SampledFrom([]any{nil, true, false, map[string]any{}, []any{}}),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return hostileJSON(depth - 1) }), 0, 4), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(text, rapid.Deferred(func() *rapid.Generator[any] { return hostileJSON(depth - 1) }), 0, 4), func(m map[string]any) any { return m }),
	)
}

func hostileView() *rapid.Generator[*View] {
	s := hostileString()
	list := rapid.SliceOfN(s, 0, 3)
	return rapid.Custom(func(t *rapid.T) *View {
		v := &View{Excluded: list.Draw(t, "excluded"), Outcome: rapid.Bool().Draw(t, "outcome")}
		for _, p := range names(v) {
			*p = s.Draw(t, "name")
		}
		for range rapid.IntRange(0, 2).Draw(t, "groups") {
			v.Groups = append(v.Groups, Group{s.Draw(t, "role"), rapid.Int().Draw(t, "min")})
		}
		for range rapid.IntRange(0, 2).Draw(t, "later groups") {
			v.Later = append(v.Later, Group{s.Draw(t, "role"), rapid.Int().Draw(t, "min")})
			v.Escalates = s.Draw(t, "escalates")
		}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			it := Item{
				Description: s.Draw(t, "description"), Undo: s.Draw(t, "undo"),
				Resources: list.Draw(t, "resources"), TaintedPorts: list.Draw(t, "ports"), Reasons: list.Draw(t, "reasons"), Undoing: list.Draw(t, "undoing"),
				TaintedDecision: rapid.Bool().Draw(t, "decides"),
			}
			for range rapid.IntRange(0, 2).Draw(t, "prechecks") {
				it.Prechecks = append(it.Prechecks, Precheck{s.Draw(t, "node"), s.Draw(t, "output")})
			}
			for range rapid.IntRange(0, 2).Draw(t, "rewordings") {
				it.Reworded = append(it.Reworded, Rewording{s.Draw(t, "path"), s.Draw(t, "was"), s.Draw(t, "is")})
			}
			for _, p := range itemNames(&it) {
				*p = s.Draw(t, "name")
			}
			raw, err := plan.Canonical(hostileJSON(3).Draw(t, "inputs"))
			require.NoError(t, err)
			it.Inputs = raw
			v.Items = append(v.Items, it)
		}
		return v
	})
}

// TestReadBack holds that the frame is never imitated: whatever the values, a reader who
// knows the frame finds exactly them.
func TestReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := hostileView().Draw(t, "view")
		text := mustText(t, v)
		require.True(t, utf8.ValidString(text))
		verify(t, v, text)
		require.Equal(t, text, mustText(t, v))
	})
}

// TestInjective holds that a view with one other value has another text.
func TestInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := hostileView().Draw(t, "view")
		before := mustText(t, v)
		fields := names(v)
		for i := range v.Items {
			it := &v.Items[i]
			fields = append(append(fields, itemNames(it)...), &it.Description, &it.Undo)
			for k := range it.Prechecks {
				fields = append(fields, &it.Prechecks[k].Node, &it.Prechecks[k].Output)
			}
			for k := range it.Reworded {
				fields = append(fields, &it.Reworded[k].Path, &it.Reworded[k].Was, &it.Reworded[k].Is)
			}
			for _, l := range [][]string{it.Resources, it.TaintedPorts, it.Reasons, it.Undoing} {
				for k := range l {
					fields = append(fields, &l[k])
				}
			}
		}
		f := rapid.SampledFrom(fields).Draw(t, "field")
		old := *f
		*f = alter(t, old)
		if *f != old {
			require.NotEqual(t, before, mustText(t, v), "%q and %q", old, *f)
		}
		*f = old
		if len(v.Items) > 0 {
			it := &v.Items[rapid.IntRange(0, len(v.Items)-1).Draw(t, "item")]
			old := it.Inputs
			raw, err := plan.Canonical(hostileJSON(3).Draw(t, "other"))
			require.NoError(t, err)
			if it.Inputs = raw; string(raw) != string(old) {
				require.NotEqual(t, before, mustText(t, v))
			}
			it.Inputs = old
			it.TaintedDecision = !it.TaintedDecision
			require.NotEqual(t, before, mustText(t, v))
			it.TaintedDecision = !it.TaintedDecision
			v.Outcome = !v.Outcome
			require.NotEqual(t, before, mustText(t, v))
			v.Outcome = !v.Outcome
			it.Reasons = append(slices.Clone(it.Reasons), hostileString().Draw(t, "reason"))
			require.NotEqual(t, before, mustText(t, v))
		}
	})
}

// alter changes a string a little.
func alter(t *rapid.T, s string) string {
	i := rapid.IntRange(0, len(s)).Draw(t, "at")
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		return clip(s[:i] + rapid.SampledFrom(fragments).Draw(t, "in") + s[i:])
	case 1:
		return s[:i]
	case 2:
		return quoted(clip(s))[:min(len(quoted(clip(s))), MaxName)]
	}
	return hostileString().Draw(t, "another")
}

func FuzzText(f *testing.F) {
	for _, s := range fragments {
		raw, err := json.Marshal(map[string]any{s: []string{s}})
		require.NoError(f, err)
		f.Add(s, raw)
	}
	f.Add(strings.Repeat("long ", 200), []byte(`[1,{"a":[]},"\u202e",1e400]`))
	f.Add("\u0430\u0440\u0440\u04cf\u0435", []byte(`{"a":{"b c":{"\n":null}}}`))
	f.Fuzz(func(t *testing.T, s string, raw []byte) {
		v := crowdOf(1, 2, clip(s))
		it := &v.Items[0]
		it.Description, it.Inputs = s, raw
		if _, err := Text(v); err != nil {
			it.Inputs = []byte("{}")
		}
		if len(s) > MaxFree {
			return
		}
		verify(t, v, mustText(t, v))
		// Another digest means that some value is another.
		w := crowdOf(1, 2, clip(s))
		w.Items[0].Description, w.Items[0].Inputs = s+"\u200b", it.Inputs
		if len(s) < MaxFree-3 {
			require.NotEqual(t, Digest(mustText(t, v)), Digest(mustText(t, w)))
		}
	})
}
