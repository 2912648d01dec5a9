package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// manifestEvery is how long what the admins have stated of a manifest counts, once it was read.
const manifestEvery = 10 * time.Second

// manifests hold calls of MCP servers to what the publishers of these have signed.
type manifests struct {
	// files are the manifests' files, by provider.
	files map[string]string
	// said is what the admins have stated, or nil: then a manifest is taken as it is.
	said *trust.Reader
	// demanding says that a server with effects needs a manifest, or a waiver.
	demanding bool
	now       func() time.Time

	mu   sync.Mutex
	last map[string]*held
}

// held is what a manifest's file had when it was verified.
type held struct {
	mu   sync.Mutex
	text []byte
	at   time.Time
	judged
}

// judged is what was found of a manifest.
type judged struct {
	// manifest is nil if there is none, or it failed.
	manifest *trust.Manifest
	// failed is why the manifest does not count, and lacks why what there is is not enough for
	// effects; they are nil or [trust.ErrInvalid].
	failed, lacks error
}

// newManifests verifies the manifests of a host, and that they cover its catalog, but for servers that it
// does not have: their operations are not called.
func newManifests(ctx context.Context, o *Options, said *trust.Reader) (*manifests, error) {
	m := &manifests{files: o.Manifests, said: said, demanding: o.production() && o.has(RoleEffects), now: time.Now, last: map[string]*held{}}
	for _, provider := range slices.Sorted(maps.Keys(m.files)) {
		j, err := m.look(ctx, provider)
		if err == nil {
			err = j.failed
		}
		if err != nil {
			return nil, fmt.Errorf("the manifest of the MCP server %s (mcpServers.%s.manifest): %w", provider, provider, err)
		}
	}
	if o.Catalog == nil {
		return m, nil
	}
	for i := range o.Catalog.Templates {
		t := &o.Catalog.Templates[i]
		if t.ProviderType != plan.MCP || t.Resource != nil || m.files[t.Provider] == "" && !o.provides(plan.MCP, t.Provider) {
			continue
		}
		if err := m.allow(ctx, t.Provider, t.Operation, t.Fingerprint, t.Effect); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name(), err)
		}
	}
	return m, nil
}

// allow returns an error unless an operation of an MCP server may be called, for all that
// manifests say. It is [trust.ErrInvalid] if they do not let it.
func (m *manifests) allow(ctx context.Context, provider, operation, fingerprint string, effect plan.EffectClass) error {
	demanded := m.demanding && effect.Commits()
	if m.files[provider] == "" && !demanded {
		return nil
	}
	j, err := m.look(ctx, provider)
	switch {
	case err != nil:
		return err
	case j.failed != nil:
		return j.failed
	case demanded && j.lacks != nil:
		return j.lacks
	case j.manifest == nil:
		return nil
	}
	return j.manifest.Covers(operation, fingerprint, effect)
}

// look reads the manifest of a provider, and verifies it if it is another than before, or some
// time has passed. An error says that nobody knows.
func (m *manifests) look(ctx context.Context, provider string) (judged, error) {
	m.mu.Lock()
	h := m.last[provider]
	if h == nil {
		h = new(held)
		m.last[provider] = h
	}
	m.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	var text []byte
	if file := m.files[provider]; file != "" {
		var err error
		if text, err = readFile(file, trust.MaxManifest); err != nil {
			return judged{failed: fmt.Errorf("%w: %w", trust.ErrInvalid, err)}, nil
		}
	}
	if now := m.now(); h.at.IsZero() || now.Sub(h.at) >= manifestEvery || !bytes.Equal(text, h.text) {
		j, err := m.verify(ctx, provider, text)
		if err != nil {
			return judged{}, err
		}
		h.text, h.at, h.judged = text, now, j
	}
	return h.judged, nil
}

// verify judges a manifest, or that there is none.
func (m *manifests) verify(ctx context.Context, provider string, text []byte) (j judged, err error) {
	var s trust.State
	if m.said != nil {
		if s, err = m.said.State(ctx); errors.Is(err, trust.ErrInvalid) {
			return judged{failed: err}, nil
		} else if err != nil {
			return j, err
		}
	}
	if m.files[provider] != "" {
		var is trust.Manifest
		if m.said != nil {
			is, err = trust.VerifyManifest(s, text, provider)
		} else if is, _, err = trust.ReadManifest(text); err == nil && is.Provider != provider {
			err = fmt.Errorf("%w: the manifest is of the provider %.120q, not of %.120q", trust.ErrInvalid, is.Provider, provider)
		}
		if err != nil {
			return judged{failed: err}, nil
		}
		j.manifest = &is
	}
	if m.demanding {
		j.lacks = s.Manifested(provider, j.manifest)
	}
	return j, nil
}

// manifested calls tools of MCP servers that manifests let it call. Of resources they say nothing.
type manifested struct {
	activities.Caller
	manifests *manifests
}

// Call implements activities.Caller.
func (c manifested) Call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	n := r.Node
	if n.ProviderType != plan.MCP || n.Resource != nil {
		return c.Caller.Call(ctx, r)
	}
	switch err := c.manifests.allow(ctx, n.Provider, n.Operation, cmp.Or(r.Fingerprint, n.Fingerprint), n.Effect); {
	case errors.Is(err, trust.ErrInvalid):
		return activities.Answer{}, contract.Errorf(contract.Blocked, "%s is not called: %w", n.Activity(), err)
	case err != nil:
		return activities.Answer{}, contract.Errorf(contract.Unsent, "%s is not called, since its manifest cannot be verified: %w", n.Activity(), err)
	}
	answer, err := c.Caller.Call(ctx, r)
	if e := new(contract.Error); errors.As(err, &e) && e.Listed != nil && c.manifests.files[n.Provider] != "" {
		// Nobody is asked about what the publisher has not signed.
		signed := *e
		signed.Listed = nil
		return answer, &signed
	}
	return answer, err
}
