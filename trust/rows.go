package trust

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
)

// Source returns the statements of a deployment in order, as [ledger.Facts] does. Its
// results are verified, not trusted.
type Source interface {
	Authority(ctx context.Context) ([]json.RawMessage, error)
}

// Read verifies the statements of a source, and returns the state after the last. If the
// chain breaks, the error is a [Problem], and there is no partial result. Read cannot
// detect that a source withholds the last statements: see [Reader].
func Read(ctx context.Context, source Source, b *Bootstrap) (State, error) {
	r := Reader{Source: source, Bootstrap: b}
	return r.State(ctx)
}

// Store is what [Apply] and [Publish] need of a store. A [ledger.Store] is one.
type Store interface {
	Source
	StateAuthority(ctx context.Context, statement json.RawMessage, prev string) error
	Rows
	AddAgent(ctx context.Context, a ledger.Agent) error
	EnrollSigner(ctx context.Context, s ledger.Signer) error
	RevokeSigner(ctx context.Context, id string) error
	Tools(ctx context.Context, ids ...string) ([]ledger.Tool, error)
	TrustTools(ctx context.Context, status string, ids ...string) error
	SetBudget(ctx context.Context, b ledger.Budget) error
}

// Rows returns what a store says about the things that authority owns.
type Rows interface {
	Agent(ctx context.Context, id string) (ledger.Agent, error)
	Signer(ctx context.Context, id string) (ledger.Signer, error)
	Tool(ctx context.Context, id string) (ledger.Tool, error)
	Budget(ctx context.Context, agent string, c ledger.Currency) (ledger.Budget, error)
}

// Apply updates the rows of a store to match a state. It is idempotent. A tool that is not
// imported yet gets its trust when it is.
func Apply(ctx context.Context, k Store, s State) error {
	for _, id := range sorted(s.Agents) {
		a := s.Agents[id]
		if err := k.AddAgent(ctx, ledger.Agent{AgentID: id, PersonaRef: a.PersonaRef, WalletAddress: a.WalletAddress}); err != nil {
			return fmt.Errorf("apply authority: %w", err)
		}
	}
	for _, id := range sorted(s.Signers) {
		v := s.Signers[id]
		if err := k.EnrollSigner(ctx, v.row()); err != nil {
			return fmt.Errorf("apply authority: %w", err)
		}
		if v.Revoked == nil {
			continue
		}
		if err := k.RevokeSigner(ctx, id); err != nil {
			return fmt.Errorf("apply authority: %w", err)
		}
	}
	if err := applyTools(ctx, k, s); err != nil {
		return fmt.Errorf("apply authority: %w", err)
	}
	// Whoever may apply statements may perhaps set no budgets: the guardian does that before it
	// decides.
	if err := SetBudgets(ctx, k, s); !errors.Is(err, ledger.ErrDenied) {
		return err
	}
	return nil
}

// applyTools sets the trust of the tools that are imported.
func applyTools(ctx context.Context, k Store, s State) error {
	for ids := range slices.Chunk(sorted(s.Tools), ledger.MaxTools) {
		rows, err := k.Tools(ctx, ids...)
		if err != nil {
			return err
		}
		other := map[string][]string{} // ids of the rows that say otherwise, by what they are to say
		for _, row := range rows {
			said := s.Tools[row.ToolID]
			status := said.Status
			if row.Fingerprint != said.Fingerprint {
				status = "block" // the imported tool is not the trusted one
			}
			if row.Status != status {
				other[status] = append(other[status], row.ToolID)
			}
		}
		for _, status := range sorted(other) {
			if err := k.TrustTools(ctx, status, other[status]...); err != nil {
				return err
			}
		}
	}
	return nil
}

// Budgets are those of a store.
type Budgets interface {
	Budget(ctx context.Context, agent string, c ledger.Currency) (ledger.Budget, error)
}

// BudgetSetter sets those of a store, too.
type BudgetSetter interface {
	Budgets
	SetBudget(ctx context.Context, b ledger.Budget) error
}

// SetBudgets sets the budgets of a store as a state has them. It is idempotent.
func SetBudgets(ctx context.Context, k BudgetSetter, s State) error {
	for _, b := range s.budgets() {
		have, err := k.Budget(ctx, b.Agent, b.Currency)
		if err == nil && have.Limit == b.Limit && have.Parent == b.Parent && have.Every == b.Every {
			continue
		}
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return fmt.Errorf("apply authority: %w", err)
		}
		if err := k.SetBudget(ctx, ledger.Budget{Agent: b.Agent, Currency: b.Currency, Parent: b.Parent, Every: b.Every, Limit: b.Limit}); err != nil {
			return fmt.Errorf("apply authority: %w", err)
		}
	}
	return nil
}

// Line lists the budgets of an agent, each with those above it, which count as well.
func (s State) Line(agent string) (line []BudgetKey) {
	for k := range s.Budgets {
		if k.Agent != agent {
			continue
		}
		for n := 0; k.Agent != "" && n <= maxParents; n++ {
			line = append(line, k)
			k.Agent = s.Budgets[k].Parent
		}
	}
	return line
}

// budgets lists the budgets, parents first.
func (s State) budgets() []SetBudget {
	depth := func(b SetBudget) (n int) {
		for b.Parent != "" && n <= maxParents {
			b = s.Budgets[BudgetKey{b.Parent, b.Currency}]
			n++
		}
		return n
	}
	var out []SetBudget
	for _, b := range s.Budgets {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b SetBudget) int {
		if d := depth(a) - depth(b); d != 0 {
			return d
		}
		return strings.Compare(string(a.Currency)+"\x00"+a.Agent, string(b.Currency)+"\x00"+b.Agent)
	})
	return out
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (v Signer) row() ledger.Signer {
	return ledger.Signer{
		ID: v.ID, Person: v.Person, Roles: v.Roles, SigType: v.SigType, PublicKey: v.PublicKey, NotBefore: v.NotBefore, NotAfter: v.NotAfter,
	}
}

// Enrolled finds a signer, whose row must match the chain. The result has the roles that
// the chain gives it now, and is revoked if the chain says so.
func Enrolled(ctx context.Context, rows Rows, s State, id string) (ledger.Signer, error) {
	row, err := rows.Signer(ctx, id)
	if err != nil {
		return ledger.Signer{}, err
	}
	v, ok := s.Signers[id]
	if !ok {
		return ledger.Signer{}, invalid("no statement of the admins has enrolled the signer %.120q", id)
	}
	want := v.row()
	if row.ID != id || row.Person != want.Person || !slices.Equal(row.Roles, want.Roles) || row.SigType != want.SigType ||
		row.PublicKey != want.PublicKey || row.NotBefore != want.NotBefore || row.NotAfter != want.NotAfter || row.RevokedAt != nil && v.Revoked == nil {
		return ledger.Signer{}, invalid("the signer %.120q is not in the store as the admins have stated it", id)
	}
	row.Roles, row.RevokedAt = slices.Clone(v.Now), v.Revoked
	return row, nil
}

// Known finds an agent, whose row must match the chain.
func Known(ctx context.Context, rows Rows, s State, id string) (ledger.Agent, error) {
	row, err := rows.Agent(ctx, id)
	if err != nil {
		return ledger.Agent{}, err
	}
	a, ok := s.Agents[id]
	if !ok || row.AgentID != id || row.PersonaRef != a.PersonaRef || row.WalletAddress != a.WalletAddress {
		return ledger.Agent{}, invalid("the agent %.120q is not in the store as the admins have stated it", id)
	}
	return row, nil
}

// Authored verifies a plan that a store returned for a reference ("name@version" or a
// digest): it must be the plan that was asked for, and a publisher of plans who is not
// revoked must have signed it.
func Authored(s State, ref string, p ledger.Plan) error {
	revoked, err := Published(s, ref, p)
	if err == nil && revoked != nil {
		err = invalid("%s@%s is signed by %.120q, who is revoked since %s", p.Name, p.Version, p.Author, revoked)
	}
	return err
}

// Published is like [Authored], for history: it accepts the signature of a publisher who
// has been revoked since, and returns when.
func Published(s State, ref string, p ledger.Plan) (revoked *ledger.Time, err error) {
	if ref != p.Name+"@"+p.Version && ref != p.Digest {
		return nil, invalid("the store gives the plan %.120q, version %.120q, for %.120q", p.Name, p.Version, ref)
	}
	if len(p.Signature) == 0 {
		return nil, invalid("%s@%s is in the store without its author's signature", p.Name, p.Version)
	}
	if p.Author == "" {
		return nil, invalid("%s@%s is in the store without an author", p.Name, p.Version)
	}
	_, revoked, err = authored(s, p.Signature, Plan{Name: p.Name, Version: p.Version, SourceDigest: p.SourceDigest, Digest: p.Digest, Author: p.Author})
	if err != nil {
		return nil, invalid("%s@%s: %s", p.Name, p.Version, bare(err))
	}
	return revoked, nil
}

// Trusted finds a tool, whose fingerprint and trust state must be as the chain
// says. One that no statement names must wait for a review, or be blocked.
func Trusted(ctx context.Context, rows Rows, s State, id string) (ledger.Tool, error) {
	row, err := rows.Tool(ctx, id)
	if err != nil {
		return ledger.Tool{}, err
	}
	t, ok := s.Tools[id]
	switch {
	case row.ToolID != id,
		!ok && row.Status == "allow_auto",
		ok && (row.Fingerprint != t.Fingerprint && row.Status != "block" || row.Fingerprint == t.Fingerprint && row.Status != t.Status):
		return ledger.Tool{}, invalid("the tool %.120q is not in the store as the admins have stated it", id)
	}
	return row, nil
}

// Difference is what a catalog says of a tool otherwise than the admins have stated.
type Difference struct {
	// Tool is its id, and Fact the name of the fact. Have is what the catalog says, and Said what
	// the admins have: canonical JSON, or "" for nothing.
	Tool, Fact, Have, Said string
}

// Error returns the difference as a sentence.
func (d *Difference) Error() string {
	return invalid("of the tool %.200q the catalog says %s %.100s, and the admins have stated %.100s",
		d.Tool, d.Fact, cmp.Or(d.Have, "nothing"), cmp.Or(d.Said, "nothing")).Error()
}

// Is makes every difference [ErrInvalid].
func (d *Difference) Is(target error) bool { return target == ErrInvalid }

// Stated verifies that the admins let a tool be called, without a review unless each call is
// reviewed, and that what the catalog says of it is what they have stated: its fingerprint,
// "" if it has none, and its facts. What differs is a [Difference].
func (s State) Stated(id, fingerprint string, facts json.RawMessage, reviewed bool) error {
	t, ok := s.Tools[id]
	switch {
	case !ok:
		return invalid("no statement of the admins (tool.trust) is about the tool %.200q", id)
	case t.Status != "allow_auto" && !(reviewed && t.Status == "manual_review"):
		return invalid("the admins have stated %s for the tool %.200q", t.Status, id)
	case t.Fingerprint != fingerprint:
		return invalid("the admins have stated another fingerprint of the tool %.200q", id)
	case t.Facts == nil:
		return invalid("the statement about the tool %.200q has no facts", id)
	}
	said, err := factual(t.Facts)
	if err != nil {
		return invalid("the facts of the tool %.200q: %s", id, bare(err))
	}
	have, err := factual(facts)
	if err != nil {
		return invalid("the catalog's facts of the tool %.200q: %s", id, bare(err))
	}
	for name := range said {
		if _, ok := have[name]; !ok {
			have[name] = ""
		}
	}
	for _, name := range sorted(have) {
		if said[name] != have[name] {
			return &Difference{Tool: id, Fact: name, Have: have[name], Said: said[name]}
		}
	}
	return nil
}

// Limited finds a budget, whose limit, periods and parent must be as the chain says.
func Limited(ctx context.Context, rows Budgets, s State, k BudgetKey) (ledger.Budget, error) {
	row, err := rows.Budget(ctx, k.Agent, k.Currency)
	if err != nil {
		return ledger.Budget{}, err
	}
	b, ok := s.Budgets[k]
	if !ok || row.Agent != k.Agent || row.Currency != k.Currency || row.Every != b.Every || row.Limit != b.Limit || row.Parent != b.Parent {
		return ledger.Budget{}, invalid("the budget of %.120q is not in the store as the admins have stated it", k.Agent)
	}
	return row, nil
}
