package authority

import (
	"context"
	"errors"
	"maps"
	"slices"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// Revoked is the standing of a signer whom a statement has ended. Whatever else such a
// signer's row says, it counts no more.
const Revoked Standing = "revoked"

// Signer is a signer of the store or of the statements, with the roles that it has now.
type Signer struct {
	ledger.Signer
	State Standing `json:"state"`
}

// Signers compares the rows of signers with what the admins have stated. It returns the
// signers of both, sorted by id, and the stated state.
func (a *Authority) Signers(ctx context.Context) ([]Signer, trust.State, error) {
	s, err := a.State(ctx)
	if err != nil {
		return nil, s, err
	}
	list, err := signers(ctx, a.Ledger, s)
	return list, s, err
}

func signers(ctx context.Context, store ledger.Store, s trust.State) ([]Signer, error) {
	const page = 1000
	all := map[string]Signer{}
	for offset := 0; ; offset += page {
		some, err := store.ListSigners(ctx, ledger.Page{Limit: page, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, v := range some {
			all[v.ID] = Signer{v, Unstated}
		}
		if len(some) < page {
			break
		}
	}
	for id, said := range s.Signers {
		v := Signer{ledger.Signer{
			ID: id, Person: said.Person, Roles: slices.Clone(said.Now), SigType: said.SigType, PublicKey: said.PublicKey,
			NotBefore: said.NotBefore, NotAfter: said.NotAfter, RevokedAt: said.Revoked,
		}, Stated}
		if said.Revoked != nil {
			v.State = Revoked
		}
		if _, there := all[id]; !there {
			v.State = Missing
		} else if _, err := trust.Enrolled(ctx, store, s, id); errors.Is(err, trust.ErrInvalid) {
			v.State = Altered
		} else if err != nil {
			return nil, err
		}
		all[id] = v
	}
	list := make([]Signer, 0, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		v := all[id]
		v.Roles = append([]string{}, v.Roles...)
		list = append(list, v)
	}
	return list, nil
}
