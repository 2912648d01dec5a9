package trust

import (
	"time"
	"unicode/utf8"

	"chimera.ai/engine/ledger"
)

const (
	// OrderFormat and OrderType are of an order to a run.
	OrderFormat = "chimera.ai/trust/order/v1"
	OrderType   = "application/vnd.chimera.order.v1+json"
	// MaxOrder bounds how long an order is valid.
	MaxOrder = time.Hour
)

// What a run is told to do.
const (
	OrderPause  = "pause"
	OrderResume = "resume"
)

// Order tells a run to pause, or to go on.
type Order struct {
	Format     string   `json:"format"`
	Deployment string   `json:"deployment"`
	Audience   Audience `json:"audience"`
	// Namespace is the Temporal namespace of the run, WorkflowID its id, and Origin the id
	// of its first Temporal run: see [ledger.Run.Origin].
	Namespace  string `json:"namespace"`
	WorkflowID string `json:"workflow_id"`
	Origin     string `json:"origin"`
	// Order is OrderPause or OrderResume.
	Order string `json:"order"`
	// By is the person who gives it, and Signer the id of the person's key. Without a signer
	// a key has signed it that may act for the run's agent, and speak for the person.
	By     string `json:"by"`
	Signer string `json:"signer,omitempty"`
	// Reason is for people, of at most [ledger.MaxOrderReason] bytes.
	Reason string `json:"reason,omitempty"`
	// Nonce is 32 hex digits.
	Nonce   string      `json:"nonce"`
	Issued  ledger.Time `json:"issued"`
	Expires ledger.Time `json:"expires"`
}

func (o *Order) check() error {
	if o.Format != OrderFormat {
		return invalid("the format is %.80q, not %s", o.Format, OrderFormat)
	}
	if o.Order != OrderPause && o.Order != OrderResume {
		return invalid("the order is %.40q, which is neither %s nor %s", o.Order, OrderPause, OrderResume)
	}
	for _, s := range []string{o.Deployment, o.Namespace, o.WorkflowID, o.Origin} {
		if err := name("a part of the order", s); err != nil {
			return err
		}
	}
	if err := person("the person who gives the order", o.By); err != nil {
		return err
	}
	if len(o.Reason) > ledger.MaxOrderReason || !utf8.ValidString(o.Reason) {
		return invalid("the reason has more than %d bytes, or is not UTF-8", ledger.MaxOrderReason)
	}
	if !IsNonce(o.Nonce) {
		return invalid("the nonce is not 32 hex digits")
	}
	if d := o.Expires.Time().Sub(o.Issued.Time()); d <= 0 || d > MaxOrder {
		return invalid("an order must be valid for some time, and at most for %s", MaxOrder)
	}
	return nil
}

// Unsigned returns the envelope of an order without a signature. The format may be left out.
func (o Order) Unsigned() (*Envelope, error) {
	o.Format = OrderFormat
	if err := o.check(); err != nil {
		return nil, err
	}
	raw, err := Encode(&o)
	if err != nil {
		return nil, err
	}
	return &Envelope{Type: OrderType, Payload: raw}, nil
}

// VerifyOrder verifies an order in a state at an instant: the signer that it names, or a key
// that may act for the agent, must have signed it, and it must be for exactly this run. want
// names the run and what it is told: namespace, workflow id, origin and order.
func VerifyOrder(s State, envelope []byte, want Order, agent string, at time.Time) (Order, error) {
	e, err := ParseEnvelope(envelope, OrderType)
	if err != nil {
		return Order{}, err
	}
	var o Order
	if _, err := exact(e.Payload, &o); err != nil {
		return Order{}, invalid("the order: %s", bare(err))
	}
	if err := o.check(); err != nil {
		return Order{}, err
	}
	for _, f := range []struct{ what, have, want string }{
		{"deployment", o.Deployment, s.Deployment}, {"audience", string(o.Audience), string(s.Audience)},
		{"namespace", o.Namespace, want.Namespace}, {"workflow", o.WorkflowID, want.WorkflowID}, {"run", o.Origin, want.Origin},
	} {
		if f.have != f.want {
			return Order{}, invalid("the order is for the %s %.120q, not %.120q", f.what, f.have, f.want)
		}
	}
	switch {
	case o.Order != want.Order:
		return Order{}, invalid("the order is to %s, not to %s", o.Order, want.Order)
	case at.Add(skew).Before(o.Issued.Time()):
		return Order{}, invalid("the order is not valid before %s", o.Issued)
	case !at.Before(o.Expires.Time()):
		return Order{}, invalid("the order has expired at %s", o.Expires)
	case o.Signer != "":
		return o, s.signed(e, &o, at)
	}
	return o, s.acted(e, &o, agent)
}

// signed checks that the signer of an order has signed it.
func (s State) signed(e *Envelope, o *Order, at time.Time) error {
	v, ok := s.Signers[o.Signer]
	switch {
	case !ok || v.Revoked != nil:
		return invalid("there is no signer %.120q, or it is revoked", o.Signer)
	case at.Add(skew).Before(v.NotBefore.Time()) || !at.Before(v.NotAfter.Time()):
		return invalid("the key of the signer %s is valid from %s to %s", o.Signer, v.NotBefore, v.NotAfter)
	case v.Person != o.By:
		return invalid("the key of the signer %s is not one of %.120q", o.Signer, o.By)
	case !v.Signed(e):
		return invalid("the key of the signer %s has not signed the order", o.Signer)
	}
	return nil
}

// acted checks that a key that may act for an agent, and speak for the person, has signed.
func (s State) acted(e *Envelope, o *Order, agent string) error {
	a := s.Agents[agent]
	keys := make([]Public, len(a.Keys))
	for i, text := range a.Keys {
		var err error
		if keys[i], err = ParsePublic(text); err != nil {
			return err
		}
	}
	switch {
	case len(e.By(keys)) == 0:
		return invalid("no key that may act for %.120q has signed the order", agent)
	case !s.Speaks(agent, o.By):
		return invalid("the admins have not stated that the keys of %.120q may speak for %.120q", agent, o.By)
	}
	return nil
}
