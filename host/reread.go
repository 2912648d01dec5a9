package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
)

// Files are those of a catalog, or "", and of a policy bundle.
type Files struct {
	Catalog string
	Policy  []string
}

// reader gives what the files say at each time, and compiles them anew only when
// they have changed.
type reader struct {
	files  Files
	skills []skills.Skill

	mu   sync.Mutex
	last activities.Workbench
}

// workbench refuses every plan where a file cannot be read, or says what is wrong.
func (r *reader) workbench() activities.Workbench {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.files.Policy
	if r.files.Catalog != "" {
		names = append(slices.Clone(names), r.files.Catalog)
	}
	texts := make(map[string][]byte, len(names))
	hash := sha256.New()
	for _, name := range names {
		text, err := readFile(name, maxCatalog)
		if err != nil {
			return refusing(diag.Diagnostics{{Severity: diag.Error, Code: diag.ConfigFile, Summary: fmt.Sprintf("read the catalog or the policy: %s", err)}})
		}
		texts[name] = text
		digest := sha256.Sum256(text)
		hash.Write(digest[:])
	}
	edition := hex.EncodeToString(hash.Sum(nil))
	if r.last.Edition != edition {
		r.last = r.parse(texts)
		r.last.Edition = edition
	}
	return r.last
}

func (r *reader) parse(texts map[string][]byte) activities.Workbench {
	var base *compiler.Catalog
	var ds diag.Diagnostics
	if name := r.files.Catalog; name != "" {
		base, ds = compiler.ParseCatalog(compiler.Source{Name: name, Text: texts[name]})
	}
	policy, found := parsePolicy(r.files.Policy, texts)
	if ds = append(ds, found...); ds.HasErrors() {
		return refusing(ds)
	}
	_, catalog, err := Catalog(base, r.skills)
	if err != nil {
		return refusing(diag.Diagnostics{{Severity: diag.Error, Code: diag.ConfigFile, Summary: err.Error()}})
	}
	return workbench(catalog, policy)
}

func workbench(catalog *compiler.Catalog, policy *compiler.Policy) activities.Workbench {
	return activities.Workbench{
		Policy: policy.Digest(),
		Compile: func(source string) (*plan.Plan, diag.Diagnostics) {
			return compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, catalog, policy)
		},
	}
}

func refusing(ds diag.Diagnostics) activities.Workbench {
	return activities.Workbench{Compile: func(string) (*plan.Plan, diag.Diagnostics) { return nil, ds }}
}
