package trust

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"chimera.ai/engine/ledger"
)

// State is what a verified chain says up to one of its statements.
type State struct {
	Deployment string
	Audience   Audience
	// N is the number of statements, and Head the digest of the last, or of the
	// bootstrap.
	N      int
	Head   string
	Issued ledger.Time

	Admins []Admin
	Quorum int

	Signers    map[string]Signer
	Publishers map[string]Publisher
	Agents     map[string]AddAgent
	// Tools are by id, and ToolsAt the numbers of the statements that were about them last.
	// Budgets are by agent and currency.
	Tools     map[string]TrustTool
	ToolsAt   map[string]int
	Budgets   map[BudgetKey]SetBudget
	Guardians map[string]Guardian
	// Manifests are those that were accepted last, and Waivers those that hold, by provider.
	Manifests map[string]AcceptManifest
	Waivers   map[string]WaiveManifest
	// Bundle is the digest of the active policy bundle, or "".
	Bundle string
	// LogKeys are the log's keys in order; the last is the one that signs now.
	LogKeys   []LogKey
	Witnesses Witnesses
}

// BudgetKey names a budget.
type BudgetKey struct {
	Agent    string
	Currency ledger.Currency
}

// Signer is a signer as it was enrolled, with the roles that it has now.
type Signer struct {
	EnrollSigner
	// Now holds the roles that it has now, and Roles those of its enrolment.
	Now []string
	// Revoked is when it was revoked, nil if it was not.
	Revoked *ledger.Time
}

// Publisher is a publisher's key.
type Publisher struct {
	AddPublisher
	Revoked *ledger.Time
}

// Guardian is a guardian's key.
type Guardian struct {
	AddGuardian
	Revoked *ledger.Time
}

// Start returns the state of a bootstrap.
func Start(b *Bootstrap) (State, error) {
	if err := b.Check(); err != nil {
		return State{}, err
	}
	return State{
		Deployment: b.Deployment, Audience: b.Audience, Head: b.Digest(), Issued: b.Issued,
		Admins: slices.Clone(b.Admins), Quorum: b.Quorum,
		Signers: map[string]Signer{}, Publishers: map[string]Publisher{}, Agents: map[string]AddAgent{},
		Tools: map[string]TrustTool{}, ToolsAt: map[string]int{}, Budgets: map[BudgetKey]SetBudget{}, Guardians: map[string]Guardian{},
		Manifests: map[string]AcceptManifest{}, Waivers: map[string]WaiveManifest{},
		LogKeys: []LogKey{b.Log}, Witnesses: Witnesses{slices.Clone(b.Witnesses.Keys), b.Witnesses.Quorum},
	}, nil
}

func (s *State) clone() *State {
	c := *s
	c.Signers, c.Publishers, c.Agents = maps.Clone(s.Signers), maps.Clone(s.Publishers), maps.Clone(s.Agents)
	c.Tools, c.ToolsAt, c.Budgets, c.Guardians = maps.Clone(s.Tools), maps.Clone(s.ToolsAt), maps.Clone(s.Budgets), maps.Clone(s.Guardians)
	c.Manifests, c.Waivers = maps.Clone(s.Manifests), maps.Clone(s.Waivers)
	c.Admins, c.LogKeys = slices.Clone(s.Admins), slices.Clone(s.LogKeys)
	return &c
}

// Next verifies the statement that follows the state, and returns the state after
// it. It does not change the receiver.
func (s State) Next(envelope []byte) (State, error) {
	c := s.clone()
	if err := c.step(envelope); err != nil {
		return s, err
	}
	return *c, nil
}

// step is Next in place. After an error, the state must not be used.
func (s *State) step(envelope []byte) error {
	st, e, err := ParseStatement(envelope)
	if err != nil {
		return err
	}
	switch {
	case st.Deployment != s.Deployment:
		return invalid("it is for the deployment %.80q, not %s", st.Deployment, s.Deployment)
	case st.Audience != s.Audience:
		return invalid("its audience is %.20q, not %s", string(st.Audience), s.Audience)
	case st.N != s.N+1:
		return invalid("it is number %d, not %d", st.N, s.N+1)
	case st.Prev != s.Head:
		return invalid("it follows %.80q, not %s", st.Prev, s.Head)
	case st.Issued.Time().Before(s.Issued.Time()):
		return invalid("it was issued at %s, before the one that it follows (%s)", st.Issued, s.Issued)
	case s.N >= MaxStatements:
		return invalid("the chain has %d statements already", MaxStatements)
	}
	if err := s.agreed(e); err != nil {
		return err
	}
	s.N, s.Head, s.Issued = st.N, e.Digest(), st.Issued
	for i, a := range st.Acts {
		if err := a.do(s); err != nil {
			return invalid("act %d (%s): %s", i, a.Kind(), bare(err))
		}
	}
	return nil
}

// agreed returns an error unless a quorum of persons has signed.
func (s *State) agreed(e *Envelope) error {
	who, persons, err := s.Signed(e)
	if err != nil {
		return err
	}
	if persons < s.Quorum {
		return invalid("%d of the admins' persons have signed (%s), %d must", persons, strings.Join(who, ", "), s.Quorum)
	}
	return nil
}

// Signed returns the ids of the admins who have signed an envelope, and the number of
// persons among them.
func (s *State) Signed(e *Envelope) (who []string, persons int, err error) {
	keys := make([]Public, len(s.Admins))
	for i, a := range s.Admins {
		k, err := ParsePublic(a.Key)
		if err != nil {
			return nil, 0, err
		}
		keys[i] = k
	}
	different := map[string]bool{}
	for _, i := range e.By(keys) {
		different[s.Admins[i].Person] = true
		who = append(who, s.Admins[i].ID)
	}
	return who, len(different), nil
}

// Try reports whether acts could follow the state, once enough admins agree.
func (s State) Try(acts ...Act) error {
	c := s.clone()
	for i, a := range acts {
		err := a.check()
		if err == nil {
			err = a.do(c)
		}
		if err != nil {
			return invalid("act %d (%s): %s", i, a.Kind(), bare(err))
		}
	}
	return nil
}

func (a *SetAdmins) do(s *State) error {
	if err := admins(a.Admins, a.Quorum, max(s.Audience.quorum(), 1)); err != nil {
		return err
	}
	if a.Quorum < s.Quorum {
		return invalid("the quorum would fall from %d to %d", s.Quorum, a.Quorum)
	}
	for _, admin := range a.Admins {
		if err := s.apart(roleAdmin, admin.Key); err != nil {
			return err
		}
	}
	s.Admins, s.Quorum = slices.Clone(a.Admins), a.Quorum
	return nil
}

func (a *EnrollSigner) do(s *State) error {
	if _, ok := s.Signers[a.ID]; ok {
		return invalid("the signer %s is there already", a.ID)
	}
	if a.software() && s.Audience != Dev {
		return invalid("software keys (%s) sign only in dev", a.SigType)
	}
	if err := s.apart(roleSigner, a.PublicKey); err != nil {
		return err
	}
	for _, have := range s.Signers {
		if have.PublicKey == a.PublicKey {
			return invalid("the key is that of the signer %s", have.ID)
		}
	}
	s.Signers[a.ID] = Signer{EnrollSigner: *a, Now: slices.Clone(a.Roles)}
	return nil
}

// The roles of keys.
const (
	roleAdmin     = "admin"
	roleSigner    = "signer"
	rolePublisher = "publisher"
	roleGuardian  = "guardian"
	roleAgent     = "agent"
	roleLog       = "log"
)

// apart returns an error if a key that is to have a role has another one, or had it and was
// revoked there. In development one key on the machine signs for everybody.
func (s *State) apart(role, key string) error {
	if s.Audience == Dev {
		return nil
	}
	for _, by := range s.holders(key) {
		if by.role != role {
			return invalid("the key is that of the %s %s: a key has one role", by.role, by.id)
		}
	}
	return nil
}

// holder is who has a key.
type holder struct{ role, id string }

// holders lists all who have a key.
func (s *State) holders(key string) []holder {
	var out []holder
	for _, a := range s.Admins {
		if a.Key == key {
			out = append(out, holder{roleAdmin, a.ID})
		}
	}
	for _, id := range sorted(s.Signers) {
		if s.Signers[id].PublicKey == key {
			out = append(out, holder{roleSigner, id})
		}
	}
	for _, id := range sorted(s.Publishers) {
		if s.Publishers[id].Key == key {
			out = append(out, holder{rolePublisher, id})
		}
	}
	for _, id := range sorted(s.Guardians) {
		if s.Guardians[id].Key == key {
			out = append(out, holder{roleGuardian, id})
		}
	}
	for _, id := range sorted(s.Agents) {
		if slices.Contains(s.Agents[id].Keys, key) {
			out = append(out, holder{roleAgent, id})
		}
	}
	for _, l := range s.LogKeys {
		if l.public() == key {
			out = append(out, holder{roleLog, l.Origin})
		}
	}
	return out
}

func (s *State) signer(id string) (Signer, error) {
	v, ok := s.Signers[id]
	if !ok || v.Revoked != nil {
		return v, invalid("there is no signer %s, or it is revoked", id)
	}
	return v, nil
}

func (a *RevokeSigner) do(s *State) error {
	v, err := s.signer(a.ID)
	if err != nil {
		return err
	}
	at := s.Issued
	v.Revoked = &at
	s.Signers[a.ID] = v
	return nil
}

func (a *GrantRoles) do(s *State) error {
	v, err := s.signer(a.Signer)
	if err != nil {
		return err
	}
	now := append(slices.Clone(v.Now), a.Roles...)
	slices.Sort(now)
	if v.Now = slices.Compact(now); len(v.Now) > maxList {
		return invalid("the signer %s would have %d roles", a.Signer, len(v.Now))
	}
	s.Signers[a.Signer] = v
	return nil
}

func (a *RevokeRoles) do(s *State) error {
	v, err := s.signer(a.Signer)
	if err != nil {
		return err
	}
	for _, r := range a.Roles {
		if !slices.Contains(v.Now, r) {
			return invalid("the signer %s has no role %s", a.Signer, r)
		}
	}
	v.Now = slices.DeleteFunc(slices.Clone(v.Now), func(r string) bool { return slices.Contains(a.Roles, r) })
	s.Signers[a.Signer] = v
	return nil
}

func (a *ActivateBundle) do(s *State) error {
	s.Bundle = a.Digest
	return nil
}

func (a *TrustTool) do(s *State) error {
	s.Tools[a.ToolID], s.ToolsAt[a.ToolID] = *a, s.N
	return nil
}

func (a *AddPublisher) do(s *State) error {
	if _, ok := s.Publishers[a.ID]; ok {
		return invalid("the publisher %s is there already", a.ID)
	}
	for _, have := range s.Publishers {
		// In development one key on the machine signs for everybody.
		if have.Key == a.Key && s.Audience != Dev {
			return invalid("the key is that of the publisher %s", have.ID)
		}
	}
	if err := s.apart(rolePublisher, a.Key); err != nil {
		return err
	}
	s.Publishers[a.ID] = Publisher{AddPublisher: *a}
	return nil
}

func (a *RevokePublisher) do(s *State) error {
	p, ok := s.Publishers[a.ID]
	if !ok || p.Revoked != nil {
		return invalid("there is no publisher %s, or it is revoked", a.ID)
	}
	at := s.Issued
	p.Revoked = &at
	s.Publishers[a.ID] = p
	return nil
}

func (a *AddAgent) do(s *State) error {
	if _, ok := s.Agents[a.AgentID]; ok {
		return invalid("the agent %s is there already", a.AgentID)
	}
	if err := s.agentKeys(a.Keys); err != nil {
		return err
	}
	s.Agents[a.AgentID] = *a
	return nil
}

func (a *SetAgentKeys) do(s *State) error {
	v, ok := s.Agents[a.AgentID]
	if !ok {
		return invalid("there is no agent %s", a.AgentID)
	}
	if err := s.agentKeys(a.Keys); err != nil {
		return err
	}
	v.Keys, v.Vouching, v.Requesters = slices.Clone(a.Keys), slices.Clone(a.Vouching), slices.Clone(a.Requesters)
	s.Agents[a.AgentID] = v
	return nil
}

// agentKeys checks the keys that an agent is to have. A service may act for several agents.
func (s *State) agentKeys(keys []string) error {
	for _, k := range keys {
		if err := s.apart(roleAgent, k); err != nil {
			return err
		}
	}
	return nil
}

// maxParents bounds the ancestors of a budget, as stores do.
const maxParents = 16

func (a *SetBudget) do(s *State) error {
	if _, ok := s.Agents[a.Agent]; !ok {
		return invalid("there is no agent %s", a.Agent)
	}
	s.Budgets[BudgetKey{a.Agent, a.Currency}] = *a
	line := 0
	for at := a.Agent; at != ""; line++ {
		b, ok := s.Budgets[BudgetKey{at, a.Currency}]
		if !ok {
			return invalid("%s has no budget in %s", at, a.Currency)
		}
		if line == maxParents {
			return invalid("a budget has more than %d ancestors", maxParents)
		}
		at = b.Parent
	}
	return nil
}

func (a *AddGuardian) do(s *State) error {
	if _, ok := s.Guardians[a.ID]; ok {
		return invalid("the guardian %s is there already", a.ID)
	}
	if err := s.apart(roleGuardian, a.Key); err != nil {
		return err
	}
	for _, id := range sorted(s.Guardians) {
		if s.Guardians[id].Key == a.Key && s.Audience != Dev {
			return invalid("the key is that of the guardian %s", id)
		}
	}
	s.Guardians[a.ID] = Guardian{AddGuardian: *a}
	return nil
}

func (a *RevokeGuardian) do(s *State) error {
	g, ok := s.Guardians[a.ID]
	if !ok || g.Revoked != nil {
		return invalid("there is no guardian %s, or it is revoked", a.ID)
	}
	at := s.Issued
	g.Revoked = &at
	s.Guardians[a.ID] = g
	return nil
}

func (a *RotateLog) do(s *State) error {
	if now := s.LogKeys[len(s.LogKeys)-1]; a.Origin != now.Origin {
		return invalid("the log is called %s, and keeps its name", now.Origin)
	}
	if slices.Contains(s.LogKeys, a.LogKey) {
		return invalid("the log has or had this key")
	}
	if err := apart(a.LogKey, s.Witnesses); err != nil {
		return err
	}
	if err := s.apart(roleLog, a.public()); err != nil {
		return err
	}
	s.LogKeys = append(s.LogKeys, a.LogKey)
	return nil
}

func (a *SetWitnesses) do(s *State) error {
	if err := apart(s.Log(), a.Witnesses); err != nil {
		return err
	}
	s.Witnesses = Witnesses{slices.Clone(a.Keys), a.Quorum}
	return nil
}

func (a *AcceptManifest) do(s *State) error {
	last, ok := s.Manifests[a.Provider]
	if ok {
		switch order := semver.Compare("v"+a.Version, "v"+last.Version); {
		case order < 0:
			return invalid("the version of the manifest of %s would fall from %s to %s", a.Provider, last.Version, a.Version)
		case order == 0 && *a != last:
			return invalid("%s has another manifest of version %s: %s", a.Provider, last.Version, last.Digest)
		}
	}
	s.Manifests[a.Provider] = *a
	delete(s.Waivers, a.Provider)
	return nil
}

func (a *WaiveManifest) do(s *State) error {
	s.Waivers[a.Provider] = *a
	return nil
}

// Speaks reports whether the keys of an agent may speak for a person, as who has asked for a
// run. In development they may speak for everybody.
func (s State) Speaks(agent, person string) bool {
	return s.Audience == Dev || slices.Contains(s.Agents[agent].Requesters, person)
}

// Log returns the key that signs the log now.
func (s State) Log() LogKey { return s.LogKeys[len(s.LogKeys)-1] }

// Problem says why a chain breaks.
type Problem struct {
	// N is the statement's number, from 1; 0 is the bootstrap.
	N       int
	Message string
}

// Error returns the problem as a sentence.
func (p Problem) Error() string {
	if p.N == 0 {
		return "the bootstrap: " + p.Message
	}
	return fmt.Sprintf("statement %d: %s", p.N, p.Message)
}

// Is makes every problem [ErrInvalid].
func (p Problem) Is(target error) bool { return target == ErrInvalid }

// Chain verifies statements from the bootstrap on, and returns the state after
// them. Its error is a [Problem]; the state is then that before the statement that breaks
// the chain.
func Chain(b *Bootstrap, statements [][]byte) (State, error) {
	s, err := Start(b)
	if err != nil {
		return State{}, Problem{0, bare(err)}
	}
	at := s.clone()
	for i, raw := range statements {
		if err := at.step(raw); err != nil {
			// Undo the changes of the statement that broke the chain.
			good, again := Chain(b, statements[:i])
			if again != nil {
				return State{}, again
			}
			return good, Problem{i + 1, bare(err)}
		}
	}
	return *at, nil
}

// VerifyStatements is like [Chain], for reports: it returns the state up to where the chain
// breaks, and what is wrong from there on.
func VerifyStatements(b *Bootstrap, statements [][]byte) (State, []Problem) {
	s, err := Chain(b, statements)
	if err == nil {
		return s, nil
	}
	var p Problem
	if !errors.As(err, &p) {
		p = Problem{0, bare(err)}
	}
	problems := []Problem{p}
	if p.N > 0 && p.N < len(statements) {
		problems = append(problems, Problem{p.N + 1, fmt.Sprintf("%d statements depend on an invalid one", len(statements)-p.N)})
	}
	return s, problems
}
