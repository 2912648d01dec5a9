package approval_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// TestTimes: signature and key count from one instant to another.
func TestTimes(t *testing.T) {
	ms := func(t time.Time, n int) time.Time { return t.Add(time.Duration(n) * time.Millisecond) }
	// enroll adds a signer with a key that is valid so long.
	enroll := func(a *attempt, from, to ledger.Time) {
		act := a.signer("fay", "fay", trust.SigToken, "finance")
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
		{"an admin who is no signer", approval.Unknown, "mia", func(a *attempt) { a.payload.Signer = "mia" }},
		{"a signer whose statement was never made", approval.Unknown, "gus", func(a *attempt) {
			a.signer("gus", "gus", trust.SigToken, "finance")
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
			a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{"ada"} })
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
			a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{"ad", "adam"} })
		},
	})
}

// TestSpellings: a person is an id, so that nobody has a second one: no other spelling is enrolled,
// nor asked to be excluded.
func TestSpellings(t *testing.T) {
	for name, person := range map[string]string{
		"nobody": "", "capitals": "RAE", "a space": "rae lang", "spaces around it": " rae", "two spaces": "rae  lang", "Cyrillic": "r\u0430e", "full width": "ｒａｅ", "ligature": "ste\ufb03",
		"accent": "ra\u00eb", "accent apart": "rae\u0308", "kelvin sign": "\u212aim", "long s": "\u017fue", "mathematical letters": "𝐫𝐚𝐞", "Cherokee": "\uabb3\uab83\uab79",
		"variation selector": "rae\ufe0f", "zero width space": "r\u200bae", "soft hyphen": "r\u00adae", "override": "\u202erae", "no-break space": "rae\u00a0lang", "control": "rae\u0007",
		"a sign": "rae+lang", "a slash": "rae/lang", "too long": strings.Repeat("r", 257), "not UTF-8": "rae\xff",
	} {
		t.Run(name, func(t *testing.T) {
			w := bareWorld(t, trust.Prod)
			require.ErrorIs(t, w.do(w.signer("rae-2", person, trust.SigToken, "finance")), trust.ErrInvalid)
			require.Empty(t, w.state.Signers)
			r, _ := w.request()
			r.Rule.Excluded = []string{person}
			_, err := r.Encode()
			require.ErrorIs(t, err, approval.ErrInvalid)
		})
	}
	for _, person := range []string{"zoe", "zoe.lang@example.com", "0", "rae_lang-2", strings.Repeat("r", 256)} {
		a := newAttempt(bareWorld(t, trust.Prod))
		a.must(a.signer("zoe", person, trust.SigToken, "finance"))
		a.by, a.payload.Signer = "zoe", "zoe"
		_, err := a.verify()
		require.NoError(t, err)
		a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{person} })
		a.envelope = nil
		v, err := a.verify()
		refused(t, approval.Excluded, "must not approve", v, err)
	}
}

// TestSoftwareKeysInProduction: a chain of production enrolls no key that can be copied, nor
// one of a type that the engine cannot verify. Nor does one of development pass for one of a
// token.
func TestSoftwareKeysInProduction(t *testing.T) {
	for _, kind := range []string{trust.SigDev, trust.SigSSH} {
		w := bareWorld(t, trust.Prod)
		act := w.signer("eve", "eve", kind, "finance")
		require.ErrorContains(t, w.do(act), "software keys ("+kind+") sign only in dev")
		require.Empty(t, w.state.Signers)
		w = bareWorld(t, trust.Dev)
		w.must(w.signer("eve", "eve", kind, "finance"))
	}
	for _, audience := range []trust.Audience{trust.Dev, trust.Prod} {
		w := bareWorld(t, audience)
		soft, hard := w.signer("eve", "eve", trust.SigSSH, "finance"), w.signer("eve", "eve", trust.SigSSHHardware, "finance")
		soft.SigType, hard.SigType = hard.SigType, soft.SigType
		require.ErrorContains(t, w.do(soft), "is not one for "+trust.SigSSHHardware)
		require.ErrorContains(t, w.do(hard), "is not one for "+trust.SigSSH)
		web := w.signer("eve", "eve", trust.SigToken, "finance")
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
