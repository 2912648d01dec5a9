package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/trust"
)

// agentParts are the sub-commands of chimera agents.
func agentParts() []command {
	return []command{
		{name: "add", operands: "ID", least: 1, most: 1, prepare: addAgentCommand, summary: "add an agent, or change the statement about it"},
		{name: "list", summary: "list the agents, and where the store and the admins differ",
			prepare: func(p *Program, _ *flag.FlagSet) action {
				return func(ctx context.Context, _ []string) error { return p.listAgents(ctx) }
			}},
	}
}

func addAgentCommand(p *Program, fs *flag.FlagSet) action {
	var keys, starts, vouching, requesters texts
	owner := fs.String("owner", "", "`PERSON` who answers for the agent, and never approves what it does")
	persona := fs.String("persona", "", "`REF` of the agent's persona")
	wallet := fs.String("wallet", "", "`ADDRESS` of the agent's wallet")
	fs.Var(&starts, "start-key", "public `KEY`, its text or a PEM file, that may start runs for the agent; may be repeated (in dev mode, dev mode's)")
	fs.Var(&vouching, "vouching-key", "public `KEY` as of --start-key, whose grants also vouch for the input of a run, so that it is not tainted; may be repeated")
	fs.Var(&requesters, "requester", "`PERSON` for whom the start keys may speak: where people approve, who asks for a run is believed only of them; may be repeated")
	fs.Var(&keys, "key", "admin's private `KEY`, a PEM file or a reference such as ${env:NAME}; may be repeated (in dev mode, dev mode's)")
	out := fs.String("out", "", "`FILE` for the statement, if other admins must sign it")
	return func(ctx context.Context, operands []string) error {
		if *owner == "" {
			return misuse("chimera agents add needs --owner PERSON")
		}
		act := &trust.AddAgent{AgentID: operands[0], PersonaRef: *persona, WalletAddress: *wallet, Owner: *owner, Keys: []string{}}
		for _, given := range starts {
			k, err := publicKey("--start-key", given)
			if err != nil {
				return err
			}
			act.Keys = append(act.Keys, k.String())
		}
		for _, given := range vouching {
			k, err := publicKey("--vouching-key", given)
			if err != nil {
				return err
			}
			if !slices.Contains(act.Keys, k.String()) {
				act.Keys = append(act.Keys, k.String())
			}
			act.Vouching = append(act.Vouching, k.String())
		}
		act.Requesters = slices.Compact(slices.Sorted(slices.Values(requesters)))
		if len(act.Keys) == 0 {
			_, root, err := p.authority(ctx)
			if err != nil {
				return err
			}
			if root.dev != nil {
				act.Keys = append(act.Keys, root.dev.Key.Public())
			}
		}
		return p.propose(ctx, trust.Acts{act}, keys, *out)
	}
}

// listAgents lists the agents of the store and of the admins' statements. It fails if
// they differ.
func (p *Program) listAgents(ctx context.Context) error {
	over, _, err := p.authority(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, s, err := over.Agents(bounded)
	if err != nil {
		return untrusted(err)
	}
	bad := 0
	for _, a := range list {
		if a.State != authority.Stated {
			bad++
		}
	}
	if p.json() {
		err = p.document(struct {
			OK         bool              `json:"ok"`
			Deployment string            `json:"deployment"`
			Statements int               `json:"statements"`
			Agents     []authority.Agent `json:"agents"`
		}{bad == 0, s.Deployment, s.N, list})
	} else {
		table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "AGENT\tOWNER\tKEYS\tSTATE")
		for _, a := range list {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", printable(a.AgentID), printable(a.Owner), len(a.Keys), a.State)
		}
		err = table.Flush()
	}
	if err != nil {
		return err
	}
	if bad > 0 {
		p.say("%s not in the store as the admins have stated it", plural(bad, "agent"))
		return &failure{code: exitNegative}
	}
	return nil
}
