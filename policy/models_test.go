package policy

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian/causal"
)

const modelled = `{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", unmodelled: [a/b], models: [one.yaml, models/two.yaml]}`

func model(name string, operations ...string) *causal.Model {
	return &causal.Model{Name: name, Operations: operations, Variables: []causal.Variable{{Name: "x", Value: &causal.Value{Number: 1}}}}
}

// loaded is a bundle whose models are about these operations.
func loaded(t *testing.T, operations ...string) *Bundle {
	b, ds := Parse(diag.Source{Name: "trust/policy.yaml", Text: []byte(modelled)})
	require.Empty(t, ds)
	require.Equal(t, []string{"one.yaml", "models/two.yaml"}, []string{b.ModelFiles[0].Path, b.ModelFiles[1].Path})
	require.Empty(t, b.Load(func(f ModelFile) (*causal.Model, diag.Diagnostics) {
		i := slices.IndexFunc(b.ModelFiles, func(x ModelFile) bool { return x == f })
		return model(f.Path, operations[i]), nil
	}))
	require.Nil(t, b.Unloaded())
	return b
}

// TestModelPaths: only files in the folder of the policy file, or below, are models.
func TestModelPaths(t *testing.T) {
	for _, path := range []string{"/etc/model.yaml", "../model.yaml", "a/../../model.yaml", "./a.yaml", "a//b", "a/", "", ".hidden", `a\b`, "a\x00b", "C:/a"} {
		raw, err := json.Marshal([]string{path})
		require.NoError(t, err)
		b, ds := Parse(diag.Source{Name: "policy.yaml", Text: []byte(`{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", models: ` + string(raw) + `}`)})
		require.Nil(t, b, path)
		require.True(t, ds.HasErrors(), path)
		require.Equal(t, 1, ds[0].Subject.Start.Line)
		require.Empty(t, ds[0].Suggestion, "a path elsewhere names another file")
	}
}

// TestUnloadedModels: a policy is never used without the models that it names.
func TestUnloadedModels(t *testing.T) {
	b, ds := Parse(diag.Source{Name: "policy.yaml", Text: []byte(modelled)})
	require.Empty(t, ds)
	require.Equal(t, diag.ConfigFile, b.Unloaded()[0].Code)
	merged, ds := Merge(b)
	require.Nil(t, merged)
	require.Contains(t, text(ds), "`one.yaml`")
	without := *b
	without.ModelFiles = nil
	require.NotEqual(t, without.Digest(), b.Digest())

	wrong := diag.Diagnostics{{Severity: diag.Error, Summary: "wrong"}}
	require.Equal(t, wrong, b.Load(func(f ModelFile) (*causal.Model, diag.Diagnostics) {
		if f.Path == "one.yaml" {
			return model("m", "a/b"), nil
		}
		return nil, wrong
	}))
	require.NotNil(t, b.Unloaded())
	require.Empty(t, b.Load(func(f ModelFile) (*causal.Model, diag.Diagnostics) { return nil, nil }))
	require.NotNil(t, b.Unloaded())
}

// TestModelsInDigest: the digest of a bundle holds the contents of its models, in whatever order.
func TestModelsInDigest(t *testing.T) {
	b, other := loaded(t, "c/d", "e/f"), loaded(t, "c/d", "e/g")
	require.NotEqual(t, b.Digest(), other.Digest())
	moved := *b
	moved.Models, moved.ModelFiles = []*causal.Model{b.Models[1], b.Models[0]}, nil
	require.Equal(t, b.Digest(), moved.Digest())
	raw, err := json.Marshal(b)
	require.NoError(t, err)
	var again *Bundle
	require.NoError(t, json.Unmarshal(raw, &again))
	require.Equal(t, b.Digest(), again.Digest())
	moved.Models = moved.Models[:1]
	require.NotEqual(t, b.Digest(), moved.Digest())
}

func TestMergeModels(t *testing.T) {
	merged, ds := Merge(loaded(t, "c/d", "e/f"), &Bundle{Version: "1", Models: []*causal.Model{model("three", "g/h")}})
	require.Empty(t, ds)
	require.Len(t, merged.Models, 3)
	require.Equal(t, "models/two.yaml", merged.ModelFiles[1].Path)

	none, ds := Merge(loaded(t, "c/d", "e/f"), &Bundle{Version: "1", Models: []*causal.Model{model("three", "e/f")}})
	require.Nil(t, none)
	require.Equal(t, diag.PlanDuplicateID, ds[0].Code)
	require.Contains(t, text(ds), "a model of `e/f`")
	none, _ = Merge(loaded(t, "c/d", "c/d"))
	require.Nil(t, none)

	merged, ds = Merge(loaded(t, "a/b", "c/d"))
	require.NotNil(t, merged)
	require.Len(t, ds, 1, "the model is doubted, since calls beyond it are accepted")
	require.Equal(t, diag.Warning, ds[0].Severity)

	many := &Bundle{Version: "1"}
	for i := range MaxModels + 1 {
		many.Models = append(many.Models, model("m", "a/"+string(rune('a'+i%26))+string(rune('a'+i/26))))
	}
	none, ds = Merge(many)
	require.Nil(t, none)
	require.Equal(t, diag.PlanLimits, ds[0].Code)
}
