package authority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/trust"
)

// Statement is a statement of the admins that was proposed or applied.
type Statement struct {
	// N is its number in the chain, and Digest that of the signed content.
	N      int
	Digest string
	// SignedBy holds the ids of the admins who have signed, Persons is the number of
	// persons they are, and Quorum the number of persons required.
	SignedBy        []string
	Persons, Quorum int
	Acts            trust.Acts
	// Envelope is the statement with its signatures.
	Envelope []byte
}

// Missing returns how many persons must still sign.
func (s *Statement) Missing() int { return max(s.Quorum-s.Persons, 0) }

// KeyError reports that a key is not an admin's.
type KeyError struct{ Key *trust.Key }

func (e *KeyError) Error() string { return fmt.Sprintf("%s is not one of an admin", e.Key) }

// Propose makes the next statement, signed with any number of admins' keys. It takes
// effect once it is applied. The error is a [KeyError] if a key is not an admin's.
func (a *Authority) Propose(ctx context.Context, acts trust.Acts, keys ...*trust.Key) (*Statement, error) {
	s, err := a.State(ctx)
	if err != nil {
		return nil, err
	}
	return propose(s, acts, keys)
}

func propose(s trust.State, acts trust.Acts, keys []*trust.Key) (*Statement, error) {
	if err := s.Try(acts...); err != nil {
		return nil, err
	}
	for _, k := range keys {
		if !slices.ContainsFunc(s.Admins, func(a trust.Admin) bool { return a.Key == k.Public() }) {
			return nil, &KeyError{k}
		}
	}
	e, err := s.Draft(time.Now(), acts...).Envelope(keys...)
	if err != nil {
		return nil, err
	}
	return statement(s, s.N+1, acts, e)
}

// Apply puts a statement that enough admins have signed into effect. Applying it again
// changes nothing.
func (a *Authority) Apply(ctx context.Context, envelope []byte) (*Statement, error) {
	st, e, err := trust.ParseStatement(envelope)
	if err != nil {
		return nil, err
	}
	if err := a.rooted(); err != nil {
		return nil, err
	}
	w := trust.NewWriter(a.Ledger, a.Bootstrap)
	before, err := w.State(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := w.Publish(ctx, envelope, time.Now()); err != nil {
		return nil, err
	}
	if _, err := w.Settle(ctx); err != nil {
		return nil, err
	}
	return statement(before, st.N, st.Acts, e)
}

// ApplyEach makes a statement of each of the parts, one after the other, signed with admins' keys, and
// puts them into effect. After an error, those that it returns are stated; their rows may not be written,
// and one more may be stated.
func (a *Authority) ApplyEach(ctx context.Context, parts []trust.Acts, keys ...*trust.Key) (made []*Statement, err error) {
	if err := a.rooted(); err != nil {
		return nil, err
	}
	w := trust.NewWriter(a.Ledger, a.Bootstrap)
	for _, acts := range parts {
		var s trust.State
		if s, err = w.State(ctx); err != nil {
			break
		}
		var next *Statement
		if next, err = propose(s, acts, keys); err != nil {
			break
		}
		if _, err = w.Publish(ctx, next.Envelope, time.Now()); err != nil {
			break
		}
		made = append(made, next)
	}
	if len(made) > 0 {
		_, unsettled := w.Settle(ctx)
		err = errors.Join(err, unsettled)
	}
	return made, err
}

// statement finds which admins of a state have signed an envelope.
func statement(s trust.State, n int, acts trust.Acts, e *trust.Envelope) (*Statement, error) {
	who, persons, err := s.Signed(e)
	if err != nil {
		return nil, err
	}
	raw, err := e.Encode()
	if err != nil {
		return nil, err
	}
	return &Statement{
		N: n, Digest: e.Digest(), SignedBy: append([]string{}, who...), Persons: persons, Quorum: s.Quorum, Acts: acts, Envelope: raw,
	}, nil
}
