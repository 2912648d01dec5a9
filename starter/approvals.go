package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/review"
	"chimera.ai/engine/trust"
)

// approvalParts are the sub-commands of chimera approvals.
func approvalParts() []command {
	return []command{
		{name: "list", prepare: listApprovalsCommand, summary: "list what waits for approval, and who still has to sign"},
		{name: "show", operands: "RUN|BARRIER", least: 1, most: 1, prepare: showApprovalCommand, completes: openRun,
			summary: "show what would happen, as it is signed, and who has signed"},
		{name: "sign", operands: "RUN|BARRIER", least: 1, most: 1, prepare: approveCommand, completes: openRun,
			summary: "approve what waits at a barrier, or state what a call did"},
		{name: "reject", operands: "RUN|BARRIER", least: 1, most: 1, prepare: rejectCommand, completes: openRun,
			summary: "reject what waits at a barrier, with a reason"},
		{name: "delegate", operands: "SIGNER", least: 1, most: 1, prepare: delegateCommand,
			summary: "let another signer approve for you, in some of your roles and for some time"},
		{name: "watch", prepare: watchApprovalsCommand, summary: "show what begins to wait for approval, reminders and escalations, until interrupted"},
	}
}

// waiting is a barrier at which people are asked, for people and for programs.
type waiting struct {
	Barrier string   `json:"barrier"`
	Run     string   `json:"run"`
	Plan    string   `json:"plan"`
	Agent   string   `json:"agent"`
	Nodes   []string `json:"nodes"`
	// Actions are what would be done: operation, effect class and cost.
	Actions []waitingAction `json:"actions"`
	State   string          `json:"state"`
	// Asks is "outcome" if people are asked what the one call did, or absent.
	Asks    approval.Kind `json:"asks,omitempty"`
	Opened  ledger.Time   `json:"opened"`
	Expires ledger.Time   `json:"expires"`
	// Missing are those who still have to sign, and Signed those who have.
	Missing []plan.Group  `json:"missing"`
	Signed  []waitingVote `json:"signed"`
	// Reminded counts the reminders. From EscalatesAt on the groups in To must sign, too;
	// EscalatedAt is there once they are asked.
	Reminded    int          `json:"reminded,omitempty"`
	RemindedAt  *ledger.Time `json:"reminded_at,omitempty"`
	EscalatesAt *ledger.Time `json:"escalates_at,omitempty"`
	EscalatedAt *ledger.Time `json:"escalated_at,omitempty"`
	To          []plan.Group `json:"to,omitempty"`
	// Delegator is the signer for whom the one that was asked about can still approve, if not
	// in a role of its own.
	Delegator string `json:"delegator,omitempty"`
}

type waitingAction struct {
	Node      string   `json:"node"`
	Operation string   `json:"operation"`
	Effect    string   `json:"effect"`
	Amount    string   `json:"amount,omitempty"`
	Currency  string   `json:"currency,omitempty"`
	Lifts     []string `json:"lifts,omitempty"`
}

type waitingVote struct {
	Signer   string `json:"signer"`
	Role     string `json:"role"`
	SigType  string `json:"sig_type"`
	Decision string `json:"decision"`
}

// waitingOf is a barrier as the commands show it.
func waitingOf(o *review.Open) waiting {
	q := o.Request
	w := waiting{
		Barrier: o.Barrier.ID, Run: q.Workflow, Plan: q.PlanName, Agent: q.Agent, Asks: q.Kind, State: string(o.Barrier.State), Opened: o.Barrier.OpenedAt, Expires: o.Barrier.ExpiresAt,
		Nodes: []string{}, Missing: []plan.Group{}, Signed: []waitingVote{},
		Reminded: o.Barrier.Reminded, RemindedAt: o.Barrier.RemindedAt, EscalatesAt: o.Barrier.EscalatesAt, EscalatedAt: o.Barrier.EscalatedAt, To: q.Rule.FollowUp.To,
	}
	for _, a := range q.Actions {
		w.Nodes = append(w.Nodes, a.Node)
		w.Actions = append(w.Actions, waitingAction{a.Node, a.Operation, string(a.Effect), a.Amount, a.Currency, a.Lifts})
	}
	w.Missing = append(w.Missing, o.Tally.Missing...)
	for _, v := range o.Votes {
		w.Signed = append(w.Signed, waitingVote{v.Signer, v.Role, v.SigType, string(v.Decision)})
	}
	return w
}

// reviewer opens what is needed to read barriers.
func (p *Program) reviewer(ctx context.Context) (*review.Reader, *trustRoot, error) {
	at, err := p.place()
	if err != nil {
		return nil, nil, err
	}
	return p.reviewerAt(ctx, at)
}

func (p *Program) reviewerAt(ctx context.Context, at *place) (*review.Reader, *trustRoot, error) {
	root, err := at.trustRoot(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	if root.bootstrap == nil {
		return nil, nil, unanswered("no root of trust is configured").withHint("Set trust.bootstrap and trust.pin; %s makes a bootstrap.", p.command("trust", "init"))
	}
	l, err := at.ledger(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	s, err := trust.Read(ctx, l, root.bootstrap)
	if err != nil {
		return nil, nil, untrusted(err)
	}
	namespace := at.settings.Temporal.Namespace
	if at.local != nil {
		namespace = at.local.Namespace
	}
	if namespace == "" {
		namespace = "default"
	}
	return &review.Reader{Ledger: l, Blobs: at.opened.Blobs, State: s, Namespace: namespace}, root, nil
}

func listApprovalsCommand(p *Program, fs *flag.FlagSet) action {
	var of whose
	of.flags(fs)
	all := fs.Bool("all", false, "also what nobody is asked about any more")
	return func(ctx context.Context, _ []string) error {
		if err := of.read(p); err != nil {
			return err
		}
		r, _, err := p.reviewer(ctx)
		if err != nil {
			return err
		}
		if of.signer != "" {
			if _, ok := r.State.Signers[of.signer]; !ok {
				return negative("there is no signer %s", printable(of.signer)).withHint("%s shows them.", p.command("signers", "list"))
			}
		}
		list, err := p.waitings(ctx, r, &of, *all)
		if err != nil {
			return err
		}
		if p.json() {
			return p.document(struct {
				OK       bool      `json:"ok"`
				Barriers []waiting `json:"barriers"`
			}{true, list})
		}
		if len(list) == 0 {
			p.say("nothing waits for approval")
			return nil
		}
		return p.tabulate(list)
	}
}

// whose says whose approval is asked for: anybody's, or that of one signer, who may sign for
// others, too.
type whose struct {
	signer, files string
	// delegations are the envelopes in the files.
	delegations [][]byte
}

func (w *whose) flags(fs *flag.FlagSet) {
	fs.StringVar(&w.signer, "signer", "", "`ID` of a signer: only what that signer can still approve")
	fs.StringVar(&w.files, "delegation", "", "`FILE,…` with delegations by which the signer signs for others")
}

// read reads the files.
func (w *whose) read(p *Program) error {
	if w.files == "" {
		return nil
	}
	if w.signer == "" {
		return misuse("--delegation needs --signer ID")
	}
	for _, name := range strings.Split(w.files, ",") {
		envelope, err := p.lent(name, w.signer)
		if err != nil {
			return err
		}
		w.delegations = append(w.delegations, envelope)
	}
	return nil
}

// lent reads the envelope of a delegation that lets a signer sign for another.
func (p *Program) lent(name, signer string) ([]byte, error) {
	raw, err := p.read(name)
	if err != nil {
		return nil, err
	}
	envelope := []byte(strings.TrimSpace(string(raw.Text)))
	e, err := trust.ParseEnvelope(envelope, approval.DelegationType)
	var d approval.Delegation
	if err == nil {
		err = trust.Decode(e.Payload, &d)
	}
	if err != nil {
		return nil, misuse("%s is no delegation: %s", printable(name), err)
	}
	if d.Delegate != signer {
		return nil, misuse("%s lets %s sign, not %s", printable(name), printable(d.Delegate), printable(signer))
	}
	return envelope, nil
}

// waitings reads the barriers that wait, or all of them.
func (p *Program) waitings(ctx context.Context, r *review.Reader, of *whose, all bool) ([]waiting, error) {
	const page = 1000
	state := ledger.BarrierOpen
	if all {
		state = ""
	}
	out := []waiting{}
	for offset := 0; ; offset += page {
		list, err := r.List(ctx, state, ledger.Page{Limit: page, Offset: offset})
		if err != nil {
			return nil, storeError(err)
		}
		for i := range list {
			w := waitingOf(&list[i])
			ok := of.signer == ""
			if !ok {
				w.Delegator, ok = list[i].Waits(r.State, of.signer, of.delegations...)
			}
			if ok {
				out = append(out, w)
			}
		}
		if len(list) < page {
			return out, nil
		}
	}
}

func (p *Program) tabulate(list []waiting) error {
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "EXPIRES\tRUN\tPLAN\tWHAT\tMISSING\tSTATE\tBARRIER")
	for _, w := range list {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", w.Expires.Time().Local().Format(time.DateTime), printable(w.Run), printable(w.Plan), printable(whatOf(w)), missingOf(w.Missing), stateOf(&w), printable(w.Barrier))
	}
	return table.Flush()
}

// whatOf says in a few words what waits.
func whatOf(w waiting) string {
	a := w.Actions[0]
	text := a.Operation + " (" + a.Effect + ")"
	if w.Asks == approval.Outcome {
		text = "what did " + a.Operation + " do?"
	}
	if a.Amount != "" {
		text += " " + a.Amount + " " + a.Currency
	}
	if n := len(w.Actions) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// stateOf says how a barrier stands, with what has followed so far.
func stateOf(w *waiting) string {
	text := w.State
	if w.Reminded > 0 {
		text += ", reminded " + timesOf(w.Reminded)
	}
	if w.EscalatedAt != nil {
		text += ", escalated"
	}
	if w.Delegator != "" {
		text += ", for " + printable(w.Delegator)
	}
	return text
}

func timesOf(n int) string {
	if n == 1 {
		return "1 time"
	}
	return fmt.Sprintf("%d times", n)
}

// followedOf says what has followed at a barrier, a line for each.
func followedOf(w *waiting) (lines []string) {
	if w.RemindedAt != nil {
		lines = append(lines, fmt.Sprintf("reminded %s, last at %s", timesOf(w.Reminded), w.RemindedAt.Time().Local().Format(time.DateTime)))
	}
	switch {
	case w.EscalatedAt != nil:
		lines = append(lines, fmt.Sprintf("escalated to %s since %s", missingOf(w.To), w.EscalatedAt.Time().Local().Format(time.DateTime)))
	case w.EscalatesAt != nil && w.State == string(ledger.BarrierOpen):
		lines = append(lines, fmt.Sprintf("escalates to %s at %s", missingOf(w.To), w.EscalatesAt.Time().Local().Format(time.DateTime)))
	}
	return lines
}

// missingOf says who still has to sign.
func missingOf(groups []plan.Group) string {
	if len(groups) == 0 {
		return "nobody"
	}
	var all []string
	for _, g := range groups {
		all = append(all, fmt.Sprintf("%d of %s", g.Min, printable(g.Role)))
	}
	return strings.Join(all, ", ")
}

func showApprovalCommand(p *Program, _ *flag.FlagSet) action {
	return func(ctx context.Context, operands []string) error {
		r, _, err := p.reviewer(ctx)
		if err != nil {
			return err
		}
		o, text, err := p.reviewed(ctx, r, operands[0])
		if err != nil {
			return err
		}
		forecasts, err := p.forecastsOf(ctx, r, &o)
		if err != nil {
			return err
		}
		if p.json() {
			decision := approval.Approve
			if o.Request.Kind == approval.Outcome {
				decision = approval.Executed
			}
			payload := o.Request.Payload(o.Digest, decision)
			return p.document(struct {
				OK bool `json:"ok"`
				waiting
				// Forecasts are what causal models predict of the actions that have one.
				Forecasts []waitingForecast `json:"forecasts,omitempty"`
				Text      string            `json:"text"`
				// Request is what is asked, and Payload what is signed, once decision, signer,
				// role, nonce and times are set.
				Request any `json:"request"`
				Payload any `json:"payload"`
			}{true, waitingOf(&o), forecasts, text, o.Request, payload})
		}
		p.printf("%s", text)
		for _, f := range forecasts {
			p.say("%s:", inLine(f.Node))
			if err := writeForecast(p.Stderr, "  ", f.Forecast); err != nil {
				return err
			}
		}
		for _, v := range o.Votes {
			p.say("%s by %s as %s (%s)", v.Decision, printable(v.Signer), printable(v.Role), v.SigType)
		}
		w := waitingOf(&o)
		for _, line := range followedOf(&w) {
			p.say("%s", line)
		}
		if o.Barrier.State.Closed() {
			p.say("the barrier is %s%s", o.Barrier.State, reasonOf(o.Barrier.Reason))
			return nil
		}
		p.say("still to sign: %s", missingOf(o.Tally.Missing))
		return nil
	}
}

// waitingForecast is what a causal model predicts of an action that waits.
type waitingForecast struct {
	Node     string             `json:"node"`
	Forecast *causal.Prediction `json:"forecast"`
}

// forecastsOf reads what causal models predict of the actions of a barrier.
func (p *Program) forecastsOf(ctx context.Context, r *review.Reader, o *review.Open) (out []waitingForecast, err error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := r.Forecasts(bounded, o)
	if err != nil {
		return nil, storeError(err)
	}
	for i, f := range all {
		if f != nil {
			out = append(out, waitingForecast{o.Request.Actions[i].Node, f})
		}
	}
	return out, nil
}

func reasonOf(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + printable(reason)
}

// reviewed finds a barrier, and computes what people are shown of it.
func (p *Program) reviewed(ctx context.Context, r *review.Reader, what string) (review.Open, string, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o, err := r.Find(bounded, what)
	var several *review.SeveralError
	switch {
	case errors.As(err, &several):
		return o, "", misuse("%s", several).withHint("Name one of them: %s.", printable(strings.Join(several.Barriers, ", ")))
	case errors.Is(err, ledger.ErrNotFound):
		if store, ok := r.Ledger.(ledger.Store); ok {
			if erased, err := subjectErased(bounded, store, what); err == nil && erased {
				return o, "", p.erasedSubject(what)
			}
		}
		return o, "", negative("nothing waits for approval under %s", printable(what)).withHint("A run that has just begun may not wait yet. %s shows what waits, and with --all what no longer does.", p.command("approvals", "list"))
	case err != nil:
		return o, "", storeError(err)
	}
	text, err := r.Text(bounded, &o)
	if errors.Is(err, review.ErrDiffers) || errors.Is(err, trust.ErrInvalid) {
		return o, "", negative("%s", err).withHint("Do not sign it: somebody may have changed the ledger, or asks for something else than it shows.")
	}
	if err != nil {
		return o, "", storeError(err)
	}
	return o, text, nil
}

// watchEvery is how often chimera approvals watch looks.
const watchEvery = 2 * time.Second

func watchApprovalsCommand(p *Program, fs *flag.FlagSet) action {
	var of whose
	of.flags(fs)
	return func(ctx context.Context, _ []string) error {
		if err := of.read(p); err != nil {
			return err
		}
		at, err := p.place()
		if err != nil {
			return err
		}
		seen := map[string]string{} // how a barrier stood when it was shown
		for {
			r, _, err := p.reviewerAt(ctx, at)
			if err != nil {
				return err
			}
			list, err := p.waitings(ctx, r, &of, false)
			if err != nil {
				return err
			}
			for _, w := range list {
				if seen[w.Barrier] == stateOf(&w) {
					continue
				}
				seen[w.Barrier] = stateOf(&w)
				if p.json() {
					if err := json.NewEncoder(p.Stdout).Encode(w); err != nil {
						return fmt.Errorf("writing the answer: %w", err)
					}
					continue
				}
				p.printf("%s  %s  %s  until %s  %s", printable(w.Run), printable(whatOf(w)), missingOf(w.Missing), w.Expires.Time().Local().Format(time.DateTime), printable(w.Barrier))
				for _, line := range followedOf(&w) {
					p.printf("  %s", line)
				}
				if w.Delegator != "" {
					p.printf("  for %s", printable(w.Delegator))
				}
				p.printf("\n")
			}
			timer := time.NewTimer(watchEvery)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
			}
		}
	}
}
