package trust

import (
	"errors"
	"strings"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

const (
	// StatementFormat is the first field of every statement, StatementType the
	// payload type of its envelope.
	StatementFormat = "chimera.ai/trust/statement/v1"
	StatementType   = "application/vnd.chimera.authority.v1+json"
)

// Statement is what admins sign.
type Statement struct {
	Format     string   `json:"format"`
	Deployment string   `json:"deployment"`
	Audience   Audience `json:"audience"`
	// N is its place in the chain, from 1, and Prev the digest of the payload
	// before, or of the bootstrap.
	N      int         `json:"n"`
	Prev   string      `json:"prev"`
	Issued ledger.Time `json:"issued"`
	// NotBefore and Expires bound when it may be published. That is checked when it is
	// published, and again by whoever knows when that was.
	NotBefore *ledger.Time `json:"not_before,omitempty"`
	Expires   *ledger.Time `json:"expires,omitempty"`
	Acts      Acts         `json:"acts"`
}

// check checks the rules that need no state.
func (st *Statement) check() error {
	if st.Format != StatementFormat {
		return invalid("the format is %.80q, not %s", st.Format, StatementFormat)
	}
	if n := len(st.Acts); n == 0 || n > MaxActs {
		return invalid("%d acts; there must be between 1 and %d", n, MaxActs)
	}
	if st.Expires != nil {
		end := st.Expires.Time()
		if end.Before(st.Issued.Time()) || st.NotBefore != nil && end.Before(st.NotBefore.Time()) {
			return invalid("it expires before it becomes valid")
		}
	}
	for i, a := range st.Acts {
		if err := a.check(); err != nil {
			return invalid("act %d (%s): %s", i, a.Kind(), bare(err))
		}
	}
	return nil
}

// Within returns an error unless the statement may be published at an instant.
func (st *Statement) Within(at time.Time) error {
	switch {
	case st.NotBefore != nil && at.Before(st.NotBefore.Time()):
		return invalid("it must not be published before %s", st.NotBefore)
	case st.Expires != nil && at.After(st.Expires.Time()):
		return invalid("it has expired at %s", st.Expires)
	}
	return nil
}

// Draft returns the statement that follows a state with these acts, unsigned.
func (s State) Draft(issued time.Time, acts ...Act) *Statement {
	at := ledger.At(issued)
	if at.Time().Before(s.Issued.Time()) {
		at = s.Issued
	}
	return &Statement{
		Format: StatementFormat, Deployment: s.Deployment, Audience: s.Audience, N: s.N + 1, Prev: s.Head, Issued: at, Acts: acts,
	}
}

// Envelope returns the envelope of a statement, signed by the keys.
func (st *Statement) Envelope(keys ...*Key) (*Envelope, error) {
	if err := st.check(); err != nil {
		return nil, err
	}
	raw, err := canon(st)
	if err != nil {
		return nil, invalid("the statement: %s", err)
	}
	e := &Envelope{Type: StatementType, Payload: raw}
	for _, k := range keys {
		if err := e.Sign(k); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// ParseDraft is like [ParseStatement], for a statement that may have no signature yet.
func ParseDraft(raw []byte) (*Statement, *Envelope, error) {
	e, err := parseEnvelope(raw, StatementType, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := e.statement()
	if err != nil {
		return nil, nil, err
	}
	return st, e, nil
}

// ParseStatement reads an envelope with a statement. It verifies no signature:
// [State.Next] does.
func ParseStatement(raw []byte) (*Statement, *Envelope, error) {
	e, err := ParseEnvelope(raw, StatementType)
	if err != nil {
		return nil, nil, err
	}
	st, err := e.statement()
	if err != nil {
		return nil, nil, err
	}
	return st, e, nil
}

// statement reads the payload of an envelope.
func (e *Envelope) statement() (*Statement, error) {
	st := new(Statement)
	if _, err := exact(e.Payload, st); err != nil {
		return nil, invalid("the statement: %s", bare(err))
	}
	return st, st.check()
}

// Digest returns the digest that the next statement names as its prev.
func (e *Envelope) Digest() string { return plan.DigestOf(e.Payload) }

// bare returns the text of an error without the prefix of [ErrInvalid], for an error that
// has it again.
func bare(err error) string {
	if errors.Is(err, ErrInvalid) {
		return strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": ")
	}
	return err.Error()
}
