package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	flag "github.com/spf13/pflag"
	"golang.org/x/term"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/sshkeygen"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/review"
	"chimera.ai/engine/trust"
)

// signing is how somebody signs.
type signing struct {
	signer, role, key, ssh, delegation, reason string
	yes                                        bool
	within                                     time.Duration
	// envelope is what the file of delegation holds.
	envelope string
}

func (s *signing) flags(fs *flag.FlagSet) {
	fs.StringVar(&s.signer, "signer", "", "`ID` of the signer (in dev mode, dev mode's own)")
	fs.StringVar(&s.role, "role", "", "`ROLE` to sign in; absent: the one of the signer, or of the delegation, that is missing")
	fs.StringVar(&s.key, "key", "", "signer's private `KEY`: a PEM file, a reference such as ${env:NAME}, or the URI of a key on a token (in dev mode, dev mode's)")
	fs.StringVar(&s.ssh, "ssh", "", "`FILE` of the signer's OpenSSH key, private or public, with which ssh-keygen signs")
	fs.StringVar(&s.delegation, "delegation", "", "`FILE` with the delegation of whom the signer signs for")
	fs.BoolVar(&s.yes, "yes", false, "do not ask whether the text is right")
	fs.DurationVar(&s.within, "within", 2*time.Minute, "`TIME` for which the signature is sent again where the run is flooded or away")
}

func approveCommand(p *Program, fs *flag.FlagSet) action {
	s := new(signing)
	s.flags(fs)
	outcome := fs.String("outcome", "", "what a call did that nobody knows the outcome of: `executed|not_executed`")
	fs.StringVar(&s.reason, "reason", "", "`TEXT` that says how you know, with --outcome; it is shown to everybody")
	return func(ctx context.Context, operands []string) error {
		d := approval.Approve
		if *outcome != "" {
			d = approval.Decision(*outcome)
		}
		switch {
		case *outcome != "" && !d.States():
			return misuse("--outcome is executed or not_executed, not %s", printable(*outcome))
		case *outcome != "" && strings.TrimSpace(s.reason) == "":
			return misuse("chimera approvals sign --outcome needs --reason TEXT")
		}
		return p.sign(ctx, operands[0], d, s)
	}
}

func rejectCommand(p *Program, fs *flag.FlagSet) action {
	s := new(signing)
	s.flags(fs)
	fs.StringVar(&s.reason, "reason", "", "`TEXT` that says why; it is shown to everybody")
	return func(ctx context.Context, operands []string) error {
		if strings.TrimSpace(s.reason) == "" {
			return misuse("chimera approvals reject needs --reason TEXT")
		}
		return p.sign(ctx, operands[0], approval.Reject, s)
	}
}

// sign signs a barrier, and shows what became of that.
func (p *Program) sign(ctx context.Context, what string, d approval.Decision, s *signing) error {
	conn, err := p.connect(ctx)
	if err != nil {
		return err
	}
	o, v, err := p.send(ctx, conn, what, d, s)
	if err != nil {
		return err
	}
	return p.verdict(&o, d, v)
}

// send makes a signature for a barrier over what is computed here, and sends it to the run.
func (p *Program) send(ctx context.Context, conn *connection, what string, d approval.Decision, s *signing) (o review.Open, v contract.Verdict, err error) {
	r, root, err := p.reviewerAt(ctx, conn.place)
	if err != nil {
		return o, v, err
	}
	o, text, err := p.reviewed(ctx, r, what)
	if err != nil {
		return o, v, err
	}
	if o.Barrier.State.Closed() {
		return o, v, negative("nobody is asked any more: the barrier is %s%s", o.Barrier.State, reasonOf(o.Barrier.Reason))
	}
	if err := answers(&o, d); err != nil {
		return o, v, err
	}
	if err := p.chosen(ctx, conn.place, r, root, &o, s); err != nil {
		return o, v, err
	}
	if person := r.State.Signers[s.signer].Person; o.Request.Rule.Excludes(person) {
		return o, v, excluded("%s must not approve this", person)
	}
	if err := p.confirmed(o.Request.Workflow, text, d, s); err != nil {
		return o, v, err
	}
	envelope, err := p.signature(ctx, root, r, &o, d, s)
	if err != nil {
		return o, v, err
	}
	if s.key == "" && s.ssh == "" {
		p.say("signed with dev mode's key, in software: it counts on this machine alone")
	}
	bounded, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	if v, err = conn.runs.Sign(bounded, o.Request.Workflow, envelope); err != nil {
		return o, v, conn.failed(err)
	}
	return o, v, nil
}

// answers returns an error unless a decision answers what people are asked.
func answers(o *review.Open, d approval.Decision) error {
	switch asked := o.Request.Kind == approval.Outcome; {
	case asked && !d.States():
		return misuse("people are asked what a call did, not whether it may be made").withHint("Find that out, and sign with --outcome executed, or not_executed, and --reason TEXT.")
	case !asked && d.States():
		return misuse("people are asked for their approval, not what a call did").withHint("Sign without --outcome.")
	}
	return nil
}

// chosen completes who signs, and in which role. In dev mode that is dev mode's key, which is
// enrolled for the roles that are asked for.
func (p *Program) chosen(ctx context.Context, at *place, r *review.Reader, root *trustRoot, o *review.Open, s *signing) error {
	if s.signer == "" && root.dev != nil && s.key == "" && s.ssh == "" {
		if err := p.devSigner(ctx, at, r, root, o, s); err != nil {
			return err
		}
	}
	v, ok := r.State.Signers[s.signer]
	switch {
	case s.signer == "":
		return misuse("chimera approvals needs --signer ID, and --key KEY or --ssh FILE").withHint("%s shows the signers.", p.command("signers", "list"))
	case !ok || v.Revoked != nil:
		return negative("there is no signer %s, or it is revoked", printable(s.signer)).withHint("%s shows them.", p.command("signers", "list"))
	}
	if s.delegation != "" {
		envelope, err := p.lent(s.delegation, s.signer)
		if err != nil {
			return err
		}
		s.envelope = string(envelope)
	}
	if s.role != "" {
		return nil
	}
	if role, _, ok := o.Role(r.State, s.signer, []byte(s.envelope)); ok {
		s.role = role
		return nil
	}
	// No approval of the signer would help. A rejection does, and of anything else the run says
	// why not.
	asked, now := o.Request.Asked(), time.Now()
	for _, g := range asked {
		ok := v.Has(g.Role)
		if s.delegation != "" {
			_, _, err := approval.Delegator(r.State, o.Request, []byte(s.envelope), s.signer, g.Role, now, now)
			ok = err == nil
		}
		if ok {
			s.role = g.Role
			return nil
		}
	}
	if s.delegation != "" {
		s.role = asked[0].Role // what is wrong with the delegation is found where it is verified
		return nil
	}
	return negative("the signer %s has none of the roles that are asked for: %s", printable(s.signer), missingOf(o.Request.Asked()))
}

// devSignerID is the signer of dev mode's key, and devSignerLife how long it is valid.
const (
	devSignerID   = "dev"
	devSignerLife = 365 * 24 * time.Hour
)

// devSigner lets dev mode's key sign in all roles that are asked for.
func (p *Program) devSigner(ctx context.Context, at *place, r *review.Reader, root *trustRoot, o *review.Open, s *signing) error {
	l, err := at.ledger(ctx, p)
	if err != nil {
		return err
	}
	var roles []string
	for _, g := range o.Request.Asked() {
		roles = append(roles, g.Role)
	}
	slices.Sort(roles)
	key := root.dev.Key
	state, err := root.state(ctx, l, func(t trust.State) []trust.Act {
		have, ok := t.Signers[devSignerID]
		if !ok {
			now := time.Now()
			return []trust.Act{&trust.EnrollSigner{
				ID: devSignerID, Person: root.bootstrap.Admins[0].Person, Roles: roles, SigType: trust.SigDev, PublicKey: key.Public(),
				NotBefore: ledger.At(now), NotAfter: ledger.At(now.Add(devSignerLife)),
			}}
		}
		missing := slices.DeleteFunc(slices.Clone(roles), have.Has)
		if len(missing) == 0 || have.Revoked != nil {
			return nil
		}
		return []trust.Act{&trust.GrantRoles{Signer: devSignerID, Roles: missing}}
	})
	if err != nil {
		return untrusted(err)
	}
	r.State, s.signer = state, devSignerID
	return nil
}

// confirmed shows the text about a run, and asks whether it is right, unless that was said
// before.
func (p *Program) confirmed(run, text string, d approval.Decision, s *signing) error {
	if s.yes {
		return nil
	}
	if in, ok := p.Stdin.(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return misuse("there is no terminal to show on what would be signed").withHint("Look at it with %s, and sign with --yes.", p.command("approvals", "show", run))
	}
	p.say("%s", text)
	what := fmt.Sprintf("to %s this", d)
	if d.States() {
		what = fmt.Sprintf("that this call was %s", strings.ReplaceAll(string(d), "_", " "))
	}
	p.say("Sign %s, as %s in the role %s? Type yes.", what, printable(s.signer), printable(s.role))
	line, err := bufio.NewReader(p.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "yes" {
		return negative("nothing was signed")
	}
	return nil
}

// signature makes the envelope.
func (p *Program) signature(ctx context.Context, root *trustRoot, r *review.Reader, o *review.Open, d approval.Decision, s *signing) (json.RawMessage, error) {
	payload := o.Request.Payload(o.Digest, d)
	now := time.Now()
	payload.Reason, payload.Signer, payload.Role, payload.Nonce = s.reason, s.signer, s.role, trust.Nonce()
	payload.Issued, payload.NotBefore, payload.Expires = ledger.At(now), ledger.At(now.Add(-time.Second)), o.Request.Expires
	payload.Delegation = s.envelope
	e, err := payload.Unsigned()
	if err != nil {
		return nil, misuse("%s", err)
	}
	if err := p.signEnvelope(ctx, root, e, r.State.Signers[s.signer], s); err != nil {
		return nil, err
	}
	raw, err := e.Encode()
	if err != nil {
		return nil, misuse("%s", err)
	}
	if _, err := approval.Verify(r.State, o.Request, o.Digest, raw, time.Now()); err != nil {
		if x := approval.Refused(err); x != nil && x.Code == approval.Excluded {
			return nil, excluded("the run would not accept the signature: %s", err)
		}
		return nil, negative("the run would not accept the signature: %s", err)
	}
	return raw, nil
}

// excluded is the failure of somebody who must not sign.
func excluded(format string, args ...any) *failure {
	return negative(format, args...).withHint("Who has asked for the run, the plan's author and the agent's owner approve nothing, unless the policy says so (approval.may_sign).")
}

// signEnvelope signs with the signer's key.
func (p *Program) signEnvelope(ctx context.Context, root *trustRoot, e *trust.Envelope, v trust.Signer, s *signing) error {
	switch {
	case s.ssh != "":
		blob, err := sshkeygen.Sign(ctx, s.ssh, trust.PAE(e.Type, e.Payload))
		if err != nil {
			return misuse("%s", printable(err.Error()))
		}
		e.Signatures = []trust.Signature{{KeyID: v.ID, Sig: blob}}
		return nil
	case s.key != "":
		key, err := p.secretKey(ctx, s.key)
		if err != nil {
			return err
		}
		return e.Sign(key)
	case root.dev != nil && v.PublicKey == root.dev.Key.Public():
		return e.Sign(root.dev.Key)
	}
	return misuse("this needs the signer's key: --key KEY or --ssh FILE")
}

// verdict shows what became of a signature.
func (p *Program) verdict(o *review.Open, d approval.Decision, v contract.Verdict) error {
	if p.json() {
		if err := p.document(struct {
			OK       bool                  `json:"ok"`
			Run      string                `json:"run"`
			Barrier  string                `json:"barrier"`
			Decision approval.Decision     `json:"decision"`
			State    contract.BarrierState `json:"state,omitempty"`
			Missing  []contract.Group      `json:"missing"`
			Code     string                `json:"code,omitempty"`
			Detail   string                `json:"detail,omitempty"`
		}{v.Accepted, o.Request.Workflow, o.Barrier.ID, d, v.State, append([]contract.Group{}, v.Missing...), v.Code, v.Detail}); err != nil {
			return err
		}
	}
	if !v.Accepted {
		return negative("the signature does not count: %s: %s", v.Code, printable(v.Detail))
	}
	if p.json() {
		return nil
	}
	switch v.State {
	case contract.BarrierOpen:
		var missing []plan.Group
		for _, g := range v.Missing {
			missing = append(missing, plan.Group{Role: g.Role, Min: g.Min})
		}
		p.printf("%s\n", o.Request.Workflow)
		p.say("signed; still to sign: %s", missingOf(missing))
	default:
		p.printf("%s\n", o.Request.Workflow)
		p.say("signed; %s", closedAs(o, d, v.State))
	}
	return nil
}

// closedAs says how a signature has closed a barrier.
func closedAs(o *review.Open, d approval.Decision, state contract.BarrierState) string {
	if o.Request.Kind == approval.Outcome && state == contract.BarrierApproved {
		return "it is stated that the call was " + strings.ReplaceAll(string(d), "_", " ")
	}
	return "the barrier is " + string(state)
}

// askEvery is how often chimera dev looks for barriers of the run that it follows.
const askEvery = 500 * time.Millisecond

// approve approves with dev mode's key what the run of chimera dev waits for, until ctx ends or
// that is refused.
func (p *Program) approve(ctx context.Context, conn *connection, t runRef) error {
	tried := map[string]bool{}
	for {
		timer := time.NewTimer(askEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		l, err := conn.place.ledger(ctx, p)
		if err != nil {
			continue // the run says what is wrong
		}
		open, err := l.ListBarriers(ctx, ledger.BarrierOpen, ledger.Page{})
		if err != nil {
			continue
		}
		for _, b := range open {
			if b.Workflow != t.Run || tried[b.ID] {
				continue
			}
			tried[b.ID] = true
			if b.Outcome {
				p.say("%s", p.waitsFor(t.Run, true))
				continue
			}
			s := &signing{yes: true, within: time.Minute}
			_, v, err := p.send(ctx, conn, b.ID, approval.Approve, s)
			now, lost := l.Barrier(ctx, b.ID)
			switch {
			case ctx.Err() != nil:
				return nil
			case lost == nil && now.State.Closed() && !v.Accepted:
				// It has ended by itself, and so perhaps has the run.
				continue
			case err != nil:
				return negative("not approved: %s", err).withHint("The run waits. %s", p.waitsFor(t.Run, false))
			case !v.Accepted:
				return negative("not approved: %s: %s", v.Code, printable(v.Detail)).withHint("The run waits. %s", p.waitsFor(t.Run, false))
			}
			p.say("approved   by %s in the role %s, for --exit; the barrier is %s", s.signer, printable(s.role), v.State)
		}
	}
}
