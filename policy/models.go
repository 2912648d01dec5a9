package policy

import (
	"fmt"
	"regexp"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// MaxModels bounds the causal models of a bundle.
const MaxModels = 256

// ModelPaths is the grammar of the files in `models`. No part of a path begins with a dot, so none
// leads out of the folder.
var ModelPaths = fields.Grammar{
	Re:  regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z._-]*(/[0-9A-Za-z_][0-9A-Za-z._-]*)*$`),
	Say: "the path of a file from the folder of the policy file, below it, such as models/report-size.yaml",
}

// ModelFile is a file of a causal model that a policy file names.
type ModelFile struct {
	// Path leads to it from the folder of the policy file: its parts are separated by slashes, and
	// none of them is "..".
	Path string
	// Range is the place where it is named.
	Range diag.Range
}

func readModels(rep *fields.Reader, p *Bundle, v *syntax.Value) {
	for _, x := range rep.AtMost(namesIn(rep, v, "models"), MaxModels, "models") {
		if !ModelPaths.Re.MatchString(x.Text) {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("`models` is not a valid path: %s", fields.Quote(x.Text)),
				Detail: "It is " + ModelPaths.Say + ". A model elsewhere has to be copied there.", Subject: x.Range(),
			})
			continue
		}
		p.ModelFiles = append(p.ModelFiles, ModelFile{Path: x.Text, Range: x.Range()})
	}
}

// Load reads the models that a policy file names, each by read, and returns all that this finds. Without
// an error among that the models are in p.
func (p *Bundle) Load(read func(ModelFile) (*causal.Model, diag.Diagnostics)) (ds diag.Diagnostics) {
	var models []*causal.Model
	for _, f := range p.ModelFiles {
		m, found := read(f)
		if ds = append(ds, found...); m != nil {
			models = append(models, m)
		}
	}
	if !ds.HasErrors() {
		p.Models = models
	}
	return ds
}

// Unloaded reports models that p names, and that have not been read: without them it must not be used.
func (p *Bundle) Unloaded() diag.Diagnostics {
	if p == nil || len(p.ModelFiles) <= len(p.Models) {
		return nil
	}
	f := p.ModelFiles[len(p.Models)]
	return diag.Diagnostics{{
		Severity: diag.Error, Code: diag.ConfigFile, Summary: fmt.Sprintf("the causal model %s has not been read", fields.Quote(f.Path)),
		Detail: "A policy is used with all of its models, or not at all.", Subject: f.Range,
	}}
}

// ModelAt is the place where the bundle names a model, or that of the bundle.
func (p *Bundle) ModelAt(i int) diag.Range {
	if i < len(p.ModelFiles) {
		return p.ModelFiles[i].Range
	}
	return p.Range
}

// doubted warns of operations that a file lists as unmodelled, and that have a model in the bundle.
func (p *Bundle) doubted(file *Bundle) (ds diag.Diagnostics) {
	if p == nil || file == nil || len(p.Models) == 0 {
		return nil
	}
	modelled := map[string]bool{}
	for _, m := range p.Models {
		for _, name := range m.Operations {
			modelled[name] = true
		}
	}
	for _, name := range file.Unmodelled {
		if modelled[name] {
			ds.Add(diag.Diagnostic{
				Severity: diag.Warning, Code: diag.EffectOperator, Summary: fmt.Sprintf("%s has a causal model, and is listed under `unmodelled`", fields.Quote(name)),
				Detail: "So calls for which the model is not valid are accepted as if they had no risk. Without the entry they are escalated.", Subject: file.UnmodelledAt,
			})
		}
	}
	return ds
}
