package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/trust"
)

// Files are those of a catalog, of a policy bundle, and of one in shadow. Names of a catalog may
// be "".
type Files struct {
	Catalog, Policy, Shadow []string
}

// reader returns the current contents of the files, and compiles them again only
// when they have changed.
type reader struct {
	files  Files
	skills []skills.Skill
	// holds: what was valid last stays in force while a file is not, as while it is being
	// edited.
	holds bool

	mu   sync.Mutex
	last activities.Workbench
}

// workbench refuses every plan if a file cannot be read or is invalid, unless what was valid
// before holds.
func (r *reader) workbench() activities.Workbench {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.Concat(r.files.Policy, r.files.Shadow, named(r.files.Catalog))
	texts := make(map[string][]byte, len(names))
	hash := sha256.New()
	for _, name := range names {
		text, err := readFile(name, maxCatalog)
		if err != nil && r.holds && r.last.Edition != "" {
			return r.last
		}
		if err != nil {
			return refusing(diag.Diagnostics{{Severity: diag.Error, Code: diag.ConfigFile, Summary: fmt.Sprintf("read the catalog or the policy: %s", err)}})
		}
		texts[name] = text
		digest := sha256.Sum256(text)
		hash.Write(digest[:])
	}
	edition := hex.EncodeToString(hash.Sum(nil))
	if r.last.Edition != edition {
		next, ok := r.parse(texts)
		if !ok && r.holds && r.last.Edition != "" {
			return r.last
		}
		r.last = next
		r.last.Edition = edition
	}
	return r.last
}

// parse reports whether the files are valid.
func (r *reader) parse(texts map[string][]byte) (_ activities.Workbench, ok bool) {
	base, ds := parseCatalog(named(r.files.Catalog), texts)
	bundle, found := parsePolicy(r.files.Policy, texts)
	ds = append(ds, found...)
	shadow, found := parsePolicy(r.files.Shadow, texts)
	if ds = append(ds, found...); ds.HasErrors() {
		return refusing(ds), false
	}
	_, operations, err := Catalog(base, r.skills)
	if err != nil {
		return refusing(diag.Diagnostics{{Severity: diag.Error, Code: diag.ConfigFile, Summary: err.Error()}}), false
	}
	return workbench(operations, bundle, shadow), true
}

func workbench(operations *catalog.Catalog, bundle, shadow *policy.Bundle) activities.Workbench {
	return activities.Workbench{
		Policy: bundle.Digest(),
		Stated: func(s trust.State, operation string, reviewed bool) error {
			return stated(operations, s, operation, reviewed)
		},
		Judge: sync.OnceValues(func() (activities.Judge, error) {
			gate, found := guardian.New(bundle, operations)
			if gate == nil {
				return nil, fmt.Errorf("the policy does not fit the catalog: %s", found[0].Summary)
			}
			j := judge{gate: gate}
			if shadow != nil {
				if j.shadow, found = guardian.New(shadow, operations); j.shadow == nil {
					return nil, fmt.Errorf("the policy in shadow does not fit the catalog: %s", found[0].Summary)
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
func stated(operations *catalog.Catalog, s trust.State, operation string, reviewed bool) error {
	for i := range operations.Templates {
		t := &operations.Templates[i]
		if t.Name() != operation {
			continue
		}
		facts, err := t.Facts()
		if err != nil {
			return err
		}
		return s.Stated(t.ToolID(), t.Fingerprint, facts, reviewed)
	}
	return fmt.Errorf("the catalog has no operation %s", operation)
}

func refusing(ds diag.Diagnostics) activities.Workbench {
	return activities.Workbench{
		Compile: func(string) (*plan.Plan, diag.Diagnostics) { return nil, ds },
		Judge: func() (activities.Judge, error) {
			return nil, fmt.Errorf("the catalog or the policy is not valid: %s", ds[0].Summary)
		},
	}
}
