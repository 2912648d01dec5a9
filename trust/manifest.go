package trust

import (
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"chimera.ai/engine/conform/verdict"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

const (
	// ManifestFormat and ManifestType are of the manifest of an MCP server.
	ManifestFormat = "chimera.ai/mcp/manifest/v1"
	ManifestType   = "application/vnd.chimera.mcp-manifest.v1+json"
	// MaxManifestTools bounds the tools of a manifest.
	MaxManifestTools = 512
	// MaxManifest bounds the envelope of a manifest, in bytes.
	MaxManifest = MaxEnvelope
)

// Manifest is what the publisher of an MCP server signs of it. It is for every deployment: a
// deployment uses it once its admins have accepted it (manifest.accept).
type Manifest struct {
	Format string `json:"format"`
	// Provider is the name of the server in plans.
	Provider string `json:"provider"`
	// Version is a semantic version: MAJOR.MINOR.PATCH, perhaps with a prerelease and a build.
	Version string      `json:"version"`
	Issued  ledger.Time `json:"issued"`
	// Tools are sorted by name.
	Tools []ManifestTool `json:"tools"`
	// ToolsFingerprint is [fingerprint.Tools] of the tools, or "".
	ToolsFingerprint string `json:"tools_fingerprint,omitempty"`
	// Suite, ServerFingerprint, Verdicts and Examples are what a suite found of the server in a
	// report without a case that failed: see [verdict.Summary]. ConformanceHash is the digest of
	// them. Without a report, all are absent.
	Suite             string         `json:"suite,omitempty"`
	ServerFingerprint string         `json:"server_fingerprint,omitempty"`
	Verdicts          []verdict.Case `json:"verdicts,omitempty"`
	Examples          string         `json:"examples,omitempty"`
	ConformanceHash   string         `json:"conformance_hash,omitempty"`
	// Provenance may be nil.
	Provenance *Provenance `json:"provenance,omitempty"`
}

// ManifestTool is a tool of a manifest.
type ManifestTool struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	// Effect is the class of its effect. A deployment may say a stricter one.
	Effect plan.EffectClass `json:"effect_class"`
}

// Provenance says from what a server was built, and by what. Nothing is concluded from it.
type Provenance struct {
	Repository string `json:"repository,omitempty"`
	Revision   string `json:"revision,omitempty"`
	Builder    string `json:"builder,omitempty"`
	Workflow   string `json:"workflow,omitempty"`
}

func (m *Manifest) check() error {
	if m.Format != ManifestFormat {
		return invalid("the format is %.80q, not %s", m.Format, ManifestFormat)
	}
	if err := name("a provider", m.Provider); err != nil {
		return err
	}
	if err := version(m.Version); err != nil {
		return err
	}
	if err := m.checkTools(); err != nil {
		return err
	}
	if err := m.checkConformance(); err != nil {
		return err
	}
	if m.Provenance != nil {
		return m.Provenance.check()
	}
	return nil
}

func (m *Manifest) checkTools() error {
	if n := len(m.Tools); n == 0 || n > MaxManifestTools {
		return invalid("%d tools; there must be between 1 and %d", n, MaxManifestTools)
	}
	prints := make([]fingerprint.Print, len(m.Tools))
	for i, t := range m.Tools {
		if err := name("a tool", t.Name); err != nil {
			return err
		}
		if i > 0 && m.Tools[i-1].Name >= t.Name {
			return invalid("the tools are not sorted by name, or not unique")
		}
		if err := digest("the tool "+t.Name, t.Fingerprint); err != nil {
			return err
		}
		if !slices.Contains(effects, t.Effect) {
			return invalid("%.40q is not the effect class of a tool", string(t.Effect))
		}
		prints[i] = fingerprint.Print{Tool: t.Name, Digest: t.Fingerprint}
	}
	if m.ToolsFingerprint == "" {
		return nil
	}
	all, err := fingerprint.Tools(prints)
	if err != nil {
		return invalid("the tools: %s", err)
	}
	if m.ToolsFingerprint != all {
		return invalid("the tools_fingerprint is %.80q, and that of the tools is %s", m.ToolsFingerprint, all)
	}
	return nil
}

// String is what is known, separated by commas.
func (p *Provenance) String() string {
	return strings.Join(slices.DeleteFunc([]string{p.Repository, p.Revision, p.Builder, p.Workflow}, func(s string) bool { return s == "" }), ", ")
}

func (p *Provenance) check() error {
	if *p == (Provenance{}) {
		return invalid("the provenance is empty")
	}
	for _, s := range []string{p.Repository, p.Revision, p.Builder, p.Workflow} {
		if s != "" {
			if err := name("a provenance", s); err != nil {
				return err
			}
		}
	}
	return nil
}

// version checks the form of a semantic version.
func version(s string) error {
	v := "v" + s
	if len(s) > maxName || !semver.IsValid(v) || semver.Canonical(v)+semver.Build(v) != v {
		return invalid("%.80q is not a semantic version, such as 1.2.0", s)
	}
	return nil
}

// effects are the effect classes, the weakest first.
var effects = []plan.EffectClass{plan.Pure, plan.Staged, plan.Committing, plan.Irreversible}

// Covers returns an error unless the manifest lists a tool with the fingerprint that is pinned
// of it, and with no stronger effect class than the one that is said of it.
func (m *Manifest) Covers(tool, pinned string, effect plan.EffectClass) error {
	i, found := slices.BinarySearchFunc(m.Tools, tool, func(t ManifestTool, name string) int { return strings.Compare(t.Name, name) })
	if !found {
		return invalid("the manifest of %s %s has no tool %.120q", m.Provider, m.Version, tool)
	}
	switch t := m.Tools[i]; {
	case pinned == "":
		return invalid("nothing pins the tool %.120q, which the manifest of %s %s has with the fingerprint %s", tool, m.Provider, m.Version, t.Fingerprint)
	case pinned != t.Fingerprint:
		return invalid("the tool %.120q is pinned as %.80s, and the manifest of %s %s has %s", tool, pinned, m.Provider, m.Version, t.Fingerprint)
	case slices.Index(effects, effect) < slices.Index(effects, t.Effect):
		return invalid("the tool %.120q is said to be %.40s, and the manifest of %s %s says %s", tool, string(effect), m.Provider, m.Version, t.Effect)
	}
	return nil
}

// SignManifest signs a manifest. The format may be left out.
func SignManifest(k *Key, m Manifest) ([]byte, error) {
	m.Format = ManifestFormat
	if err := m.check(); err != nil {
		return nil, err
	}
	return seal(ManifestType, &m, k)
}

// ReadManifest reads a manifest without verifying signatures: see [VerifyManifest]. It also
// returns the digest by which admins accept it: that of what was signed, however the envelope is
// encoded.
func ReadManifest(envelope []byte) (Manifest, string, error) {
	m, e, err := readManifest(envelope)
	if err != nil {
		return Manifest{}, "", err
	}
	return m, e.Digest(), nil
}

func readManifest(envelope []byte) (Manifest, *Envelope, error) {
	e, err := ParseEnvelope(envelope, ManifestType)
	if err != nil {
		return Manifest{}, nil, err
	}
	var m Manifest
	if _, err := exact(e.Payload, &m); err != nil {
		return Manifest{}, nil, invalid("the manifest: %s", bare(err))
	}
	return m, e, m.check()
}

// VerifyManifest verifies the manifest of a provider in a state: a publisher whose key counts
// there, and is bound to the provider, must have signed it, and it must be the one that the
// admins have accepted last.
func VerifyManifest(s State, envelope []byte, provider string) (Manifest, error) {
	m, e, err := readManifest(envelope)
	if err != nil {
		return Manifest{}, err
	}
	if m.Provider != provider {
		return Manifest{}, invalid("the manifest is of the provider %.120q, not of %.120q", m.Provider, provider)
	}
	if _, err := s.published(e, provider); err != nil {
		return Manifest{}, err
	}
	if err := s.Accepts(&m, e.Digest()); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// ManifestPublisher returns the id of the publisher who has signed a manifest, and may sign those
// of its provider.
func ManifestPublisher(s State, envelope []byte) (string, error) {
	m, e, err := readManifest(envelope)
	if err != nil {
		return "", err
	}
	return s.published(e, m.Provider)
}

// published finds the publisher who has signed an envelope, and may sign manifests of a provider.
func (s *State) published(e *Envelope, provider string) (string, error) {
	no := invalid("no publisher of manifests has signed it")
	for _, id := range sorted(s.Publishers) {
		a := s.Publishers[id]
		k, err := ParsePublic(a.Key)
		if err != nil {
			return "", err
		}
		switch {
		case len(e.By([]Public{k})) == 0:
		case !slices.Contains(a.Uses, UseManifests):
			no = invalid("the publisher %s, who has signed it, does not sign %s", id, UseManifests)
		case a.Revoked != nil:
			no = invalid("the publisher %s, who has signed it, was revoked at %s", id, *a.Revoked)
		case !slices.Contains(a.Providers, provider):
			no = invalid("the publisher %s, who has signed it, does not sign manifests of %.120q", id, provider)
		default:
			return id, nil
		}
	}
	return "", no
}

// Accepts returns an error unless a manifest of a digest is the one that the admins have accepted
// last for its provider.
func (s State) Accepts(m *Manifest, digest string) error {
	last, ok := s.Manifests[m.Provider]
	switch {
	case !ok:
		return invalid("the admins have accepted no manifest of %.120q (manifest.accept)", m.Provider)
	case last.Digest != digest:
		return invalid("the admins have accepted last, for %.120q, the manifest %s of version %s, and this one is %s of version %s", m.Provider, last.Digest, last.Version, digest, m.Version)
	case last.Version != m.Version:
		return invalid("the admins have accepted the manifest %s as version %s, and its version is %s", digest, last.Version, m.Version)
	}
	return nil
}

// Manifested returns an error unless the manifest that a worker has of a provider with effects,
// nil for none, is enough for production: there is one whose report suffices, as
// [verdict.Summary.Suffices] says, or the admins have waived that. One that was accepted must be
// there.
func (s State) Manifested(provider string, m *Manifest) error {
	_, waived := s.Waivers[provider]
	_, accepted := s.Manifests[provider]
	switch {
	case m == nil && accepted:
		return invalid("the admins have accepted a manifest of %.120q, and this worker has none (mcpServers)", provider)
	case m == nil && !waived:
		return invalid("%.120q has effects and no manifest (mcpServers), which the admins have not waived (manifest.waive)", provider)
	case m != nil && m.ConformanceHash == "" && !waived:
		return invalid("the manifest of %.120q has no report of a conformance suite, which the admins have not waived (manifest.waive)", provider)
	case m != nil && !waived:
		if err := m.Conformance().Suffices(); err != nil {
			return invalid("the report in the manifest of %.120q is not enough, which the admins have not waived (manifest.waive): %s", provider, err)
		}
	}
	return nil
}
