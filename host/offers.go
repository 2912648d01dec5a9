package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// atOnce is how many servers are asked at a time what they offer, and askTime bounds how long one may
// take.
const (
	atOnce  = 4
	askTime = time.Minute
)

// offers asks the MCP servers that this host calls what they offer, before the first call needs
// them, and logs where that is not what the catalog has. Each call looks again.
func (h *Host) offers(ctx context.Context, said *trust.Reader) {
	o := &h.options
	operations, err := h.operations(ctx, said)
	if err != nil {
		o.Logger.WarnContext(ctx, "what MCP servers offer is not held against the catalog", "error", err)
		return
	}
	templates := map[string][]catalog.Template{}
	for _, t := range operations.Templates {
		if _, known := o.Servers[t.Provider]; known && t.ProviderType == plan.MCP && o.calls(t.Provider) {
			templates[t.Provider] = append(templates[t.Provider], t)
		}
	}
	var asked errgroup.Group
	asked.SetLimit(atOnce)
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		asked.Go(func() error {
			found, err := h.ask(ctx, name, templates[name])
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				o.Logger.WarnContext(ctx, "an MCP server is not held against the catalog", "server", name, "error", err)
			}
			for _, f := range found {
				if f.Stale() {
					o.Logger.WarnContext(ctx, "an MCP server does not offer what the catalog has", "operation", f.Server+"/"+f.Tool, "state", f.State, "problem", f.Problem)
				}
			}
			return nil
		})
	}
	_ = asked.Wait()
	o.Logger.DebugContext(ctx, "what MCP servers offer was held against the catalog", "servers", len(templates))
}

// calls reports whether this host may call a provider.
func (o *Options) calls(provider string) bool {
	by := o.Callers[provider]
	return len(by) == 0 || slices.ContainsFunc(by, o.has)
}

// operations are those of the catalog, with what is registered.
func (h *Host) operations(ctx context.Context, said *trust.Reader) (*catalog.Catalog, error) {
	_, all, err := Catalog(h.options.Catalog, h.options.Skills)
	if err != nil || said == nil {
		return all, err
	}
	registered, _, err := (&imported{said: said, rows: h.store.Ledger}).catalog(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the registry of tools: %w", err)
	}
	return registry.Under(all, registered), nil
}

// ask asks a server what it offers, and holds that against its templates. It starts none at an
// endpoint that none of them has.
func (h *Host) ask(ctx context.Context, name string, templates []catalog.Template) ([]live.Offer, error) {
	identity, err := h.options.Servers[name].Endpoint()
	if err != nil {
		return nil, err
	}
	endpoint, err := fingerprint.Endpoint(identity)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(templates, func(t catalog.Template) bool {
		return len(t.Endpoints) == 0 || slices.Contains(t.Endpoints, endpoint)
	}) {
		return nil, fmt.Errorf("the digest of its endpoint is %s, which no operation of the catalog has", endpoint)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := live.Ask(ctx, h.pool, name, templates)
	if err != nil {
		return nil, err
	}
	return live.Compare(templates, map[string]live.Server{name: s}), nil
}
