package host

import (
	"fmt"
	"path/filepath"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/policy"
)

// LoadPolicy reads the files of the operator's policy bundle, and those of the causal models that
// they name. It also returns the texts, by file, for showing the findings. The error means that a
// file of the policy cannot be read. The policy is nil if there is an error, one among the findings,
// or no file.
func LoadPolicy(files []string) (*policy.Bundle, map[string][]byte, diag.Diagnostics, error) {
	texts := make(map[string][]byte, len(files))
	for _, file := range files {
		text, err := readFile(file, maxCatalog)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read the policy: %w", err)
		}
		texts[file] = text
	}
	bundle, ds := parsePolicy(files, texts, func(name string) ([]byte, error) {
		text, err := readFile(name, causal.MaxFile)
		if err == nil {
			texts[name] = text
		}
		return text, err
	})
	return bundle, texts, ds, nil
}

// parsePolicy makes the bundle of files, whose texts are read, and of the models that they name,
// whose texts model returns.
func parsePolicy(files []string, texts map[string][]byte, model func(name string) ([]byte, error)) (*policy.Bundle, diag.Diagnostics) {
	var parts []*policy.Bundle
	var ds diag.Diagnostics
	for _, file := range files {
		part, found := policy.Parse(diag.Source{Name: file, Text: texts[file]})
		ds = append(ds, found...)
		if part != nil {
			ds = append(ds, part.Load(func(f policy.ModelFile) (*causal.Model, diag.Diagnostics) {
				return parseModel(f, modelFile(file, f), model)
			})...)
		}
		parts = append(parts, part)
	}
	if ds.HasErrors() {
		return nil, ds
	}
	merged, found := policy.Merge(parts...)
	return merged, append(ds, found...)
}

// parseModel parses the file of a model that a policy names.
func parseModel(f policy.ModelFile, name string, read func(name string) ([]byte, error)) (*causal.Model, diag.Diagnostics) {
	text, err := read(name)
	if err != nil {
		return nil, diag.Diagnostics{{
			Severity: diag.Error, Code: diag.ConfigFile, Summary: fmt.Sprintf("the causal model %s cannot be read", fields.Quote(f.Path)),
			Detail: fields.Sentence(err.Error()), Subject: f.Range,
		}}
	}
	return causal.Parse(diag.Source{Name: name, Text: text})
}

// modelFile is the file of a model that a policy file names.
func modelFile(file string, f policy.ModelFile) string {
	return filepath.Join(filepath.Dir(file), filepath.FromSlash(f.Path))
}

// modelFiles are the files of the models that policy files name, by the texts of these.
func modelFiles(files []string, texts map[string][]byte) (all []string) {
	for _, file := range files {
		part, _ := policy.Parse(diag.Source{Name: file, Text: texts[file]})
		if part == nil {
			continue // it is not valid, which is said elsewhere
		}
		for _, f := range part.ModelFiles {
			all = append(all, modelFile(file, f))
		}
	}
	return all
}

// readableModels is [modelFiles] of files that are still to be read. What cannot be read decides nothing.
func readableModels(files []string) []string {
	texts := map[string][]byte{}
	for _, file := range files {
		if text, err := readFile(file, maxCatalog); err == nil {
			texts[file] = text
		}
	}
	return modelFiles(files, texts)
}
