package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
)

// past is a decision of the ledger, with what it rests on.
type past struct {
	ledger.Decision
	// evidence is nil if it is gone, or from elsewhere.
	evidence *guardian.Evidence
}

// logPage is how many entries are read at a time.
const logPage = 1000

// decisions calls visit for the decisions of the log since an instant, in its order, until
// that returns false.
func decisions(ctx context.Context, store ledger.Store, since time.Time, visit func(past) (bool, error)) error {
	for from := int64(0); ; {
		records, err := store.Records(ctx, from, logPage)
		if err != nil || len(records) == 0 {
			return err
		}
		for _, r := range records {
			from = r.Index + 1
			e, err := ledger.DecodeEntry(r.Bytes)
			if err != nil {
				return fmt.Errorf("read entry %d: %w", r.Index, err)
			}
			if e.Kind != ledger.DecisionMade || e.At.Time().Before(since) {
				continue
			}
			d, readable, err := pastOf(ctx, store, e)
			if err != nil {
				return err
			}
			if !readable {
				continue
			}
			if on, err := visit(d); err != nil || !on {
				return err
			}
		}
	}
}

// pastOf reads the decision that an entry states, unless that was pruned or erased.
func pastOf(ctx context.Context, store ledger.Store, e *ledger.Entry) (d past, readable bool, err error) {
	var there bool
	if d.Decision, there, err = bodyOf[ledger.Decision](ctx, store, e); err != nil || !there {
		return d, there, err
	}
	packet, err := store.Packet(ctx, e.Ref(ledger.EvidenceRef))
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrGone) {
		return d, true, nil
	}
	if err != nil {
		return d, true, err
	}
	for _, part := range packet.Parts {
		if part.Name == "action" {
			d.evidence, _ = guardian.ParseEvidence(part.Data) // else it is from elsewhere
		}
	}
	return d, true, nil
}

// errReplay reports a decision that cannot be made again.
var errReplay = errors.New("it cannot be made again")

// again makes a decision of the ledger again, by the rules that the ledger has of it.
func again(ctx context.Context, store ledger.Store, d past) (*guardian.Record, error) {
	if d.evidence == nil {
		return nil, fmt.Errorf("%w: its evidence is gone, or names no rules", errReplay)
	}
	rules, err := ledger.ReadRules(ctx, store, d.evidence.Policy, d.evidence.Operation)
	if err != nil {
		return nil, err
	}
	if rules[d.evidence.Policy] == nil || rules[d.evidence.Operation] == nil {
		return nil, fmt.Errorf("%w: the ledger does not have its rules", errReplay)
	}
	gate, err := guardian.Replay(guardian.Rules{Policy: rules[d.evidence.Policy], Operation: rules[d.evidence.Operation]})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errReplay, err)
	}
	return gate.Again(d.evidence)
}

// replayed is the JSON answer of policy replay.
type replayed struct {
	OK       bool             `json:"ok"`
	ID       string           `json:"decision_id"`
	Decision string           `json:"decision"`
	Reason   string           `json:"reason"`
	Record   *guardian.Record `json:"record"`
}

func policyReplayCommand(p *Program, _ *flag.FlagSet) action {
	return func(ctx context.Context, operands []string) error {
		store, err := p.openLedger(ctx)
		if err != nil {
			return err
		}
		var found *past
		err = decisions(ctx, store, time.Time{}, func(d past) (bool, error) {
			if d.ID == operands[0] {
				found = &d
			}
			return found == nil, nil
		})
		if err != nil {
			return storeError(err)
		}
		if found == nil {
			return negative("the ledger has no decision %s, or nobody can read it any more", printable(operands[0])).
				withHint("%s shows the decisions of a run.", p.command("effects", "RUN"))
		}
		record, err := again(ctx, store, *found)
		if errors.Is(err, errReplay) {
			return negative("the decision %s: %s", found.ID, err)
		}
		if err != nil {
			return storeError(err)
		}
		raw, err := record.Encode()
		if err != nil {
			return negative("the decision %s: %s", found.ID, err)
		}
		answer := replayed{bytes.Equal(raw, found.Record), found.ID, string(record.Decision), record.Reason, record}
		if p.json() {
			err = p.document(answer)
		} else {
			p.printf("%s  %s\n", answer.Decision, answer.Reason)
			p.showRisk(record.Simulation)
			for _, r := range record.Rules {
				p.printf("  %-5t %s\n", r.Held, printable(r.ID))
			}
		}
		if err != nil || answer.OK {
			return err
		}
		p.say("the ledger has another record: %s, %s", printable(found.Decision.Decision), printable(found.Reason))
		return &failure{code: exitNegative}
	}
}

// changed is a decision that another policy would change.
type changed struct {
	ID        string      `json:"decision_id"`
	At        ledger.Time `json:"at"`
	Agent     string      `json:"agent"`
	Operation string      `json:"operation"`
	Old       ruling      `json:"old"`
	New       ruling      `json:"new"`
}

// ruling is a decision with its reason.
type ruling struct {
	Decision guardian.Word `json:"decision"`
	Reason   string        `json:"reason"`
}

// policyDifference is the JSON answer of policy diff.
type policyDifference struct {
	Old     string    `json:"old_policy_digest"`
	New     string    `json:"new_policy_digest"`
	Looked  int       `json:"decisions"`
	Gone    int       `json:"not_replayable"`
	Changed []changed `json:"changed"`
}

func policyDiffCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	since := fs.String("since", "", "`TIME` in RFC 3339, or a date, from which decisions are looked at")
	return func(ctx context.Context, operands []string) error {
		from, err := sinceOf("since", *since)
		if err != nil {
			return err
		}
		var gates [2]*guardian.Gate
		var bundles [2]*policy.Bundle
		for i, files := range operands {
			env, err := p.environment(ctx, *catalogFile, files)
			if err != nil {
				return err
			}
			if gates[i], err = env.gate(); err != nil {
				return err
			}
			bundles[i] = env.policy
		}
		store, err := p.openLedger(ctx)
		if err != nil {
			return err
		}
		answer := policyDifference{Old: bundles[0].Digest(), New: bundles[1].Digest(), Changed: []changed{}}
		err = decisions(ctx, store, from, func(d past) (bool, error) {
			answer.Looked++
			if d.evidence == nil {
				answer.Gone++
				return true, nil
			}
			var rulings [2]ruling
			for i, gate := range gates {
				r, err := gate.Again(d.evidence)
				if err != nil {
					return false, err
				}
				rulings[i] = ruling{r.Decision, r.Reason}
			}
			if rulings[0] != rulings[1] {
				answer.Changed = append(answer.Changed, changed{d.ID, d.DecidedAt, d.evidence.Action.Agent, d.evidence.Action.Operation, rulings[0], rulings[1]})
			}
			return true, nil
		})
		if err != nil {
			return storeError(err)
		}
		return p.showDifference(answer)
	}
}

// showDifference fails if a decision would be another.
func (p *Program) showDifference(d policyDifference) error {
	var err error
	if p.json() {
		err = p.document(d)
	} else {
		table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		for _, c := range d.Changed {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s %s\t->\t%s %s\n", c.At, printable(c.Agent), printable(c.Operation), c.Old.Decision, c.Old.Reason, c.New.Decision, c.New.Reason)
		}
		err = table.Flush()
		p.say("%d of %s would be another", len(d.Changed), plural(d.Looked, "decision"))
		if d.Gone > 0 {
			p.say("%s cannot be made again: the evidence is gone, or names no rules", plural(d.Gone, "decision"))
		}
	}
	if err != nil || len(d.Changed) == 0 {
		return err
	}
	return &failure{code: exitNegative}
}
