package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/config"
	"chimera.ai/engine/discover"
	"chimera.ai/engine/intake"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// readManifest reads the manifest of a server that is imported, says who has signed it, and fails if
// that is somebody whom the admins do not let.
func (p *Program) readManifest(ctx context.Context, c *config.Config, file, server string) (*verified, error) {
	if has := c.MCPServers[server].Manifest; has != "" && !sameFile(has, file) {
		return nil, misuse("the configuration has another manifest of the server %s (mcpServers.%s.manifest): %s", foreign(server), foreign(server), fromHere(has))
	}
	raw, err := wholefile.Read(file, trust.MaxManifest)
	if err != nil {
		return nil, misuse("--manifest: %s", err)
	}
	v := &verified{File: file, Problems: []differingTool{}}
	if v.Manifest, v.Digest, err = trust.ReadManifest(raw); err != nil {
		return nil, negative("%s: %s", file, err)
	}
	if v.Manifest.Provider != server {
		return nil, negative("%s is the manifest of the server %s, not of %s", file, foreign(v.Manifest.Provider), foreign(server))
	}
	envelope, err := trust.ParseEnvelope(raw, trust.ManifestType)
	if err != nil {
		return nil, negative("%s: %s", file, err)
	}
	m := &v.Manifest
	p.say("%s: the manifest %s of %s, %s", foreign(server), m.Version, m.Issued, v.Digest)
	s, err := p.stated(ctx)
	if err != nil {
		p.say("  who may sign it is not known here: %s", foreign(err.Error()))
	}
	if v.Publisher, err = trust.ManifestPublisher(s, raw); err != nil {
		for _, a := range s.Publishers {
			if k, bad := trust.ParsePublic(a.Key); bad == nil && len(envelope.By([]trust.Public{k})) > 0 {
				return nil, negative("%s: %s", file, err)
			}
		}
	}
	v.Accepted = s.Accepts(m, v.Digest) == nil
	if v.Publisher != "" {
		p.say("  signed by the publisher %s", foreign(v.Publisher))
	} else {
		var ids []string
		for _, sig := range envelope.Signatures {
			ids = append(ids, cmp.Or(sig.KeyID, "one without an id"))
		}
		p.say("  signed, it says, with the key %s, of no publisher that is known here: nothing is verified", foreign(strings.Join(ids, ", ")))
	}
	if from := m.Provenance; from != nil {
		p.say("  built from: %s", foreign(from.String()))
	}
	if m.ConformanceHash != "" {
		p.say("  conformance: %s %s", foreign(m.Suite), m.ConformanceHash)
	}
	return v, nil
}

// stated reads what the admins have stated; nothing is without a root of trust.
func (p *Program) stated(ctx context.Context) (trust.State, error) {
	over, _, err := p.authority(ctx)
	if err != nil {
		return trust.State{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return trust.Read(bounded, over.Ledger, over.Bootstrap)
}

// sameFile reports whether two paths name one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// offered fails if the tools of the server are others than those of the manifest.
func (p *Program) offered(v *verified, tools []mcp.Tool) error {
	if v.against(tools); len(v.Problems) == 0 {
		return nil
	}
	for _, d := range v.Problems {
		p.say("  ! %s", foreign(v.Manifest.Provider+"/"+d.Tool+": "+d.Problem))
	}
	return negative("the server %s is not as its manifest says: %s", foreign(v.Manifest.Provider), plural(len(v.Problems), "problem"))
}

// publish proposes what a manifest says of a tool, as the word of its publisher, unless the catalog
// says as much already.
func (x *importedTool) publish(v *verified) {
	i := slices.IndexFunc(v.Manifest.Tools, func(t trust.ManifestTool) bool { return t.Name == x.Name })
	if i < 0 {
		return // it was left out
	}
	effect := v.Manifest.Tools[i].Effect
	stricter := func(a, b plan.EffectClass) bool { return slices.Index(saidEffects, a) > slices.Index(saidEffects, b) }
	if x.was != nil && !stricter(effect, x.proposal.Effect) {
		return
	}
	if own, err := intake.Propose(x.definition, true); err == nil && !own.Guess && stricter(own.Effect, effect) {
		x.look, x.flagged = true, true
		x.Warnings = append(x.Warnings, fmt.Sprintf("its manifest says %s, and the server itself %s", effect, own.Effect))
		if effect == plan.Pure && live.Acts(x.definition) {
			x.proposal = own
			return
		}
	}
	x.published = true
	x.proposal.Effect, x.proposal.Guess = effect, v.Publisher == ""
	switch {
	case x.was != nil && x.proposal.Status == plan.Block:
	case effect == plan.Pure:
		x.proposal.Status = plan.AllowAuto
	default:
		x.proposal.Status = plan.ManualReview
	}
	who := "Its publisher " + v.Publisher
	if v.Publisher == "" {
		who = "A publisher who is not known here"
	}
	x.proposal.Reason = fmt.Sprintf("%s says so, in the manifest %s.", who, v.Manifest.Version)
}

// nameManifest makes the configuration name the manifest of a server, and says what the admins have
// to state before workers take it.
func (p *Program) nameManifest(c *config.Config, v *verified, write bool) error {
	server := v.Manifest.Provider
	if write && c.MCPServers[server].Manifest == "" {
		if err := p.setManifest(cmp.Or(c.File, config.DefaultFile), server, v.File); err != nil {
			return err
		}
	}
	if v.Accepted {
		return nil
	}
	accept, err := json.Marshal(&trust.AcceptManifest{Provider: server, Version: v.Manifest.Version, Digest: v.Digest})
	if err != nil {
		return fmt.Errorf("showing an act: %w", err)
	}
	add := ""
	if v.Publisher == "" {
		add = fmt.Sprintf(`{"act":"publisher.add","data":{"id":"…","person":"…","key":"…","uses":["manifests"],"providers":[%q]}},`, server)
	}
	p.say(`%s: workers take the manifest, and start, once the admins have stated [%s{"act":"manifest.accept","data":%s}]`, foreign(server), add, accept)
	return nil
}

// setManifest writes mcpServers.SERVER.manifest, relative to the folder of the configuration.
func (p *Program) setManifest(file, server, manifest string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return misuse("%s", err)
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err == nil {
		manifest, err = filepath.Abs(manifest)
	}
	if err != nil {
		return misuse("%s", err)
	}
	if near, err := filepath.Rel(dir, manifest); err == nil {
		manifest = near
	}
	next, err := discover.Set(text, server, "manifest", manifest)
	if err != nil {
		return misuse("%s", err).withHint("Set mcpServers.%s.manifest.", server)
	}
	return p.rewriteSettings(file, text, next)
}
