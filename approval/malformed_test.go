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

// TestMalformed: the signer has signed it, but it is no approval.
func TestMalformed(t *testing.T) {
	replace := func(old, now string) func(*attempt) {
		return func(a *attempt) {
			a.rewrite(func(p string) string { return strings.Replace(p, old, now, 1) })
		}
	}
	attacks := []attack{
		{"unknown field", approval.Malformed, "unknown field", replace(`{`, `{"also":1,`)},
		{"field twice", approval.Malformed, "decision", replace(`"decision":"approve"`, `"decision":"reject","decision":"approve"`)},
		{"field twice, equal", approval.Malformed, "decision", replace(`"decision":"approve"`, `"decision":"approve","decision":"approve"`)},
		{"field twice, in two spellings", approval.Malformed, "", replace(`"decision":"approve"`, `"Decision":"reject","decision":"approve"`)},
		{"field in another spelling", approval.Malformed, "a field is missing", replace(`"decision"`, `"Decision"`)},
		{"field escaped twice", approval.Malformed, "", replace(`"decision":"approve"`, `"decision":"approve","\u0064ecision":"approve"`)},
		{"empty reason", approval.Malformed, "a field is missing, empty", replace(`"request"`, `"reason":"","request"`)},
		{"empty delegation", approval.Malformed, "a field is missing, empty", replace(`"deployment"`, `"delegation":"","deployment"`)},
		{"null for a role", approval.Malformed, "a field is missing, empty", replace(`"role":"finance"`, `"role":null`)},
		{"no role", approval.Malformed, "a field is missing, empty", replace(`"role":"finance",`, ``)},
		{"a number for a string", approval.Malformed, "", replace(`"role":"finance"`, `"role":1`)},
		{"a string for a list", approval.Malformed, "", replace(`"actions":[`, `"actions":"","x":[`)},
		{"an instant without milliseconds", approval.Malformed, "is not an instant", replace(`T12:00:00.000Z`, `T12:00:00Z`)},
		{"an instant in another zone", approval.Malformed, "is not an instant", replace(`T12:00:00.000Z`, `T13:00:00.000+01:00`)},
		{"not UTF-8", approval.Malformed, "", replace(`"role":"finance"`, "\"role\":\"finance\xff\"")},
		{"half a surrogate", approval.Malformed, "", replace(`"role":"finance"`, `"role":"finance\ud800"`)},
		{"two documents", approval.Malformed, "data after", func(a *attempt) { a.rewrite(func(p string) string { return p + "{}" }) }},
		{"a list", approval.Malformed, "", func(a *attempt) { a.rewrite(func(p string) string { return "[" + p + "]" }) }},
		{"null", approval.Malformed, "", func(a *attempt) { a.rewrite(func(string) string { return "null" }) }},
		{"nothing", approval.Malformed, "", func(a *attempt) { a.rewrite(func(string) string { return "" }) }},
		{"other Format", approval.Malformed, "the format", func(a *attempt) { a.payload.Format = "chimera.ai/approval/v2" }},
		{"a delegation's format", approval.Malformed, "the format", func(a *attempt) { a.payload.Format = approval.DelegationFormat }},
		{"no decision", approval.Malformed, "neither approve nor reject", func(a *attempt) { a.payload.Decision = "" }},
		{"Approve", approval.Malformed, "neither approve nor reject", func(a *attempt) { a.payload.Decision = "Approve" }},
		{"a rejection without a reason", approval.Malformed, "no reason", func(a *attempt) { a.payload.Decision = approval.Reject }},
		{"a rejection for spaces", approval.Malformed, "no reason", func(a *attempt) { a.payload.Decision, a.payload.Reason = approval.Reject, " \u3000\n" }},
		{"a reason too long", approval.Malformed, "the reason", func(a *attempt) { a.payload.Reason = strings.Repeat("x", approval.MaxReason+1) }},
		{"no nonce", approval.Malformed, "the nonce", func(a *attempt) { a.payload.Nonce = "" }},
		{"a short nonce", approval.Malformed, "the nonce", func(a *attempt) { a.payload.Nonce = strings.Repeat("a", 31) }},
		{"a long nonce", approval.Malformed, "the nonce", func(a *attempt) { a.payload.Nonce = strings.Repeat("a", 33) }},
		{"a nonce in upper case", approval.Malformed, "the nonce", func(a *attempt) { a.payload.Nonce = strings.Repeat("A", 32) }},
		{"never valid", approval.Malformed, "never valid", func(a *attempt) { a.payload.NotBefore = a.payload.Expires }},
		{"expires before it is valid", approval.Malformed, "never valid", func(a *attempt) { a.payload.Expires = minutes(-2) }},
		{"outlives the barrier", approval.Malformed, "after the barrier", func(a *attempt) { a.payload.Expires = ledger.At(minutes(60).Time().Add(time.Millisecond)) }},
	}
	fail(t, attacks)
	// All but the last, which is about the request, are refused when nothing is verified yet.
	for _, c := range attacks[:len(attacks)-1] {
		a := newAttempt(newWorld(t, trust.Dev))
		c.edit(a)
		if a.envelope == nil {
			a.envelope = a.honest()
		}
		_, err := approval.Peek(a.envelope)
		require.NotNil(t, approval.Refused(err), c.name)
		require.Equal(t, approval.Malformed, approval.Refused(err).Code, c.name)
	}
}

// TestEnvelope: what arrives is no envelope with one signature of the type.
func TestEnvelope(t *testing.T) {
	// raw edits the text of the envelope.
	raw := func(edit func(a *attempt, text string) string) func(*attempt) {
		return func(a *attempt) {
			before := string(a.honest())
			after := edit(a, before)
			require.NotEqual(a.t, before, after)
			a.envelope = []byte(after)
		}
	}
	text := func(s string) func(*attempt) { return func(a *attempt) { a.envelope = []byte(s) } }
	typed := func(payloadType string) func(*attempt) {
		return func(a *attempt) {
			e := parsedEnvelope(a.t, a.honest())
			e.Type = payloadType
			a.envelope = encoded(a.t, e)
		}
	}
	replace := func(old, now string) func(*attempt) {
		return raw(func(_ *attempt, s string) string { return strings.Replace(s, old, now, 1) })
	}
	attacks := []attack{
		{"nothing", approval.Malformed, "", text("")},
		{"null", approval.Malformed, "", text("null")},
		{"an empty object", approval.Malformed, "", text("{}")},
		{"a list", approval.Malformed, "", text("[]")},
		{"zeros", approval.Malformed, "", text("\x00\x00")},
		{"deeper than deep", approval.Malformed, "", text(strings.Repeat("[", 100_000))},
		{"cut short", approval.Malformed, "", raw(func(_ *attempt, s string) string { return s[:len(s)-1] })},
		{"data after it", approval.Malformed, "data after", raw(func(_ *attempt, s string) string { return s + "{}" })},
		{"unknown field", approval.Malformed, "unknown field", replace(`{`, `{"also":1,`)},
		{"payload twice", approval.Malformed, "payload", replace(`{`, `{"payload":"e30=",`)},
		{"signatures twice", approval.Malformed, "signatures", replace(`{`, `{"signatures":[{"sig":"AAAA"}],`)},
		{"payload twice, in two spellings", approval.Malformed, "", replace(`{`, `{"Payload":"e30=",`)},
		{"empty key id", approval.Malformed, "a field is missing, empty", raw(func(a *attempt, _ string) string {
			a.by, a.payload.Signer = "ada-2", "ada-2"
			return strings.Replace(string(a.honest()), `{"sig"`, `{"keyid":"","sig"`, 1)
		})},
		{"payload not padded", approval.Malformed, "not base64", raw(func(a *attempt, s string) string {
			for !strings.Contains(s, `=",`) {
				a.payload.Reason += "x"
				s = string(a.honest())
			}
			return strings.Replace(strings.Replace(s, `==",`, `",`, 1), `=",`, `",`, 1)
		})},
		{"line ends in base64", approval.Malformed, "not base64", replace(`"payload":"`, `"payload":"\n`)},
		{"no signature", approval.Malformed, "0 signatures", raw(func(a *attempt, _ string) string {
			e, err := a.payload.Unsigned()
			require.NoError(a.t, err)
			return string(encoded(a.t, e))
		})},
		{"an empty signature", approval.Malformed, "signature 0", raw(func(a *attempt, s string) string {
			return s[:strings.Index(s, `"signatures":`)] + `"signatures":[{"sig":""}]}`
		})},
		{"an extra signature of another signer", approval.Malformed, "this has 2", raw(func(a *attempt, s string) string {
			return string(a.sealed(parsedEnvelope(a.t, []byte(s)), "ben"))
		})},
		{"the signature twice", approval.Malformed, "this has 2", raw(func(a *attempt, s string) string {
			e := parsedEnvelope(a.t, []byte(s))
			e.Signatures = append(e.Signatures, e.Signatures[0])
			return string(encoded(a.t, e))
		})},
		{"an extra signature of nobody", approval.Malformed, "this has 2", raw(func(a *attempt, s string) string {
			e := parsedEnvelope(a.t, []byte(s))
			e.Signatures = append(e.Signatures, trust.Signature{Sig: []byte{1}})
			return string(encoded(a.t, e))
		})},
		{"oversize by spaces", approval.Malformed, "more than", raw(func(_ *attempt, s string) string {
			return s + strings.Repeat(" ", approval.MaxEnvelope-len(s)+1)
		})},
		{"oversize by far", approval.Malformed, "more than", text(strings.Repeat("a", 4*approval.MaxEnvelope))},
		{"payload type of a delegation", approval.Malformed, "the payload's type", typed(approval.DelegationType)},
		{"payload type of a statement", approval.Malformed, "the payload's type", typed(trust.StatementType)},
		{"payload type of another version", approval.Malformed, "the payload's type", typed(strings.Replace(approval.Type, "v1", "v2", 1))},
		{"payload type in upper case", approval.Malformed, "the payload's type", typed(strings.ToUpper(approval.Type))},
		{"payload type with a parameter", approval.Malformed, "the payload's type", typed(approval.Type + ";v=1")},
		{"no payload type", approval.Malformed, "the payload's type", typed("")},
		{"a statement of the admins", approval.Malformed, "the payload's type", func(a *attempt) { a.envelope = a.chain[0] }},
		{"a delegation", approval.Malformed, "the payload's type", func(a *attempt) { a.envelope = []byte(a.delegation("ada", "ada", "dan")) }},
	}
	fail(t, attacks)
	for _, c := range attacks {
		a := newAttempt(newWorld(t, trust.Dev))
		c.edit(a)
		_, err := approval.Peek(a.envelope)
		require.NotNil(t, approval.Refused(err), c.name)
	}
	pass(t, map[string]func(*attempt){
		"as large as may be": raw(func(_ *attempt, s string) string { return s + strings.Repeat(" ", approval.MaxEnvelope-len(s)) }),
		"a reason as long as may be": func(a *attempt) {
			a.payload.Reason = strings.Repeat("é", approval.MaxReason/2)
		},
		"a hint of another key": func(a *attempt) {
			e := parsedEnvelope(a.t, a.honest())
			e.Signatures[0].KeyID = "ben"
			a.envelope = encoded(a.t, e)
		},
		"spaces in the payload that are signed": func(a *attempt) {
			a.rewrite(func(p string) string { return " " + p + "\n" })
		},
	})
}
