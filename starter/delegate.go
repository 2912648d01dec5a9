package main

import (
	"context"
	"slices"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// delegateCommand makes a delegation. It is the word of the delegator alone: nothing is
// stated in the ledger, and who has the file shows it with each signature.
func delegateCommand(p *Program, fs *flag.FlagSet) action {
	var roles, agents texts
	s := new(signing)
	fs.StringVar(&s.signer, "signer", "", "`ID` of the signer for whom the other signs")
	fs.StringVar(&s.key, "key", "", "that signer's private `KEY`: a PEM file, a reference such as ${env:NAME}, or the URI of a key on a token (in dev mode, dev mode's)")
	fs.StringVar(&s.ssh, "ssh", "", "`FILE` of that signer's OpenSSH key, private or public, with which ssh-keygen signs")
	fs.Var(&roles, "role", "`ROLE` of the signer in which the other signs; may be repeated")
	fs.Var(&agents, "agent", "`ID` of an agent for whose actions it is; may be repeated (all agents)")
	valid := fs.String("valid", "", "`TIME` for which it is valid from now on, such as 14d; at most 90d")
	until := fs.String("until", "", "last `DATE`, in UTC, on which it is valid, or a time in RFC 3339 until which it is; instead of --valid")
	out := fs.String("out", "", "`FILE` to create, which is given to the other")
	return func(ctx context.Context, operands []string) error {
		switch {
		case s.signer == "":
			return misuse("chimera approvals delegate needs --signer ID")
		case len(roles) == 0:
			return misuse("chimera approvals delegate needs --role ROLE")
		case *valid == "" && *until == "":
			return misuse("chimera approvals delegate needs --valid TIME or --until DATE")
		case *out == "":
			return misuse("chimera approvals delegate needs --out FILE")
		}
		from := time.Now()
		to, err := lastOf(*valid, *until, from)
		if err != nil {
			return err
		}
		r, root, err := p.reviewer(ctx)
		if err != nil {
			return err
		}
		d := &approval.Delegation{
			Deployment: r.State.Deployment, Audience: r.State.Audience, Delegator: s.signer, Delegate: operands[0],
			Roles: slices.Compact(slices.Sorted(slices.Values(roles))), Agents: slices.Compact(slices.Sorted(slices.Values(agents))),
			NotBefore: ledger.At(from), Expires: ledger.At(to),
		}
		raw, err := p.delegation(ctx, root, r.State, d, s)
		if err != nil {
			return err
		}
		if err := wholefile.Create(*out, append(raw, '\n')); err != nil {
			return misuse("%s", err)
		}
		if p.json() {
			return p.document(struct {
				OK         bool                 `json:"ok"`
				File       string               `json:"file"`
				Delegation *approval.Delegation `json:"delegation"`
			}{true, *out, d})
		}
		p.printf("%s\n", *out)
		p.say("%s may sign for %s as %s until %s", printable(d.Delegate), printable(d.Delegator), printable(strings.Join(d.Roles, ", ")), localTime(d.Expires))
		return nil
	}
}

// delegation signs a delegation, and returns its envelope. It signs nothing that would not
// count.
func (p *Program) delegation(ctx context.Context, root *trustRoot, state trust.State, d *approval.Delegation, s *signing) ([]byte, error) {
	d.Nonce = trust.Nonce()
	if err := d.Check(state); err != nil {
		return nil, negative("the delegation would not count: %s", err)
	}
	for _, id := range d.Agents {
		if _, ok := state.Agents[id]; !ok {
			return nil, negative("there is no agent %s", printable(id)).withHint("%s shows them.", p.command("agents", "list"))
		}
	}
	e, err := d.Unsigned()
	if err != nil {
		return nil, misuse("%s", err)
	}
	from := state.Signers[d.Delegator]
	if err := p.signEnvelope(ctx, root, e, from, s); err != nil {
		return nil, err
	}
	if !from.Signed(e) {
		return nil, negative("the key is not that of the signer %s", printable(d.Delegator))
	}
	raw, err := e.Encode()
	if err == nil && len(raw) > approval.MaxDelegationBytes {
		return nil, misuse("the delegation has %d bytes, more than %d", len(raw), approval.MaxDelegationBytes)
	}
	return raw, err
}
