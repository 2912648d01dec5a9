package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/ledger"
)

// add inserts something that must not exist with other content: same reads what
// exists and compares. add reports whether it is new.
func (t *tx) add(ctx context.Context, chain string, same func() (bool, error)) (fresh bool, err error) {
	if err := t.lock(ctx, chain); err != nil {
		return false, err
	}
	equal, err := same()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return true, nil
	case err != nil:
		return false, err
	case !equal:
		return false, fmt.Errorf("%w: it is there with other content", ledger.ErrConflict)
	}
	return false, nil
}

const selectAgent = "SELECT agent_id, persona_ref, wallet_address, created_at FROM agent_identity"

func scanAgent(scan func(...any) error) (a ledger.Agent, err error) {
	var at int64
	err = scan(&a.AgentID, &a.PersonaRef, &a.WalletAddress, &at)
	a.CreatedAt = instant(at)
	return a, err
}

// AddAgent implements [ledger.Directory].
func (s *Store) AddAgent(ctx context.Context, a ledger.Agent) error {
	return s.do(ctx, "add agent "+a.AgentID, func(t *tx) error {
		fresh, err := t.add(ctx, ledger.AgentsChain, func() (bool, error) {
			have, err := scanAgent(t.row(ctx, selectAgent+" WHERE agent_id = $1", a.AgentID).Scan)
			return have.PersonaRef == a.PersonaRef && have.WalletAddress == a.WalletAddress, err
		})
		if err != nil || !fresh {
			return err
		}
		a.CreatedAt = t.now
		if _, err := t.exec(ctx, "INSERT INTO agent_identity (agent_id, persona_ref, wallet_address, created_at) VALUES ($1, $2, $3, $4)",
			a.AgentID, a.PersonaRef, a.WalletAddress, millis(a.CreatedAt)); err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{Chain: ledger.AgentsChain, Key: key(ledger.AgentAdded, a.AgentID), Kind: ledger.AgentAdded, Agent: a.AgentID}, a)
		return err
	})
}

// Agent implements [ledger.Directory].
func (s *Store) Agent(ctx context.Context, id string) (ledger.Agent, error) {
	a, err := scanAgent(func(into ...any) error {
		return s.one(ctx, fmt.Sprintf("find agent %.120q", id), selectAgent+" WHERE agent_id = $1", []any{id}, into...)
	})
	return a, err
}

// ListAgents implements [ledger.Directory].
func (s *Store) ListAgents(ctx context.Context, page ledger.Page) ([]ledger.Agent, error) {
	limit, offset := limits(page)
	return list(ctx, s, "list agents", selectAgent+" ORDER BY serial DESC LIMIT $1 OFFSET $2", []any{limit, offset},
		func(rows *sql.Rows) (ledger.Agent, error) { return scanAgent(rows.Scan) })
}

// signersChain is the chain of authority, to which signers belong.
const signersChain = ledger.AuthorityChain

// EnrollSigner implements [ledger.Directory].
func (s *Store) EnrollSigner(ctx context.Context, v ledger.Signer) error {
	return s.do(ctx, "enroll signer "+v.ID, func(t *tx) error {
		v.RevokedAt = nil
		doc, err := text(v)
		if err != nil {
			return err
		}
		fresh, err := t.add(ctx, signersChain, func() (bool, error) {
			have, err := locked[ledger.Signer](ctx, t, "SELECT doc FROM signers WHERE id = $1", v.ID)
			if err != nil {
				return false, err
			}
			have.RevokedAt = nil
			again, err := text(have)
			return again == doc, err
		})
		if err != nil || !fresh {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO signers (id, doc) VALUES ($1, $2)", v.ID, doc); err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{Chain: signersChain, Key: key(ledger.SignerEnrolled, v.ID), Kind: ledger.SignerEnrolled}, v)
		return err
	})
}

// RevokeSigner implements [ledger.Directory].
func (s *Store) RevokeSigner(ctx context.Context, id string) error {
	return s.do(ctx, "revoke signer "+id, func(t *tx) error {
		if err := t.lock(ctx, signersChain); err != nil {
			return err
		}
		v, err := locked[ledger.Signer](ctx, t, "SELECT doc FROM signers WHERE id = $1", id)
		if err != nil || v.RevokedAt != nil {
			return err
		}
		now := t.now
		v.RevokedAt = &now
		doc, err := text(v)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE signers SET doc = $2 WHERE id = $1", id, doc); err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{Chain: signersChain, Key: key(ledger.SignerRevoked, id), Kind: ledger.SignerRevoked}, ledger.RevokedData{ID: id, RevokedAt: now})
		return err
	})
}

// Signer implements [ledger.Directory].
func (s *Store) Signer(ctx context.Context, id string) (ledger.Signer, error) {
	return find[ledger.Signer](ctx, s, fmt.Sprintf("find signer %.120q", id), "SELECT doc FROM signers WHERE id = $1", id)
}

// ListSigners implements [ledger.Directory].
func (s *Store) ListSigners(ctx context.Context, page ledger.Page) ([]ledger.Signer, error) {
	limit, offset := limits(page)
	return openAll(ctx, s, "list signers", "SELECT doc FROM signers ORDER BY id LIMIT $1 OFFSET $2", []any{limit, offset}, scanText,
		func(_ context.Context, _ *opener, raw string) (v ledger.Signer, err error) {
			if json.Unmarshal([]byte(raw), &v) != nil {
				err = sql.ErrNoRows // somebody has put it there
			}
			return v, err
		})
}
