package authority

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Plan is a plan to publish.
type Plan struct {
	// Source is the text of its file, and Digest that of the compiled plan.
	Source []byte
	Digest string
	// Name, Version and Agent are those of the plan.
	Name, Version, Agent string
	// Author is the id of the publisher.
	Author string
}

// ExistsError reports that another plan is published under a name and version.
// Published plans cannot change.
type ExistsError struct {
	// Plan is its name@version, and Digest that of the published compiled plan.
	Plan, Digest string
	// Err says what is wrong with the published plan, or is nil if its content differs.
	Err error
}

func (e *ExistsError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s is there already: %s", e.Plan, e.Err)
	}
	return fmt.Sprintf("%s is published already, with other content (%s)", e.Plan, e.Digest)
}

// Unwrap returns what is wrong with the published plan.
func (e *ExistsError) Unwrap() error { return e.Err }

// Publish stores the source of a plan under its name and version, signed with the
// author's key, if the admins have stated that the author may publish. Without a
// bootstrap, the plan is not signed, and the key may be nil. Publishing the same plan
// again changes nothing.
func (a *Authority) Publish(ctx context.Context, p Plan, key *trust.Key) (ledger.Plan, error) {
	row := ledger.Plan{
		Name: p.Name, Version: p.Version, Digest: p.Digest, SourceDigest: plan.DigestOf(p.Source), Author: p.Author, Agent: p.Agent,
	}
	ref := row.Name + "@" + row.Version
	var stated trust.State
	if a.Bootstrap != nil {
		var err error
		if stated, err = a.sign(ctx, &row, key); err != nil {
			return ledger.Plan{}, err
		}
	}
	if _, err := a.Ledger.PutBlob(ctx, p.Source); err != nil {
		return ledger.Plan{}, err
	}
	kept, err := a.Ledger.PublishPlan(ctx, row)
	if errors.Is(err, ledger.ErrConflict) {
		return ledger.Plan{}, &ExistsError{Plan: ref, Digest: kept.Digest}
	}
	if err != nil {
		return ledger.Plan{}, err
	}
	if a.Bootstrap != nil {
		if err := trust.Authored(stated, ref, kept); err != nil {
			return ledger.Plan{}, &ExistsError{Plan: ref, Digest: kept.Digest, Err: err}
		}
	}
	return kept, nil
}

// sign signs a plan as its author, and returns what the admins have stated.
func (a *Authority) sign(ctx context.Context, row *ledger.Plan, key *trust.Key) (trust.State, error) {
	s, err := a.State(ctx)
	if err != nil {
		return s, err
	}
	if key == nil {
		return s, fmt.Errorf("%w: there is no key to sign the plan with", trust.ErrInvalid)
	}
	row.Signature, err = trust.SignPlan(key, trust.Plan{
		Deployment: s.Deployment, Audience: s.Audience, Author: row.Author, Name: row.Name, Version: row.Version,
		SourceDigest: row.SourceDigest, Digest: row.Digest, Issued: ledger.At(time.Now()),
	})
	if err == nil {
		err = trust.Authored(s, row.Name+"@"+row.Version, *row)
	}
	return s, err
}

// Published finds a plan by its name@version, by its name, for the version published
// last, or by the digest of the compiled plan. It verifies the plan against what the
// admins have stated. The error is [ledger.ErrNotFound] if there is no such plan.
func (a *Authority) Published(ctx context.Context, ref string) (ledger.Plan, error) {
	kept, err := a.Ledger.Plan(ctx, ref)
	if err != nil {
		return kept, fmt.Errorf("finding the plan %s: %w", ref, err)
	}
	if a.Bootstrap == nil {
		return kept, nil
	}
	s, err := a.State(ctx)
	if err != nil {
		return kept, err
	}
	if ref == kept.Name {
		ref += "@" + kept.Version
	}
	return kept, trust.Authored(s, ref, kept)
}
