package approval_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// TestTimes: signature and key count from one instant to another.
func TestTimes(t *testing.T) {
	ms := func(t time.Time, n int) time.Time { return t.Add(time.Duration(n) * time.Millisecond) }
	// enroll adds a signer with a key that is valid so long.
	enroll := func(a *attempt, from, to ledger.Time) {
		act := a.signer("fay", "Fay", trust.SigToken, "finance")
		act.NotBefore, act.NotAfter = from, to
		a.must(act)
		a.by, a.payload.Signer = "fay", "fay"
	}
	fail(t, []attack{
		{"not yet valid", approval.NotValid, "not valid before", func(a *attempt) { a.at = ms(a.payload.NotBefore.Time(), -1) }},
		{"signed in the future", approval.NotValid, "not valid before", func(a *attempt) { a.payload.Issued = ledger.At(ms(noon.Add(time.Minute), 1)) }},
		{"expired", approval.NotValid, "expired", func(a *attempt) { a.at = a.payload.Expires.Time() }},
		{"expired long ago", approval.NotValid, "expired", func(a *attempt) { a.at = noon.AddDate(1, 0, 0) }},
		{"expired with the barrier", approval.NotValid, "expired", func(a *attempt) {
			a.payload.Expires = a.request.Expires
			a.at = a.request.Expires.Time()
		}},
		{"key not yet valid", approval.NotValid, "the key of the signer fay", func(a *attempt) { enroll(a, minutes(2), days(1)) }},
		{"key expired", approval.NotValid, "the key of the signer fay", func(a *attempt) { enroll(a, days(-2), minutes(0)) }},
		{"key expired, signature dated back", approval.NotValid, "the key of the signer fay", func(a *attempt) {
			enroll(a, days(-2), minutes(-10))
			a.payload.Issued = minutes(-20)
		}},
		{"key expired since it signed", approval.NotValid, "the key of the signer fay", func(a *attempt) {
			enroll(a, days(-2), minutes(5))
			a.at = minutes(5).Time()
		}},
		{"signature dated before the key", approval.NotValid, "the key of the signer fay", func(a *attempt) {
			enroll(a, minutes(-30), days(1))
			a.payload.Issued = minutes(-40)
		}},
		{"signed before the barrier opened", approval.NotValid, "before anybody was asked", func(a *attempt) {
			a.payload.Issued = ledger.At(ms(a.request.Opened.Time().Add(-time.Minute), -1))
		}},
		{"signed before the barrier opened, looked at again", approval.NotValid, "before anybody was asked", func(a *attempt) {
			a.payload.Issued, a.at = days(-9), time.Time{}
		}},
		{"signature of the year one", approval.NotValid, "before anybody was asked", func(a *attempt) { a.payload.Issued = ledger.Time{} }},
		{"looked at again: key not yet valid when it signed", approval.NotValid, "the key of the signer fay", func(a *attempt) {
			enroll(a, minutes(2), days(1))
			a.at = time.Time{}
		}},
		{"looked at again: key expired when it signed", approval.NotValid, "the key of the signer fay", func(a *attempt) {
			enroll(a, days(-2), minutes(0))
			a.at = time.Time{}
		}},
	})
	pass(t, map[string]func(*attempt){
		"at the first instant":      func(a *attempt) { a.at = a.payload.NotBefore.Time() },
		"at the last instant":       func(a *attempt) { a.at = ms(a.payload.Expires.Time(), -1) },
		"a clock that is ahead":     func(a *attempt) { a.payload.Issued = minutes(1) },
		"a clock that is behind":    func(a *attempt) { a.payload.Issued = ledger.At(a.request.Opened.Time().Add(-time.Minute)) },
		"a key that is ahead":       func(a *attempt) { enroll(a, minutes(1), days(1)) },
		"the key's last instant":    func(a *attempt) { enroll(a, days(-2), ledger.At(ms(noon, 1))) },
		"until the barrier expires": func(a *attempt) { a.payload.Expires = a.request.Expires },
		"in another zone":           func(a *attempt) { a.at = noon.In(time.FixedZone("", 5*3600)) },
		"looked at again, expired":  func(a *attempt) { a.payload.Expires, a.at = minutes(1), time.Time{} },
	})
}

// TestSigners: who signs is enrolled, is not revoked, has the role, and is asked.
func TestSigners(t *testing.T) {
	by := func(signer, role string) func(*attempt) {
		return func(a *attempt) { a.by, a.payload.Signer, a.payload.Role = signer, signer, role }
	}
	fail(t, []attack{
		{"nobody", approval.Unknown, "", func(a *attempt) { a.payload.Signer = "" }},
		{"a signer who is not enrolled", approval.Unknown, "zed", func(a *attempt) { a.payload.Signer = "zed" }},
		{"a signer in upper case", approval.Unknown, "ADA", func(a *attempt) { a.payload.Signer = "ADA" }},
		{"a person's name for the signer's id", approval.Unknown, "Ada", func(a *attempt) { a.payload.Signer = "Ada" }},
		{"an admin who is no signer", approval.Unknown, "mia", func(a *attempt) { a.payload.Signer = "mia" }},
		{"a signer whose statement was never made", approval.Unknown, "gus", func(a *attempt) {
			a.signer("gus", "Gus", trust.SigToken, "finance")
			by("gus", "finance")(a)
		}},
		{"revoked", approval.Revoked, "ada", func(a *attempt) { a.must(&trust.RevokeSigner{ID: "ada"}) }},
		{"revoked, with a signature dated before", approval.Revoked, "ada", func(a *attempt) {
			a.payload.Issued = minutes(-50)
			a.must(&trust.RevokeSigner{ID: "ada"})
		}},
		{"revoked since it counted", approval.Revoked, "ada", func(a *attempt) {
			_, err := a.verify()
			require.NoError(a.t, err)
			a.must(&trust.RevokeSigner{ID: "ada"})
			a.at = time.Time{}
		}},
		{"a role that nobody asks for", approval.Ineligible, `the role "intern"`, by("dan", "intern")},
		{"a role that the signer lacks", approval.Ineligible, "does not have the role legal", by("ada", "legal")},
		{"another key's role of the same person", approval.Ineligible, "the signer ada does not have the role legal", by("ada", "legal")},
		{"a role of none that is asked for", approval.Ineligible, "does not have the role finance", by("cleo", "finance")},
		{"no role", approval.Ineligible, `the role ""`, by("ada", "")},
		{"a role in upper case", approval.Ineligible, `the role "Finance"`, by("ada", "Finance")},
		{"a role that was taken away", approval.Ineligible, "does not have the role finance", func(a *attempt) {
			a.must(&trust.GrantRoles{Signer: "ada", Roles: []string{"x"}}, &trust.RevokeRoles{Signer: "ada", Roles: []string{"finance"}})
		}},
		{"a role that was taken away since it counted", approval.Ineligible, "does not have the role finance", func(a *attempt) {
			_, err := a.verify()
			require.NoError(a.t, err)
			a.must(&trust.RevokeRoles{Signer: "ada", Roles: []string{"finance"}})
			a.at = time.Time{}
		}},
		{"a rejection by who is not asked", approval.Ineligible, `the role "intern"`, func(a *attempt) {
			by("dan", "intern")(a)
			a.payload.Decision, a.payload.Reason = approval.Reject, "no"
		}},
		{"the requester", approval.Excluded, "rae must not approve", by("rae", "finance")},
		{"the requester in the other role", approval.Excluded, "rae must not approve", by("rae", "legal")},
		{"a rejection by the requester", approval.Excluded, "rae must not approve", func(a *attempt) {
			by("rae", "finance")(a)
			a.payload.Decision, a.payload.Reason = approval.Reject, "no"
		}},
		{"the requester, looked at again", approval.Excluded, "rae must not approve", func(a *attempt) {
			by("rae", "finance")(a)
			a.at = time.Time{}
		}},
		{"a second key of who is excluded", approval.Excluded, "ada must not approve", func(a *attempt) {
			a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{"Ada"} })
			by("ada-2", "legal")(a)
		}},
	})
	pass(t, map[string]func(*attempt){
		"a role that was granted": func(a *attempt) {
			a.must(&trust.GrantRoles{Signer: "dan", Roles: []string{"finance"}})
			by("dan", "finance")(a)
		},
		"nobody is excluded": func(a *attempt) {
			a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{} })
			by("rae", "finance")(a)
		},
		"excluded is another person": func(a *attempt) {
			a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{"", "Ad", "Adam"} })
		},
	})
}

// TestExcludedSpellings: whoever is excluded is so under every spelling of the name.
func TestExcludedSpellings(t *testing.T) {
	for _, c := range []struct{ name, enrolled, excluded string }{
		{"upper case", "Zoe Lang", "ZOE LANG"},
		{"lower case", "Zoe Lang", "zoe lang"},
		{"full width", "Zoe Lang", "Ｚｏｅ Ｌａｎｇ"},
		{"full width at the enrolment", "Ｚｏｅ Ｌａｎｇ", "zoe lang"},
		{"ligature", "Steffi", "Steﬃ"},
		{"accent apart", "Zo\u00eb", "Zoe\u0308"},
		{"accent apart at the enrolment", "ZOE\u0308", "zo\u00eb"},
		{"kelvin sign", "Kim", "\u212aim"},
		{"long s", "Susi", "\u017fu\u017fi"},
		{"mathematical letters", "Ada", "𝐀𝐝𝐚"},
		{"no-break space", "Zoe Lang", "Zoe\u00a0Lang"},
		{"Cyrillic", "Жанна", "ЖАННА"},
		{"Greek", "Άννα", "ΆΝΝΑ"},
		{"final sigma", "Νίκος", "ΝΊΚΟΣ"},
		{"sharp s", "Voß", "VOSS"},
		// Small letters compose with marks with which capital ones do not: here one step of
		// folding allows another.
		{"J with caron", "J\u030cana", "J\u030cana"},
		{"J with caron, small", "J\u030cana", "\u01f0ana"},
		{"W with ring", "W\u030aim", "W\u030aim"},
		{"T with diaeresis", "T\u0308om", "\u1e97om"},
		{"Y with ring", "\u1e99an", "Y\u030aAN"},
		{"H with line below", "H\u0331al", "h\u0331al"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAttempt(bareWorld(t, trust.Prod))
			a.must(a.signer("zoe", c.enrolled, trust.SigToken, "finance"))
			a.by, a.payload.Signer = "zoe", "zoe"
			_, err := a.verify()
			require.NoError(t, err)
			a.ask(func(r *approval.Request) { r.Rule.Excluded = slices.Sorted(slices.Values([]string{"Rae", c.excluded})) })
			a.envelope = nil
			v, err := a.verify()
			refused(t, approval.Excluded, "must not approve", v, err)

			// Under two spellings it is one person who approves, if anybody is enrolled so.
			if strings.Contains(c.excluded, "\u00a0") {
				return
			}
			w := bareWorld(t, trust.Prod)
			w.must(w.signer("one", c.enrolled, trust.SigToken, "finance"), w.signer("two", c.excluded, trust.SigToken, "finance"))
			r, d := w.request()
			votes := []approval.Vote{w.vote(r, d, payload(r, d, "one", "finance")), w.vote(r, d, payload(r, d, "two", "finance"))}
			require.Len(t, r.Rule.Count(votes).Counted, 1)
		})
	}
}

// TestFold: a name is folded once and for all, and in the same way in capitals.
func TestFold(t *testing.T) {
	for c := rune(0); c <= unicode.MaxRune; c++ {
		if unicode.ToUpper(c) == c && unicode.ToLower(c) == c && norm.NFKC.IsNormalString(string(c)) && !unicode.Is(unicode.Mn, c) {
			continue // of which there are many
		}
		for _, name := range []string{string(c), "J" + string(c), string(c) + "\u030c\u0345"} {
			if folded := trust.Fold(name); folded != trust.Fold(folded) {
				require.Equal(t, folded, trust.Fold(folded), "%+q", name)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOf(rapid.RuneFrom([]rune("JHTWYijsΣσςßſ\u0301\u0308\u030a\u030c\u0331"), unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Mn)).Draw(t, "name")
		folded := trust.Fold(name)
		require.Equal(t, folded, trust.Fold(folded))
		require.True(t, utf8.ValidString(folded))
		require.Equal(t, folded, trust.Fold(norm.NFD.String(name)))
		require.Equal(t, folded, trust.Fold(norm.NFKC.String(name)))
		// The i of Turkish is another letter, and the iota below Greek ones becomes a letter.
		if !strings.ContainsAny(norm.NFKD.String(name), "\u0131\u0130\u0307\u0345") {
			require.Equal(t, folded, trust.Fold(strings.ToUpper(name)))
		}
	})
}

// TestInvisibleNames: nobody is enrolled under a name that looks like another's.
func TestInvisibleNames(t *testing.T) {
	for name, c := range map[string]string{
		"variation selector": "\ufe0f", "combining grapheme joiner": "\u034f", "Hangul filler": "\u3164", "Hangul choseong filler": "\u115f",
		"half-width Hangul filler": "\uffa0", "Mongolian variation selector": "\u180b", "ideographic variation selector": "\U000e0100", "Braille blank": "\u2800",
		"zero width space": "\u200b", "zero width joiner": "\u200d", "soft hyphen": "\u00ad", "override": "\u202e", "no-break space": "\u00a0", "control": "\u0007", "tag": "\U000e0041",
	} {
		t.Run(name, func(t *testing.T) {
			w := bareWorld(t, trust.Prod)
			require.ErrorIs(t, w.do(w.signer("rae-2", "R"+c+"ae", trust.SigToken, "finance")), trust.ErrInvalid)
			require.ErrorIs(t, w.do(w.signer("rae-2", "Rae"+c, trust.SigToken, "finance")), trust.ErrInvalid)
			require.Empty(t, w.state.Signers)
		})
	}
}

// TestSoftwareKeysInProduction: a chain of production enrolls no key that can be copied, nor
// one of a type that the engine cannot verify. Nor does one of development pass for one of a
// token.
func TestSoftwareKeysInProduction(t *testing.T) {
	for _, kind := range []string{trust.SigDev, trust.SigSSH} {
		w := bareWorld(t, trust.Prod)
		act := w.signer("eve", "Eve", kind, "finance")
		require.ErrorContains(t, w.do(act), "software keys ("+kind+") sign only in dev")
		require.Empty(t, w.state.Signers)
		w = bareWorld(t, trust.Dev)
		w.must(w.signer("eve", "Eve", kind, "finance"))
	}
	for _, audience := range []trust.Audience{trust.Dev, trust.Prod} {
		w := bareWorld(t, audience)
		soft, hard := w.signer("eve", "Eve", trust.SigSSH, "finance"), w.signer("eve", "Eve", trust.SigSSHHardware, "finance")
		soft.SigType, hard.SigType = hard.SigType, soft.SigType
		require.ErrorContains(t, w.do(soft), "is not one for "+trust.SigSSHHardware)
		require.ErrorContains(t, w.do(hard), "is not one for "+trust.SigSSH)
		web := w.signer("eve", "Eve", trust.SigToken, "finance")
		web.SigType = trust.SigWeb
		require.ErrorContains(t, w.do(web), "not supported yet")
		web.SigType = ""
		require.ErrorContains(t, w.do(web), "is not a type of signature")
		require.Empty(t, w.state.Signers)
	}
	// A chain of development is none of production.
	dev, prod := newWorld(t, trust.Dev), bareWorld(t, trust.Prod)
	_, err := trust.Chain(prod.boot, dev.chain)
	require.ErrorIs(t, err, trust.ErrInvalid)
}
