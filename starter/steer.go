package main

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// steering is what a run is told, and by whom.
type steering struct {
	order   contract.Order
	by      string
	signing signing
}

func pauseCommand(p *Program, fs *flag.FlagSet) action {
	return p.steerCommand(fs, contract.OrderPause)
}

func resumeCommand(p *Program, fs *flag.FlagSet) action {
	return p.steerCommand(fs, contract.OrderResume)
}

func (p *Program) steerCommand(fs *flag.FlagSet, o contract.Order) action {
	s := &steering{order: o}
	fs.StringVar(&s.signing.reason, "reason", "", "`TEXT` that says why; the ledger has it")
	fs.StringVar(&s.by, "by", "", "`PERSON` who gives the order (the requester of the configuration, or the user of this machine)")
	fs.StringVar(&s.signing.signer, "signer", "", "`ID` of the signer who signs the order; without it, a key does that may act for the run's agent")
	fs.StringVar(&s.signing.key, "key", "", "private `KEY` that signs the order: a PEM file, a reference such as ${env:NAME}, or the URI of a key on a token (in dev mode, dev mode's)")
	fs.StringVar(&s.signing.ssh, "ssh", "", "`FILE` of the signer's OpenSSH key, private or public, with which ssh-keygen signs")
	fs.DurationVar(&s.signing.within, "within", time.Minute, "`TIME` for which the order is sent again where the run is busy or away")
	return func(ctx context.Context, operands []string) error {
		if len(s.signing.reason) > ledger.MaxOrderReason || len(s.by) > ledger.MaxOrderBy {
			return misuse("--reason has at most %d bytes, and --by %d", ledger.MaxOrderReason, ledger.MaxOrderBy)
		}
		return p.steer(ctx, operands[0], s)
	}
}

// steer tells a run to pause, or to go on, and shows what became of that.
func (p *Program) steer(ctx context.Context, id string, s *steering) error {
	conn, err := p.connect(ctx)
	if err != nil {
		return err
	}
	argument, err := p.ordered(ctx, conn, id, s)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.signing.within)
	defer cancel()
	send, done := conn.runs.Pause, "paused"
	if s.order == contract.OrderResume {
		send, done = conn.runs.Resume, "resumed"
	}
	a, err := send(bounded, id, argument)
	if err != nil {
		return conn.failed(err)
	}
	unchanged := a.Code == contract.CodeUnchanged
	if unchanged {
		a.Accepted = true
		if a.State = contract.RunRunning; s.order == contract.OrderPause {
			a.State = contract.RunPaused
		}
	}
	if p.json() {
		if err := p.document(struct {
			OK    bool           `json:"ok"`
			Run   string         `json:"run"`
			Order contract.Order `json:"order"`
			contract.Steering
		}{a.Accepted, id, s.order, a}); err != nil {
			return err
		}
	}
	if !a.Accepted {
		return negative("the run was not %s: %s: %s", done, a.Code, printable(a.Detail))
	}
	if p.json() {
		return nil
	}
	p.printf("%s\n", id)
	verified := "nobody has signed the order"
	if a.Verified {
		verified = "the order is signed"
	}
	switch {
	case unchanged && s.order == contract.OrderPause:
		p.say("the run is paused already")
	case unchanged:
		p.say("the run is not paused")
	case s.order == contract.OrderPause:
		p.say("paused (%s): nothing new starts; %s lets it go on", verified, p.command("resume", id))
	default:
		p.say("resumed (%s)", verified)
	}
	return nil
}

// ordered returns the argument of the update: signed, if there is a key.
func (p *Program) ordered(ctx context.Context, conn *connection, id string, s *steering) (json.RawMessage, error) {
	by := s.by
	if by == "" {
		var err error
		if by, err = person("requester", conn.place.settings.Requester); err != nil {
			return nil, err
		}
	}
	root, err := conn.place.trustRoot(ctx, p)
	if err != nil {
		return nil, err
	}
	given := s.signing.signer != "" || s.signing.key != "" || s.signing.ssh != ""
	unsigned := contract.Asked{By: by, Reason: s.signing.reason}
	switch {
	case !given && root.dev == nil:
		return json.Marshal(unsigned)
	case s.signing.ssh != "" && s.signing.signer == "":
		return nil, misuse("--ssh needs --signer ID: a key of OpenSSH is a signer's").withHint("%s shows the signers.", p.command("signers", "list"))
	case root.bootstrap == nil:
		return nil, unanswered("no root of trust is configured").withHint("Set trust.bootstrap and trust.pin; %s makes a bootstrap.", p.command("trust", "init"))
	}
	l, err := conn.place.ledger(ctx, p)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, err := trust.Read(bounded, l, root.bootstrap)
	if err != nil {
		return nil, untrusted(err)
	}
	if !given {
		// Dev mode's key acts for the agents whose runs were granted with it.
		r, err := l.Run(bounded, id, "")
		if err != nil || !slices.Contains(state.Agents[r.Agent].Keys, root.dev.Key.Public()) {
			return json.Marshal(unsigned)
		}
	}
	v, ok := state.Signers[s.signing.signer]
	if s.signing.signer != "" && (!ok || v.Revoked != nil) {
		return nil, negative("there is no signer %s, or it is revoked", printable(s.signing.signer)).withHint("%s shows them.", p.command("signers", "list"))
	}
	if ok && s.by == "" {
		by = v.Person
	}
	o, err := conn.runs.Order(ctx, id, trust.Order{
		Deployment: state.Deployment, Audience: state.Audience, Order: string(s.order), By: by, Signer: s.signing.signer, Reason: s.signing.reason,
	})
	if err != nil {
		return nil, conn.failed(err)
	}
	e, err := o.Unsigned()
	if err != nil {
		return nil, misuse("%s", err)
	}
	if err := p.signOrder(ctx, root, e, v, s); err != nil {
		return nil, err
	}
	return e.Encode()
}

// signOrder signs with the given key, or with dev mode's, which acts for every agent.
func (p *Program) signOrder(ctx context.Context, root *trustRoot, e *trust.Envelope, v trust.Signer, s *steering) error {
	if s.signing.signer == "" && s.signing.key == "" {
		return e.Sign(root.dev.Key)
	}
	return p.signEnvelope(ctx, root, e, v, &s.signing)
}
