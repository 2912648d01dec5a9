package display

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// quoted is a string as a text shows it, on one row.
func quoted(s string) string {
	p := page{limit: shownLimit, col: -1 << 20, bare: true}
	p.quote("", show(s, shownLimit))
	return p.b.String()
}

func TestQuote(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", `""`},
		{"ASCII", `Pay 10 EUR <to> 'Ann' & Co. {a} $x`, `"Pay 10 EUR <to> 'Ann' & Co. {a} $x"`},
		{"quote and backslash", `a"b\c`, `"a\u{22}b\u{5C}c"`},
		{"an escape in words", `\u{41}`, `"\u{5C}u{41}"`},
		{"controls", "a\x00\t\r\n\x1b[31m\x7f", `"a\u{0}\u{9}\u{D}\u{A}\u{1B}[31m\u{7F}"`},
		{"C1 controls", "\u0085\u009b31m", `"\u{85}\u{9B}31m"`},
		{"spaces", " a  b ", `"\u{20}a \u{20}b\u{20}"`},
		{"one space", " ", `"\u{20}"`},
		{"spaces that are not ASCII", "a\u00a0b\u2003c\u3000d\u2028e\u2800f", `"a\u{A0}b\u{2003}c\u{3000}d\u{2028}e\u{2800}f"`},
		{"bytes that are not UTF-8", "a\xff\xc3(\xed\xa0\x80", `"a\x{FF}\x{C3}(\x{ED}\x{A0}\x{80}"`},
		{"the replacement character", "\ufffd", `"\u{FFFD}"`},
		{"bidi controls", "\u202eabc\u202c\u2066\u2069\u200f\u061c", `"\u{202E}abc\u{202C}\u{2066}\u{2069}\u{200F}\u{61C}"`},
		{"Hebrew", "\u05d0\u05d1 10", `"\u{5D0}\u{5D1} 10"`},
		{"Arabic letters and digits", "\u0645\u0661", `"\u{645}\u{661}"`},
		{"zero width", "pay\u200bpal\u200d\u2060\ufeff\u00ad", `"pay\u{200B}pal\u{200D}\u{2060}\u{FEFF}\u{AD}"`},
		{"tags", "a\U000e0041\U000e007f", `"a\u{E0041}\u{E007F}"`},
		{"variation selectors", "a\ufe0f\U000e0100\u180b", `"a\u{FE0F}\u{E0100}\u{180B}"`},
		{"fillers", "\u3164\u115f\uffa0\u17b4", `"\u{3164}\u{115F}\u{FFA0}\u{17B4}"`},
		{"private use, unassigned, noncharacters", "\ue000\U0010ffff\u0378\ufdd0", `"\u{E000}\u{10FFFF}\u{378}\u{FDD0}"`},
		{"emoji", "\U0001f468\u200d\U0001f469", `"\u{1F468}\u{200D}\u{1F469}"`},
		{"quotes and dots", "\u201cx\u201d\u2026\u2033", `"\u{201C}x\u{201D}\u{2026}\u{2033}"`},
		{"currency", "\u20ac 10", `"\u{20AC} 10"`},
		{"digits of other scripts", "\u0967\u09ea\uff11\u00b2\U0001d7d9", `"\u{967}\u{9EA}\u{FF11}\u{B2}\u{1D7D9}"`},
		{"full width", "\uff30\uff41\uff59", `"\u{FF30}\u{FF41}\u{FF59}"`},
		{"mathematical", "\U0001d429ay", `"\u{1D429}ay"`},
		{"ligatures", "\ufb01le", `"\u{FB01}le"`},

		{"Latin", "Zürich, Łódź", `"Zürich, Łódź"  (Latin)`},
		{"Vietnamese", "Thanh toán hoá đơn", `"Thanh toán hoá đơn"  (Latin)`},
		{"Turkish", "ödeme yapıldı, tutarı", `"ödeme yap\u{131}ld\u{131}, tutar\u{131}"  (Latin)`},
		{"not in NFC", "Zu\u0308rich", `"Zu\u{308}rich"`},
		{"an accent that does not compose", "g\u0303uarani", "\"g\u0303uarani\"  (Latin)"},
		{"a mark at the beginning", "\u0301a", `"\u{301}a"`},
		{"a mark on a digit", "1\u0303", `"1\u{303}"`},
		{"a mark on a space", "a \u0303", `"a \u{303}"`},
		{"a mark on what is escaped", "\u05d0\u0303", `"\u{5D0}\u{303}"`},
		{"a mark of two kinds", "g\u0303\u0323", `"g\u{303}\u{323}"`},
		{"two marks", "q\u0323\u0303", "\"q\u0323\u0303\"  (Latin)"},
		{"three marks", "q\u0323\u0303\u0302", `"q\u{323}\u{303}\u{302}"`},
		{"a mark twice", "q\u0303\u0303", `"q\u{303}\u{303}"`},
		{"overlays and what encloses", "1\u0336l\u20dd\u0338", `"1\u{336}l\u{20DD}\u{338}"`},
		{"Hindi, three marks", "चीज़ों", `"चीज़ों"  (Devanagari)`},
		{"Burmese, four marks", "မြို့", `"မြို့"  (Myanmar)`},
		{"accents on Thai", "ก\u0303", `"\u{E01}\u{303}"`},
		{"Thai", "จำนวนเงิน", `"จำนวนเงิน"  (Thai)`},

		{"Cyrillic", "Оплата счёта 5", `"Оплата счёта 5"  (Cyrillic)`},
		{"a Cyrillic letter in a Latin word", "p\u0430ypal", `"p\u{430}ypal"`},
		{"a Cyrillic word of look-alikes", "\u0430\u0440\u0440\u04cf\u0435 Inc", `"\u{430}\u{440}\u{440}\u{4CF}\u{435} Inc"`},
		{"look-alikes with accents", "\u0441\u0451", `"\u{441}\u{451}"`},
		{"look-alikes with digits", "\u041700", `"\u{417}00"`},
		{"Greek look-alikes", "\u039f\u039a \u03bf", `"\u{39F}\u{39A} \u{3BF}"`},
		{"Greek", "πληρωμή", `"πληρωμή"  (Greek)`},
		{"Greek and Cyrillic", "πж", `"\u{3C0}\u{436}"`},
		{"words of several scripts", "счёт Acme, πληρωμή", `"счёт Acme, πληρωμή"  (Cyrillic, Greek, Latin)`},
		{"Armenian look-alikes", "\u0585\u0578", `"\u{585}\u{578}"`},
		{"letters of small scripts", "\u13a0\ua4d0\u2c80", `"\u{13A0}\u{A4D0}\u{2C80}"`},
		{"Japanese", "Acme社へ支払うデータ", `"Acme社へ支払うデータ"  (Han, Hiragana, Katakana, Latin)`},
		{"Korean", "결제A漢", `"결제A漢"  (Han, Hangul, Latin)`},
		{"Hangul and Kana", "결の", `"\u{ACB0}\u{306E}"`},
		{"a stroke that is a dash", "10 \u4e00 20 \u30fc", `"10 \u{4E00} 20 \u{30FC}"`},
		{"a stroke in an ASCII word", "paypa\u4e28", `"paypa\u{4E28}"`},
		{"an escape keeps words apart", "Zürich\u200b\u0430", `"Zürich\u{200B}\u{430}"  (Latin)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, quoted(c.in))
			if c.in != "" {
				v := &View{Plan: c.in}
				verify(t, v, mustText(t, v))
			}
		})
	}
}

func TestLong(t *testing.T) {
	million := strings.Repeat("x", 1_000_000)
	x := strings.Repeat("x", 200)
	require.Equal(t, `"`+x+x+`"`, quoted(x+x))
	require.Equal(t, `"`+x+`" ... 1 of 401 bytes left out ... "`+x+`" `+Digest(x+x+"x"), quoted(x+x+"x"))
	require.Equal(t, `"`+x+`" ... 999600 of 1000000 bytes left out ... "`+x+`" `+Digest(million), quoted(million))

	// The middle counts.
	other := million[:500_000] + "y" + million[500_001:]
	require.NotEqual(t, quoted(million), quoted(other))
	// A value that looks like one that is left out does not become one.
	forged := `"` + x + `" ... 1 of 401 bytes left out ... "`
	require.NotContains(t, quoted(forged), `" ...`)

	// Marks stay with their letters, and escapes are not cut.
	s := strings.Repeat("\u0915\u094d\u0930", 300)
	out := show(s, shownLimit)
	require.False(t, out.tail[0].mark)
	require.False(t, out.head[len(out.head)-1].mark && out.head[len(out.head)-1].text == "\u0915")
	require.Equal(t, len(s), out.left+sizes(out.head)+sizes(out.tail))
	require.Equal(t, "\"\\u{0}\\u{0}", quoted(strings.Repeat("\x00", 500))[:11])

	// The word is judged as a whole, though only its ends are shown.
	mixed := strings.Repeat("ы", 1000) + "q" + strings.Repeat("ж", 1000)
	require.NotContains(t, quoted(mixed), "ы")
	require.Contains(t, quoted(mixed), `\u{44B}`)
	// Scripts are those of what is shown.
	require.NotContains(t, quoted(x+strings.Repeat("ж", 500)+x), "Cyrillic")

	for _, s := range []string{Digest("a"), Digest("a") + "x"} {
		require.Equal(t, `"`+s+`"`, quoted(s))
	}
	require.Equal(t, `"`+Digest("a")+`"`, func() string {
		p := page{bare: true}
		p.quote("", show(Digest("a"), briefLimit))
		return p.b.String()
	}())
}

// TestMillions renders values as long as they may be.
func TestMillions(t *testing.T) {
	for _, s := range []string{"x", "\u0301", "ж", "\xff", "\u0915\u094d"} {
		v := payment()
		it := &v.Items[0]
		it.Description = strings.Repeat(s, MaxFree/len(s))
		it.Resources = slices.Repeat([]string{it.Description}, 2)
		if utf8.ValidString(s) {
			it.Inputs = []byte(`{"` + strings.Repeat(s, MaxFree/len(s)-20) + `":[` + strings.Repeat("1,", 9) + `1]}`)
			it.Inputs = it.Inputs[:min(len(it.Inputs), MaxFree)]
		}
		if !jsonOK(it.Inputs) {
			it.Inputs = []byte("0")
		}
		verify(t, v, mustText(t, v))
	}
}

func jsonOK(raw []byte) bool {
	_, err := Text(&View{Items: []Item{{Inputs: raw}}})
	return err == nil
}

// TestEveryCharacter holds that a text consists of ASCII and the listed letters.
func TestEveryCharacter(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r == 0x20000 { // The planes from here on are Han, unassigned or private.
			r = 0xe0000
		} else if r == 0xe1000 {
			r = unicode.MaxRune
		}
		for _, s := range []string{string(r), "a" + string(r) + "b", "жя" + string(r)} {
			for _, p := range show(s, shownLimit).head {
				c, size := utf8.DecodeRuneInString(p.text)
				if c >= ' ' && c <= '~' {
					if strings.ContainsFunc(p.text, func(r rune) bool { return r < ' ' || r > '~' }) {
						t.Fatalf("%U gives %q", r, p.text)
					}
				} else if of, _ := lookup(c); of == 0 || size != len(p.text) {
					t.Fatalf("%U gives %q", r, p.text)
				}
			}
		}
	}
}

// TestTables holds the tables to Unicode, so far as this version of Go knows it.
func TestTables(t *testing.T) {
	for _, table := range []struct {
		spans []span
		class *unicode.RangeTable
	}{{letters, unicode.L}, {marks, unicode.M}} {
		before := rune(0)
		for _, s := range table.spans {
			require.Less(t, before, s.lo)
			require.LessOrEqual(t, s.lo, s.hi)
			before = s.hi
			name := "Inherited"
			if s.of != inherited {
				name = s.of.names()[0]
			}
			for r := s.lo; r <= s.hi; r++ {
				of, mark := lookup(r)
				p, _ := bidi.LookupRune(r)
				for what, ok := range map[string]bool{
					"lookup":   of == s.of && mark == (table.class == unicode.M),
					"category": unicode.Is(table.class, r),
					"script":   unicode.Is(unicode.Scripts[name], r) || r == 0x30fc && name == "Katakana",
					"NFKC":     norm.NFKC.IsNormalString(string(r)) || r == 0xe33 || r == 0xeb3,
					"bidi":     p.Class() == bidi.L || mark && p.Class() == bidi.NSM,
					"visible":  !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Deprecated),
				} {
					if !ok {
						t.Errorf("%U: %s", r, what)
					}
				}
			}
		}
	}
	for _, r := range lookalikes {
		of, mark := lookup(r)
		require.NotZero(t, of, "%U", r)
		require.False(t, mark)
	}
	require.True(t, slices.IsSorted(scriptNames[:]))
	require.Equal(t, scripts(1)<<len(scriptNames), inherited)
}

// TestTablesAreFixed holds the tables to what they were: another table makes other texts, and
// needs a new [Version].
func TestTablesAreFixed(t *testing.T) {
	sum := sha256.Sum256(fmt.Append(nil, letters, marks, lookalikes, scriptNames))
	require.Equal(t, "adff6dddcf4795932f299f2244a81ddad34163b523a06e4d181100cc365ddd53", fmt.Sprintf("%x", sum))
}
