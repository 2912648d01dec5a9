package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/trust"
)

// maxGrant bounds the file of a start grant, in bytes.
const maxGrant = 16 << 10

// readGrant reads a start grant made elsewhere, for the run with an id.
func readGrant(file, id string) (json.RawMessage, error) {
	if id == "" {
		return nil, misuse("--grant needs --id: a start grant is for the run of one id")
	}
	raw, err := wholefile.Read(file, maxGrant)
	if err != nil {
		return nil, misuse("%s", err)
	}
	if _, err := trust.GrantDigest(raw); err != nil {
		return nil, misuse("%s: %s", file, err)
	}
	return raw, nil
}

// grant adds a start grant to an order that names its plan, signed with dev mode's
// key or the configured one. If there is no key, or it may not act for the plan's
// agent, the run is started without a grant: the worker decides whether the plan
// needs one.
func (p *Program) grant(ctx context.Context, conn *connection, o *order) error {
	if o.agent == "" {
		return nil // without an agent, there is nothing to grant
	}
	root, err := conn.place.trustRoot(ctx, p)
	if err != nil || root.bootstrap == nil {
		return err
	}
	key, err := root.starter(ctx, p, conn.place)
	if err != nil || key == nil {
		return err
	}
	store, err := conn.place.ledger(ctx, p)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := root.state(bounded, store, func(s trust.State) []trust.Act {
		if _, ok := s.Agents[o.agent]; ok {
			return nil
		}
		return []trust.Act{&trust.AddAgent{AgentID: o.agent, Owner: s.Admins[0].Person, Keys: []string{key.Public()}}}
	})
	if err != nil {
		return untrusted(err)
	}
	if agent, ok := s.Agents[o.agent]; !ok || !slices.Contains(agent.Keys, key.Public()) {
		p.say("no start grant: the admins have not stated that this key may act for the agent %s", printable(o.agent))
		return nil
	}
	requester, err := person("requester", conn.place.settings.Requester)
	if err != nil {
		return err
	}
	err = conn.runs.Grant(key, &o.Request, trust.Grant{
		Deployment: s.Deployment, Audience: s.Audience, Plan: o.digest, Agent: o.agent, Requester: requester,
	})
	if errors.Is(err, trust.ErrInvalid) {
		p.say("no start grant: %s", printable(err.Error())) // such as an id too long for a grant
		return nil
	}
	return err
}

// starter returns the key that signs start grants, or nil.
func (r *trustRoot) starter(ctx context.Context, p *Program, at *place) (*trust.Key, error) {
	if r.dev != nil {
		return r.dev.Key, nil
	}
	return p.openKey(ctx, at.settings, "trust.start_key", at.settings.Trust.StartKey)
}
