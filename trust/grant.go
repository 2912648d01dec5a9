package trust

import (
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/ledger"
)

const (
	// PlanFormat and PlanType are of an author's signature.
	PlanFormat = "chimera.ai/trust/plan/v1"
	PlanType   = "application/vnd.chimera.plan.v1+json"
	// GrantFormat and GrantType are of a start grant.
	GrantFormat = "chimera.ai/trust/grant/v1"
	GrantType   = "application/vnd.chimera.grant.v1+json"
	// MaxGrant bounds how long a start grant is valid.
	MaxGrant = 24 * time.Hour
	// maxGrantBytes bounds its envelope, which the audit log keeps.
	maxGrantBytes = 16 << 10
	// skew is how far the clock of a grant's maker may be ahead.
	skew = time.Minute
)

// Plan is what the author of a plan signs.
type Plan struct {
	Format     string   `json:"format"`
	Deployment string   `json:"deployment"`
	Audience   Audience `json:"audience"`
	// Author is the id of a publisher.
	Author  string `json:"author"`
	Name    string `json:"name"`
	Version string `json:"version"`
	// SourceDigest is of the source's bytes, Digest of the compiled plan.
	SourceDigest string      `json:"source_digest"`
	Digest       string      `json:"digest"`
	Issued       ledger.Time `json:"issued"`
}

func (p *Plan) check() error {
	if p.Format != PlanFormat {
		return invalid("the format is %.80q, not %s", p.Format, PlanFormat)
	}
	if err := digest("the source", p.SourceDigest); err != nil {
		return err
	}
	if err := digest("the plan", p.Digest); err != nil {
		return err
	}
	for _, s := range []string{p.Deployment, p.Author, p.Name, p.Version} {
		if err := name("a plan, its author or its deployment", s); err != nil {
			return err
		}
	}
	return nil
}

// SignPlan signs a plan as its author. The format may be left out.
func SignPlan(k *Key, p Plan) ([]byte, error) {
	p.Format = PlanFormat
	if err := p.check(); err != nil {
		return nil, err
	}
	return seal(PlanType, &p, k)
}

// authored verifies the signature of a plan in a state: its author must be a publisher of
// plans, who may have been revoked since, and must have signed exactly this plan. want
// says what was published: name, version, both digests and the author.
func authored(s State, envelope []byte, want Plan) (Plan, *ledger.Time, error) {
	p, e, err := parsePlan(s, envelope, want)
	if err != nil {
		return Plan{}, nil, err
	}
	revoked, err := s.publisher(e, p.Author, UsePlans)
	if err != nil {
		return Plan{}, nil, err
	}
	return p, revoked, nil
}

func parsePlan(s State, envelope []byte, want Plan) (Plan, *Envelope, error) {
	e, err := ParseEnvelope(envelope, PlanType)
	if err != nil {
		return Plan{}, nil, err
	}
	var p Plan
	if _, err := exact(e.Payload, &p); err != nil {
		return Plan{}, nil, invalid("the author's signature: %s", bare(err))
	}
	if err := p.check(); err != nil {
		return Plan{}, nil, err
	}
	switch {
	case p.Deployment != s.Deployment || p.Audience != s.Audience:
		return Plan{}, nil, invalid("the plan is signed for %s (%s), not for %s (%s)", p.Deployment, p.Audience, s.Deployment, s.Audience)
	case p.Name != want.Name || p.Version != want.Version:
		return Plan{}, nil, invalid("the signature is of %s@%s, not of %s@%s", p.Name, p.Version, want.Name, want.Version)
	case p.SourceDigest != want.SourceDigest || p.Digest != want.Digest:
		return Plan{}, nil, invalid("the signature of %s@%s is of another source or plan", p.Name, p.Version)
	case p.Author != want.Author:
		return Plan{}, nil, invalid("the signature is by %s, not by %s", p.Author, want.Author)
	}
	return p, e, nil
}

// publisher returns an error unless a publisher with a use has signed an envelope, and
// otherwise when the publisher was revoked, if it was.
func (s State) publisher(e *Envelope, id, use string) (*ledger.Time, error) {
	a, ok := s.Publishers[id]
	switch {
	case !ok:
		return nil, invalid("there is no publisher %.120q", id)
	case !slices.Contains(a.Uses, use):
		return nil, invalid("the publisher %s does not sign %s", id, use)
	}
	k, err := ParsePublic(a.Key)
	if err != nil {
		return nil, err
	}
	if len(e.By([]Public{k})) == 0 {
		return nil, invalid("the publisher %s has not signed it", id)
	}
	return a.Revoked, nil
}

// Grant allows one run to start.
type Grant struct {
	Format     string   `json:"format"`
	Deployment string   `json:"deployment"`
	Audience   Audience `json:"audience"`
	// Namespace is the Temporal namespace of the run, and WorkflowID its id.
	Namespace  string `json:"namespace"`
	WorkflowID string `json:"workflow_id"`
	// Plan is the digest of the compiled plan, Input that of the canonical input.
	Plan  string `json:"plan"`
	Input string `json:"input"`
	Agent string `json:"agent"`
	// Requester is the person who asks for the run, and never approves what it does.
	Requester string `json:"requester"`
	// Nonce is 32 hex digits.
	Nonce   string      `json:"nonce"`
	Issued  ledger.Time `json:"issued"`
	Expires ledger.Time `json:"expires"`
}

func (g *Grant) check() error {
	if g.Format != GrantFormat {
		return invalid("the format is %.80q, not %s", g.Format, GrantFormat)
	}
	if err := digest("the plan", g.Plan); err != nil {
		return err
	}
	if err := digest("the input", g.Input); err != nil {
		return err
	}
	for _, s := range []string{g.Deployment, g.Namespace, g.WorkflowID, g.Agent} {
		if err := name("a part of the grant", s); err != nil {
			return err
		}
	}
	if err := person("a requester", g.Requester); err != nil {
		return err
	}
	if !IsNonce(g.Nonce) {
		return invalid("the nonce is not 32 hex digits")
	}
	if d := g.Expires.Time().Sub(g.Issued.Time()); d <= 0 || d > MaxGrant {
		return invalid("a grant must be valid for some time, and at most for %s", MaxGrant)
	}
	return nil
}

// SignGrant signs a start grant. The format may be left out.
func SignGrant(k *Key, g Grant) ([]byte, error) {
	g.Format = GrantFormat
	if err := g.check(); err != nil {
		return nil, err
	}
	return seal(GrantType, &g, k)
}

// GrantDigest returns the digest that identifies a start grant: that of what was signed,
// however the envelope is encoded.
func GrantDigest(envelope []byte) (string, error) {
	e, err := parseGrant(envelope)
	if err != nil {
		return "", err
	}
	return e.Digest(), nil
}

func parseGrant(envelope []byte) (*Envelope, error) {
	if len(envelope) > maxGrantBytes {
		return nil, invalid("a grant of %d bytes, more than %d", len(envelope), maxGrantBytes)
	}
	return ParseEnvelope(envelope, GrantType)
}

// ReadGrant reads a start grant without verifying signatures: see [VerifyGrant].
func ReadGrant(envelope []byte) (Grant, error) {
	_, g, err := readGrant(envelope)
	return g, err
}

func readGrant(envelope []byte) (*Envelope, Grant, error) {
	e, err := parseGrant(envelope)
	if err != nil {
		return nil, Grant{}, err
	}
	var g Grant
	if _, err := exact(e.Payload, &g); err != nil {
		return nil, Grant{}, invalid("the grant: %s", bare(err))
	}
	return e, g, g.check()
}

// Vouched reports whether a verified start grant vouches for the input of its run: a key
// that the admins have stated for that has signed it. In development all do.
func Vouched(s State, envelope []byte) (bool, error) {
	if s.Audience == Dev {
		return true, nil
	}
	e, g, err := readGrant(envelope)
	if err != nil {
		return false, err
	}
	var keys []Public
	for _, text := range s.Agents[g.Agent].Vouching {
		k, err := ParsePublic(text)
		if err != nil {
			return false, err
		}
		keys = append(keys, k)
	}
	return len(keys) > 0 && len(e.By(keys)) > 0, nil
}

// VerifyGrant verifies a start grant in a state at an instant: a key that may act for its
// agent must have signed it, and it must be for exactly this run. want names the run:
// namespace, workflow id, plan, input and agent. The caller must ensure that no nonce is
// used twice.
func VerifyGrant(s State, envelope []byte, want Grant, at time.Time) (Grant, error) {
	e, g, err := readGrant(envelope)
	if err != nil {
		return Grant{}, err
	}
	for _, f := range []struct{ what, have, want string }{
		{"deployment", g.Deployment, s.Deployment}, {"audience", string(g.Audience), string(s.Audience)},
		{"namespace", g.Namespace, want.Namespace}, {"workflow", g.WorkflowID, want.WorkflowID},
		{"plan", g.Plan, want.Plan}, {"input", g.Input, want.Input}, {"agent", g.Agent, want.Agent},
	} {
		if f.have != f.want {
			return Grant{}, invalid("the grant is for the %s %.120q, not %.120q", f.what, f.have, f.want)
		}
	}
	switch {
	case at.Add(skew).Before(g.Issued.Time()):
		return Grant{}, invalid("the grant is not valid before %s", g.Issued)
	case !at.Before(g.Expires.Time()):
		return Grant{}, invalid("the grant has expired at %s", g.Expires)
	}
	a, ok := s.Agents[g.Agent]
	if !ok {
		return Grant{}, invalid("there is no agent %s", g.Agent)
	}
	keys := make([]Public, len(a.Keys))
	for i, text := range a.Keys {
		if keys[i], err = ParsePublic(text); err != nil {
			return Grant{}, err
		}
	}
	if len(e.By(keys)) == 0 {
		return Grant{}, invalid("no key that may act for %s has signed the grant", g.Agent)
	}
	return g, nil
}

// IsNonce reports whether a text is a nonce as signed documents have it: 128 bits in lower
// case hex.
func IsNonce(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }
