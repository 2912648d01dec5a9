package trust

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// ordering is a deployment in which Sue, a signer, and the keys of an agent give orders.
type ordering struct {
	world    *world
	state    State
	sue, bot *Key
	order    Order
	now      time.Time
}

func newOrdering(t testing.TB) *ordering {
	// The same keys in every process that shares the corpus.
	x := &ordering{sue: seeded(t, 3), bot: seeded(t, 4), now: at(1).Time().Add(time.Minute)}
	x.world = newWorld(t)
	w := x.world
	bot := agent("bot")
	bot.Keys, bot.Requesters = []string{x.bot.Public()}, []string{"rae"}
	x.state = w.state(w.sign(w.state().Draft(day, bot, agent("other"), &EnrollSigner{
		ID: "sue", Person: "sue", Roles: []string{"ops"}, SigType: SigToken, PublicKey: x.sue.Public(), NotBefore: at(0), NotAfter: at(9),
	})))
	x.order = Order{
		Format: OrderFormat, Deployment: "example", Audience: Prod, Namespace: "default", WorkflowID: "run-1", Origin: "o-1", Order: OrderPause, By: "sue", Signer: "sue",
		Reason: "look", Nonce: strings.Repeat("0a", 16), Issued: at(1), Expires: ledger.At(at(1).Time().Add(MaxOrder)),
	}
	return x
}

// signed returns the order with a change, signed by a key, whatever its form.
func (x *ordering) signed(t testing.TB, key *Key, change func(*Order)) []byte {
	t.Helper()
	o := x.order
	if change != nil {
		change(&o)
	}
	raw, err := Encode(&o)
	require.NoError(t, err)
	e := &Envelope{Type: OrderType, Payload: raw}
	require.NoError(t, e.Sign(key))
	out, err := e.Encode()
	require.NoError(t, err)
	return out
}

// byAgent makes it an order of the agent's key.
func byAgent(o *Order) { o.Signer, o.By = "", "rae" }

func TestVerifyOrder(t *testing.T) {
	x := newOrdering(t)
	have, err := VerifyOrder(x.state, x.signed(t, x.sue, nil), x.order, "bot", x.now)
	require.NoError(t, err)
	require.Equal(t, x.order, have)
	have, err = VerifyOrder(x.state, x.signed(t, x.bot, byAgent), x.order, "bot", x.now)
	require.NoError(t, err)
	require.Equal(t, "rae", have.By)

	for name, c := range map[string]struct {
		key    *Key
		change func(*Order)
		agent  string
		at     time.Time
		says   string
	}{
		"another format":           {change: func(o *Order) { o.Format = GrantFormat }, says: "the format is"},
		"another deployment":       {change: func(o *Order) { o.Deployment = "rival" }, says: "for the deployment"},
		"another audience":         {change: func(o *Order) { o.Audience = Dev }, says: "for the audience"},
		"another namespace":        {change: func(o *Order) { o.Namespace = "other" }, says: "for the namespace"},
		"another workflow":         {change: func(o *Order) { o.WorkflowID = "run-2" }, says: "for the workflow"},
		"an earlier run":           {change: func(o *Order) { o.Origin = "o-0" }, says: "for the run"},
		"the other order":          {change: func(o *Order) { o.Order = OrderResume }, says: "the order is to resume"},
		"no order":                 {change: func(o *Order) { o.Order = "stop" }, says: "neither pause nor resume"},
		"no workflow":              {change: func(o *Order) { o.WorkflowID = "" }, says: "a part of the order"},
		"nobody":                   {change: func(o *Order) { o.By = "" }, says: "is not the id of the person who gives the order"},
		"a long reason":            {change: func(o *Order) { o.Reason = strings.Repeat("x", ledger.MaxOrderReason+1) }, says: "the reason has more than"},
		"no nonce":                 {change: func(o *Order) { o.Nonce = "" }, says: "the nonce"},
		"a nonce in capitals":      {change: func(o *Order) { o.Nonce = strings.Repeat("0A", 16) }, says: "the nonce"},
		"valid for too long":       {change: func(o *Order) { o.Expires = ledger.At(o.Expires.Time().Add(time.Millisecond)) }, says: "at most for 1h"},
		"never valid":              {change: func(o *Order) { o.Expires = o.Issued }, says: "valid for some time"},
		"early":                    {at: at(1).Time().Add(-skew - time.Millisecond), says: "not valid before"},
		"late":                     {at: at(1).Time().Add(MaxOrder), says: "has expired"},
		"by nobody enrolled":       {change: func(o *Order) { o.Signer = "zed" }, says: `no signer "zed"`},
		"in another's name":        {change: func(o *Order) { o.By = "rae" }, says: "is not one of"},
		"with another key":         {key: x.bot, says: "the key of the signer sue has not signed"},
		"by another agent's key":   {key: x.bot, change: byAgent, agent: "other", says: `no key that may act for "other"`},
		"for an unknown agent":     {key: x.bot, change: byAgent, agent: "zed", says: `no key that may act for "zed"`},
		"with no key of the agent": {key: x.sue, change: byAgent, says: `no key that may act for "bot"`},
		"for whom it may not speak": {key: x.bot, change: func(o *Order) {
			byAgent(o)
			o.By = "sue"
		}, says: "may speak for"},
	} {
		t.Run(name, func(t *testing.T) {
			key, by, now := c.key, c.agent, c.at
			if key == nil {
				key = x.sue
			}
			if by == "" {
				by = "bot"
			}
			if now.IsZero() {
				now = x.now
			}
			_, err := VerifyOrder(x.state, x.signed(t, key, c.change), x.order, by, now)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.says)
		})
	}

	revoked, err := x.state.Next(x.world.sign(x.state.Draft(day, &RevokeSigner{"sue"})))
	require.NoError(t, err)
	_, err = VerifyOrder(revoked, x.signed(t, x.sue, nil), x.order, "bot", x.now)
	require.ErrorContains(t, err, "or it is revoked")
}

// FuzzVerifyOrder: whatever arrives as an order, it is refused or it is what a key has signed.
func FuzzVerifyOrder(f *testing.F) {
	x := newOrdering(f)
	real := map[string]bool{}
	for _, raw := range [][]byte{x.signed(f, x.sue, nil), x.signed(f, x.bot, byAgent)} {
		e, err := ParseEnvelope(raw, OrderType)
		require.NoError(f, err)
		real[e.Digest()] = true
		f.Add(raw)
	}
	f.Add(x.signed(f, x.bot, nil))
	f.Add([]byte(`{"payloadType":"` + OrderType + `","payload":"","signatures":[]}`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := VerifyOrder(x.state, raw, x.order, "bot", x.now)
		if err != nil {
			return
		}
		e, err := ParseEnvelope(raw, OrderType)
		if err != nil || !real[e.Digest()] || o.Order != OrderPause {
			t.Fatalf("taken for an order: %s", raw)
		}
	})
}
