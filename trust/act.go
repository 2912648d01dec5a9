package trust

import (
	"encoding/json"
	"maps"
	"slices"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Kind names an act. The set is closed: a reader refuses a statement with an act
// that it does not know, since it could not tell what follows from it.
type Kind string

// The kinds of acts.
const (
	AdminsSet       Kind = "admins.set"
	SignerEnroll    Kind = "signer.enroll"
	SignerRevoke    Kind = "signer.revoke"
	RoleGrant       Kind = "role.grant"
	RoleRevoke      Kind = "role.revoke"
	BundleActivate  Kind = "bundle.activate"
	ToolTrust       Kind = "tool.trust"
	PublisherAdd    Kind = "publisher.add"
	PublisherRevoke Kind = "publisher.revoke"
	AgentAdd        Kind = "agent.add"
	AgentKeys       Kind = "agent.keys"
	BudgetSet       Kind = "budget.set"
	GuardianKey     Kind = "guardian.key"
	GuardianRevoke  Kind = "guardian.revoke"
	LogRotate       Kind = "log.key"
	WitnessSet      Kind = "witness.set"
	ManifestAccept  Kind = "manifest.accept"
	ManifestWaive   Kind = "manifest.waive"
)

// Act is one thing that a statement does.
type Act interface {
	// Kind is the act's kind.
	Kind() Kind
	// check checks the rules that need no state, and do changes the state.
	check() error
	do(s *State) error
}

// The acts.
type (
	// SetAdmins replaces the admins, from the next statement on.
	SetAdmins struct {
		Admins []Admin `json:"admins"`
		Quorum int     `json:"quorum"`
	}
	// EnrollSigner allows a person's key to approve.
	EnrollSigner struct {
		ID        string      `json:"id"`
		Person    string      `json:"person"`
		Roles     []string    `json:"roles"`
		SigType   string      `json:"sig_type"`
		PublicKey string      `json:"public_key"`
		NotBefore ledger.Time `json:"not_before"`
		NotAfter  ledger.Time `json:"not_after"`
	}
	// RevokeSigner ends a signer for ever.
	RevokeSigner struct {
		ID string `json:"id"`
	}
	// GrantRoles gives a signer more roles, RevokeRoles takes some away.
	GrantRoles struct {
		Signer string   `json:"signer"`
		Roles  []string `json:"roles"`
	}
	// RevokeRoles takes roles from a signer.
	RevokeRoles struct {
		Signer string   `json:"signer"`
		Roles  []string `json:"roles"`
	}
	// ActivateBundle makes a policy bundle the active one.
	ActivateBundle struct {
		Digest string `json:"digest"`
	}
	// TrustTool sets the trust state of a tool as it was imported, and states what the
	// operator says of it.
	TrustTool struct {
		ToolID string `json:"tool_id"`
		// Fingerprint is "" for what has none: an executable.
		Fingerprint string `json:"fingerprint,omitempty"`
		// Status is allow_auto, manual_review or block.
		Status string `json:"status"`
		// Facts are what the catalog says of the operation, in clear, so that whoever signs
		// sees it: a JSON object, such as {"effect_class": "committing", …}.
		// Without them, only the trust state is stated.
		Facts json.RawMessage `json:"facts,omitempty"`
	}
	// AddPublisher allows a key to sign plans or manifests of servers.
	AddPublisher struct {
		ID     string `json:"id"`
		Person string `json:"person"`
		Key    string `json:"key"`
		// Uses are "manifests" and "plans", sorted.
		Uses []string `json:"uses"`
		// Providers are the MCP servers whose manifests the key signs, by their names in plans,
		// sorted: it signs those of no other. Only a key with the use "manifests" has some.
		Providers []string `json:"providers,omitempty"`
	}
	// RevokePublisher ends a publisher for ever.
	RevokePublisher struct {
		ID string `json:"id"`
	}
	// AddAgent adds an agent on whose behalf plans may act.
	AddAgent struct {
		AgentID       string `json:"agent_id"`
		PersonaRef    string `json:"persona_ref,omitempty"`
		WalletAddress string `json:"wallet_address,omitempty"`
		// Owner is the person who answers for it, and never approves what it does.
		Owner string `json:"owner"`
		// Keys may start runs for it. Vouching are those of them whose grants vouch for the
		// input of a run, so that it is not tainted.
		Keys     []string `json:"keys"`
		Vouching []string `json:"vouching,omitempty"`
		// Requesters are the persons for whom its keys may speak, sorted: who asks for a run
		// is believed only of them.
		Requesters []string `json:"requesters,omitempty"`
	}
	// SetAgentKeys replaces the keys that may start runs for an agent.
	SetAgentKeys struct {
		AgentID    string   `json:"agent_id"`
		Keys       []string `json:"keys"`
		Vouching   []string `json:"vouching,omitempty"`
		Requesters []string `json:"requesters,omitempty"`
	}
	// SetBudget sets what an agent may spend in each period.
	SetBudget struct {
		Agent    string          `json:"agent"`
		Currency ledger.Currency `json:"currency"`
		Parent   string          `json:"parent,omitempty"`
		Every    ledger.Every    `json:"every"`
		Limit    ledger.Money    `json:"limit"`
	}
	// AddGuardian allows a key to sign permits of effects.
	AddGuardian struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	// RevokeGuardian ends a guardian's key for ever.
	RevokeGuardian struct {
		ID string `json:"id"`
	}
	// RotateLog gives the log another key under the same name.
	RotateLog struct {
		LogKey
	}
	// SetWitnesses replaces the witnesses.
	SetWitnesses struct {
		Witnesses
	}
	// AcceptManifest makes a manifest of an MCP server the one that workers require. A version
	// never falls, and is that of one manifest. It ends a waiver of the provider.
	AcceptManifest struct {
		Provider string `json:"provider"`
		Version  string `json:"version"`
		// Digest is that of the signed content: see [ReadManifest].
		Digest string `json:"digest"`
	}
	// WaiveManifest lets production do without the manifest of an MCP server with effects, as
	// long as none is accepted, and without the report of a conformance suite.
	WaiveManifest struct {
		Provider string `json:"provider"`
		Reason   string `json:"reason"`
	}
)

// Kind implements [Act].
func (*SetAdmins) Kind() Kind { return AdminsSet }

// Kind implements [Act].
func (*EnrollSigner) Kind() Kind { return SignerEnroll }

// Kind implements [Act].
func (*RevokeSigner) Kind() Kind { return SignerRevoke }

// Kind implements [Act].
func (*GrantRoles) Kind() Kind { return RoleGrant }

// Kind implements [Act].
func (*RevokeRoles) Kind() Kind { return RoleRevoke }

// Kind implements [Act].
func (*ActivateBundle) Kind() Kind { return BundleActivate }

// Kind implements [Act].
func (*TrustTool) Kind() Kind { return ToolTrust }

// Kind implements [Act].
func (*AddPublisher) Kind() Kind { return PublisherAdd }

// Kind implements [Act].
func (*RevokePublisher) Kind() Kind { return PublisherRevoke }

// Kind implements [Act].
func (*AddAgent) Kind() Kind { return AgentAdd }

// Kind implements [Act].
func (*SetAgentKeys) Kind() Kind { return AgentKeys }

// Kind implements [Act].
func (*SetBudget) Kind() Kind { return BudgetSet }

// Kind implements [Act].
func (*AddGuardian) Kind() Kind { return GuardianKey }

// Kind implements [Act].
func (*RevokeGuardian) Kind() Kind { return GuardianRevoke }

// Kind implements [Act].
func (*RotateLog) Kind() Kind { return LogRotate }

// Kind implements [Act].
func (*SetWitnesses) Kind() Kind { return WitnessSet }

// Kind implements [Act].
func (*AcceptManifest) Kind() Kind { return ManifestAccept }

// Kind implements [Act].
func (*WaiveManifest) Kind() Kind { return ManifestWaive }

// makers make an empty act of each kind.
var makers = map[Kind]func() Act{
	AdminsSet:       func() Act { return new(SetAdmins) },
	SignerEnroll:    func() Act { return new(EnrollSigner) },
	SignerRevoke:    func() Act { return new(RevokeSigner) },
	RoleGrant:       func() Act { return new(GrantRoles) },
	RoleRevoke:      func() Act { return new(RevokeRoles) },
	BundleActivate:  func() Act { return new(ActivateBundle) },
	ToolTrust:       func() Act { return new(TrustTool) },
	PublisherAdd:    func() Act { return new(AddPublisher) },
	PublisherRevoke: func() Act { return new(RevokePublisher) },
	AgentAdd:        func() Act { return new(AddAgent) },
	AgentKeys:       func() Act { return new(SetAgentKeys) },
	BudgetSet:       func() Act { return new(SetBudget) },
	GuardianKey:     func() Act { return new(AddGuardian) },
	GuardianRevoke:  func() Act { return new(RevokeGuardian) },
	LogRotate:       func() Act { return new(RotateLog) },
	WitnessSet:      func() Act { return new(SetWitnesses) },
	ManifestAccept:  func() Act { return new(AcceptManifest) },
	ManifestWaive:   func() Act { return new(WaiveManifest) },
}

// Kinds lists the kinds of acts, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(makers)) }

// Acts is the list of a statement. In JSON each is {"act": kind, "data": {…}}.
type Acts []Act

type actJSON struct {
	Act  Kind            `json:"act"`
	Data json.RawMessage `json:"data"`
}

// MarshalJSON writes the acts.
func (a Acts) MarshalJSON() ([]byte, error) {
	out := []actJSON{}
	for _, act := range a {
		data, err := json.Marshal(act)
		if err != nil {
			return nil, err
		}
		out = append(out, actJSON{act.Kind(), data})
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads acts of known kinds.
func (a *Acts) UnmarshalJSON(raw []byte) error {
	var list []actJSON
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	*a = nil
	for i, j := range list {
		maker := makers[j.Act]
		if maker == nil {
			return invalid("act %d is %.40q, which this version does not know", i, string(j.Act))
		}
		act := maker()
		if err := json.Unmarshal(j.Data, act); err != nil {
			return err
		}
		*a = append(*a, act)
	}
	return nil
}

// ParseActs reads a list of acts of known kinds, without unknown fields.
func ParseActs(raw []byte) (Acts, error) {
	if len(raw) > MaxEnvelope {
		return nil, invalid("acts of %d bytes, more than %d", len(raw), MaxEnvelope)
	}
	var acts Acts
	if _, err := exact(raw, &acts); err != nil {
		return nil, invalid("the acts: %s", bare(err))
	}
	for i, a := range acts {
		if err := a.check(); err != nil {
			return nil, invalid("act %d (%s): %s", i, a.Kind(), bare(err))
		}
	}
	return acts, nil
}

// names checks a sorted list of unique names.
func names(what string, list []string, least int) error {
	if len(list) < least || len(list) > maxList {
		return invalid("%d names of %s; there must be between %d and %d", len(list), what, least, maxList)
	}
	for i, s := range list {
		if err := name(what, s); err != nil {
			return err
		}
		if i > 0 && list[i-1] >= s {
			return invalid("the names of %s are not sorted, or not unique", what)
		}
	}
	return nil
}

func keysOf(what string, list []string) error {
	if list == nil || len(list) > maxList {
		return invalid("the keys of %s are not a list of at most %d", what, maxList)
	}
	for i, k := range list {
		if _, err := ParsePublic(k); err != nil {
			return err
		}
		if slices.Contains(list[:i], k) {
			return invalid("a key of %s is listed twice", what)
		}
	}
	return nil
}

// Uses of publishers' keys.
const (
	UseManifests = "manifests"
	UsePlans     = "plans"
)

func (a *SetAdmins) check() error { return admins(a.Admins, a.Quorum, 1) }

func (a *EnrollSigner) check() error {
	if err := name("a signer", a.ID); err != nil {
		return err
	}
	if err := person("a person", a.Person); err != nil {
		return err
	}
	if err := names("roles", a.Roles, 1); err != nil {
		return err
	}
	if _, err := a.verifier(); err != nil {
		return err
	}
	if !a.NotBefore.Time().Before(a.NotAfter.Time()) {
		return invalid("the signer %s is never valid", a.ID)
	}
	return nil
}

func (a *RevokeSigner) check() error { return name("a signer", a.ID) }

func (a *GrantRoles) check() error { return changeRoles(a.Signer, a.Roles) }

func (a *RevokeRoles) check() error { return changeRoles(a.Signer, a.Roles) }

func changeRoles(signer string, roles []string) error {
	if err := name("a signer", signer); err != nil {
		return err
	}
	return names("roles", roles, 1)
}

func (a *ActivateBundle) check() error { return digest("the bundle", a.Digest) }

func (a *TrustTool) check() error {
	if err := name("a tool", a.ToolID); err != nil {
		return err
	}
	if !ledger.KnownTrust(a.Status) {
		return invalid("%.40q is not a trust state: allow_auto, manual_review or block", a.Status)
	}
	if a.Facts != nil {
		if _, err := factual(a.Facts); err != nil {
			return invalid("the facts of the tool %s: %s", a.ToolID, bare(err))
		}
		if a.Fingerprint == "" {
			return nil
		}
	}
	return digest("the tool "+a.ToolID, a.Fingerprint)
}

// maxFacts bounds what a statement says of a tool, in bytes.
const maxFacts = 16 << 10

// factual reads facts: the canonical text of each field.
func factual(raw json.RawMessage) (map[string]string, error) {
	if len(raw) > maxFacts {
		return nil, invalid("%d bytes, more than %d", len(raw), maxFacts)
	}
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, invalid("%s", err)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, invalid("they are not a JSON object")
	}
	facts := make(map[string]string, len(fields))
	for name, value := range fields {
		text, err := plan.Canonical(value)
		if err != nil {
			return nil, invalid("%s: %s", name, err)
		}
		facts[name] = string(text)
	}
	return facts, nil
}

func (a *AddPublisher) check() error {
	if err := name("a publisher", a.ID); err != nil {
		return err
	}
	if err := person("a person", a.Person); err != nil {
		return err
	}
	if _, err := ParsePublic(a.Key); err != nil {
		return err
	}
	if err := names("uses", a.Uses, 1); err != nil {
		return err
	}
	for _, u := range a.Uses {
		if u != UseManifests && u != UsePlans {
			return invalid("%.40q is not a use of a publisher's key: manifests or plans", u)
		}
	}
	if len(a.Providers) > 0 && !slices.Contains(a.Uses, UseManifests) {
		return invalid("the publisher %s has providers, and does not sign manifests", a.ID)
	}
	return names("providers", a.Providers, 0)
}

func (a *RevokePublisher) check() error { return name("a publisher", a.ID) }

func (a *AddAgent) check() error {
	if err := name("an agent", a.AgentID); err != nil {
		return err
	}
	if err := person("an owner", a.Owner); err != nil {
		return err
	}
	for _, s := range []string{a.PersonaRef, a.WalletAddress} {
		if s != "" {
			if err := name("an identity", s); err != nil {
				return err
			}
		}
	}
	return startKeys(a.AgentID, a.Keys, a.Vouching, a.Requesters)
}

func (a *SetAgentKeys) check() error {
	if err := name("an agent", a.AgentID); err != nil {
		return err
	}
	return startKeys(a.AgentID, a.Keys, a.Vouching, a.Requesters)
}

func startKeys(agent string, keys, vouching, requesters []string) error {
	if err := names("requesters", requesters, 0); err != nil {
		return err
	}
	for _, s := range requesters {
		if err := person("a requester", s); err != nil {
			return err
		}
	}
	if err := keysOf("agent "+agent, keys); err != nil {
		return err
	}
	for i, k := range vouching {
		if !slices.Contains(keys, k) || slices.Contains(vouching[:i], k) {
			return invalid("a key of agent %s vouches for inputs, and is not one of its keys, or is listed twice", agent)
		}
	}
	return nil
}

func (a *SetBudget) check() error {
	if err := name("an agent", a.Agent); err != nil {
		return err
	}
	if a.Parent != "" {
		if err := name("an agent", a.Parent); err != nil {
			return err
		}
	}
	if !a.Every.Valid() {
		return invalid("a budget for each %.20q, which is not day, month or forever", string(a.Every))
	}
	if a.Limit.Currency() != a.Currency || a.Limit.Minor() < 0 || a.Currency == "" {
		return invalid("a limit of %s on a budget of %.10q", a.Limit, string(a.Currency))
	}
	return nil
}

func (a *AddGuardian) check() error {
	if err := name("a guardian", a.ID); err != nil {
		return err
	}
	_, err := ParsePublic(a.Key)
	return err
}

func (a *RevokeGuardian) check() error { return name("a guardian", a.ID) }

func (a *RotateLog) check() error { return a.LogKey.check() }

func (a *SetWitnesses) check() error { return a.Witnesses.check() }

func (a *AcceptManifest) check() error {
	if err := name("a provider", a.Provider); err != nil {
		return err
	}
	if err := version(a.Version); err != nil {
		return err
	}
	return digest("the manifest", a.Digest)
}

func (a *WaiveManifest) check() error {
	if err := name("a provider", a.Provider); err != nil {
		return err
	}
	return name("a reason", a.Reason)
}
