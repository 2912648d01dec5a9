package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/trust"
)

// Files are those of a catalog, of a policy bundle, and of one in shadow. Names of a catalog may
// be "".
type Files struct {
	Catalog, Policy, Shadow []string
}

// reader returns what runs are compiled and judged with now, made again only when the files, or
// what is registered, have changed.
type reader struct {
	// files are read again and again; if it is nil, rules holds.
	files *Files
	rules rules
	// registry, if not nil, has the tools that were imported.
	registry *imported
	skills   []skills.Skill
	// holds: what was valid last stays in force while a file is not, as while it is being
	// edited.
	holds bool

	mu   sync.Mutex
	last activities.Workbench
	// models are the files of the models that the policies of these texts name.
	models   []string
	modelsOf [sha256.Size]byte
}

// rules are what files of a catalog, of a policy and of one in shadow say.
type rules struct {
	catalog        *catalog.Catalog
	policy, shadow *policy.Bundle
}

// reader has what runs are compiled and judged with: files, and what is registered if said is not
// nil.
func (h *Host) reader(said *trust.Reader) *reader {
	o := &h.options
	r := &reader{files: o.Reread, rules: rules{o.Catalog, o.Policy, o.Shadow}, skills: o.Skills}
	if said != nil {
		r.registry = &imported{said: said, rows: h.store.Ledger}
	}
	return r
}

// workbench refuses every plan if a file, or the registry, cannot be read or is invalid, unless
// what was valid before holds.
func (r *reader) workbench() activities.Workbench {
	var registered *catalog.Catalog
	var edition string
	var away error
	if r.registry != nil {
		registered, edition, away = r.registry.catalog(context.Background()) // it does not wait for long
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.read(registered, edition, away)
	switch {
	case err == nil:
		r.last = next
	case r.holds && r.last.Edition != "":
	default:
		return refusing(err)
	}
	return r.last
}

// read returns the last workbench where nothing has changed. It takes what was read of the registry.
func (r *reader) read(registered *catalog.Catalog, of string, away error) (activities.Workbench, error) {
	hash := sha256.New()
	texts, model, err := r.texts(hash)
	if err != nil {
		return activities.Workbench{}, err
	}
	if away != nil {
		return activities.Workbench{}, fmt.Errorf("read the registry of tools: %w", away)
	}
	hash.Write([]byte(of))
	edition := hex.EncodeToString(hash.Sum(nil))
	if r.last.Edition == edition {
		return r.last, nil
	}
	said := r.rules
	if r.files != nil {
		if said, err = parseRules(r.files, texts, model); err != nil {
			return activities.Workbench{}, err
		}
	}
	if registered != nil {
		said.catalog = registry.Under(said.catalog, registered)
	}
	_, operations, err := Catalog(said.catalog, r.skills)
	if err != nil {
		return activities.Workbench{}, err
	}
	bench := workbench(operations, said.policy, said.shadow)
	bench.Edition = edition
	return bench, nil
}

// texts reads the files, all into a hash, and says what the file of a model has.
func (r *reader) texts(all hash.Hash) (texts map[string][]byte, model func(name string) ([]byte, error), err error) {
	texts = map[string][]byte{}
	if r.files == nil {
		return texts, nil, nil
	}
	policies := slices.Concat(r.files.Policy, r.files.Shadow)
	for _, name := range slices.Concat(policies, named(r.files.Catalog)) {
		text, err := readFile(name, maxCatalog)
		if err != nil {
			return nil, nil, fmt.Errorf("read the catalog or the policy: %w", err)
		}
		texts[name] = text
		digest := sha256.Sum256(text)
		all.Write(digest[:])
	}
	if now := [sha256.Size]byte(all.Sum(nil)); r.modelsOf != now {
		r.models, r.modelsOf = modelFiles(policies, texts), now
	}
	models, away := map[string][]byte{}, map[string]error{}
	for _, name := range r.models {
		text, err := readFile(name, causal.MaxFile)
		models[name], away[name] = text, err
		digest := sha256.Sum256(text)
		all.Write(digest[:])
	}
	return texts, func(name string) ([]byte, error) {
		return models[name], away[name]
	}, nil
}

// invalid is the error of files with findings.
type invalid struct{ found diag.Diagnostics }

func (e invalid) Error() string { return e.found.First().Summary }

func parseRules(files *Files, texts map[string][]byte, model func(name string) ([]byte, error)) (said rules, err error) {
	base, ds := parseCatalog(named(files.Catalog), texts)
	bundle, found := parsePolicy(files.Policy, texts, model)
	ds = append(ds, found...)
	shadow, found := parsePolicy(files.Shadow, texts, model)
	if ds = append(ds, found...); ds.HasErrors() {
		return said, invalid{ds}
	}
	return rules{base, bundle, shadow}, nil
}

func workbench(operations *catalog.Catalog, bundle, shadow *policy.Bundle) activities.Workbench {
	digest, err := operations.Digest()
	if err != nil {
		digest = "" // no plan compiles with what has no canonical form
	}
	return activities.Workbench{
		Policy: bundle.Digest(), Catalog: digest,
		Stated: func(s trust.State, n *plan.Node) error {
			t, err := find(operations, n.Activity())
			switch {
			case err != nil:
				return err
			case n.Effect.Weaker(t.Effect):
				return fmt.Errorf("the plan says that %s is %s, and the catalog that it is %s", n.Activity(), n.Effect, t.Effect)
			}
			return stated(t, s, n.Reviewed())
		},
		Definition: func(operation, fingerprint string) json.RawMessage {
			for i := range operations.Templates {
				if t := &operations.Templates[i]; t.Name() == operation && t.Fingerprint == fingerprint {
					return t.Definition
				}
			}
			return nil
		},
		Judge: sync.OnceValues(func() (activities.Judge, error) {
			gate, found := guardian.New(bundle, operations)
			if gate == nil {
				return nil, fmt.Errorf("the policy does not fit the catalog: %s", found.First().Summary)
			}
			j := judge{gate: gate}
			if shadow != nil {
				if j.shadow, found = guardian.New(shadow, operations); j.shadow == nil {
					return nil, fmt.Errorf("the policy in shadow does not fit the catalog: %s", found.First().Summary)
				}
			}
			if most := gate.ProbCost(); most != nil {
				money, err := ledger.ParseMoney(most.Amount, ledger.Currency(most.Currency))
				if err != nil {
					return nil, fmt.Errorf("the policy's prob_cost_per_run: %w", err)
				}
				j.most = &money
			}
			return j, nil
		}),
		Compile: func(source string) (*plan.Plan, diag.Diagnostics) {
			return compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, operations, bundle)
		},
	}
}

// stated returns an error unless the admins have stated what the catalog says of an
// operation, and let it be called, without a review unless each call is reviewed.
func stated(t *catalog.Template, s trust.State, reviewed bool) error {
	facts, err := t.Facts()
	if err != nil {
		return err
	}
	return s.Stated(t.ToolID(), t.Fingerprint, facts, reviewed)
}

// find returns what a catalog says of an operation.
func find(operations *catalog.Catalog, operation string) (*catalog.Template, error) {
	for i := range operations.Templates {
		if t := &operations.Templates[i]; t.Name() == operation {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the catalog has no operation %s", operation)
}

// refusing refuses every plan.
func refusing(why error) activities.Workbench {
	ds := diag.Diagnostics{{Severity: diag.Error, Code: diag.ConfigFile, Summary: why.Error()}}
	var of invalid
	if errors.As(why, &of) {
		ds = of.found
	}
	var away error
	if errors.Is(why, ledger.ErrUnavailable) {
		away = why
	}
	return activities.Workbench{
		Away:    away,
		Compile: func(string) (*plan.Plan, diag.Diagnostics) { return nil, ds },
		Stated:  func(trust.State, *plan.Node) error { return invalid{ds} },
		Judge: func() (activities.Judge, error) {
			return nil, fmt.Errorf("the catalog or the policy is not valid: %s", ds.First().Summary)
		},
	}
}
