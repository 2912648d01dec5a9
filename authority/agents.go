package authority

import (
	"context"
	"errors"
	"maps"
	"slices"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// Standing says whether a row of the store agrees with the chain of statements.
type Standing string

// The standings. Only what is stated counts.
const (
	Stated   Standing = "stated"
	Unstated Standing = "unstated" // there is a row, and no statement
	Altered  Standing = "altered"  // the row is not as it was stated
	Missing  Standing = "missing"  // there is a statement, and no row
)

// Agent is an agent of the store or of the statements.
type Agent struct {
	AgentID       string `json:"agent_id"`
	Owner         string `json:"owner,omitempty"`
	PersonaRef    string `json:"persona_ref,omitempty"`
	WalletAddress string `json:"wallet_address,omitempty"`
	// Keys may start runs for it.
	Keys      []string     `json:"keys"`
	CreatedAt *ledger.Time `json:"created_at,omitempty"`
	State     Standing     `json:"state"`
}

// Agents compares the rows of agents with what the admins have stated. It returns the
// agents of both, sorted by id, and the stated state.
func (a *Authority) Agents(ctx context.Context) ([]Agent, trust.State, error) {
	s, err := a.State(ctx)
	if err != nil {
		return nil, s, err
	}
	list, err := agents(ctx, a.Ledger, s)
	return list, s, err
}

func agents(ctx context.Context, store ledger.Store, s trust.State) ([]Agent, error) {
	const page = 1000
	rows := map[string]ledger.Agent{}
	for offset := 0; ; offset += page {
		some, err := store.ListAgents(ctx, ledger.Page{Limit: page, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			rows[a.AgentID] = a
		}
		if len(some) < page {
			break
		}
	}
	ids := maps.Clone(rows)
	for id := range s.Agents {
		if _, ok := ids[id]; !ok {
			ids[id] = ledger.Agent{}
		}
	}
	list := []Agent{}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		row, there := rows[id]
		stated, said := s.Agents[id]
		a := Agent{AgentID: id, Owner: stated.Owner, PersonaRef: stated.PersonaRef, WalletAddress: stated.WalletAddress, Keys: append([]string{}, stated.Keys...), State: Stated}
		if there {
			a.CreatedAt = &row.CreatedAt
		}
		_, err := trust.Known(ctx, store, s, id)
		switch {
		case !there:
			a.State = Missing
		case !said:
			a.State, a.PersonaRef, a.WalletAddress = Unstated, row.PersonaRef, row.WalletAddress
		case errors.Is(err, trust.ErrInvalid):
			a.State = Altered
		case err != nil:
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}
