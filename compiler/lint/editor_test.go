package lint

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/schemas"
)

var update = flag.Bool("update", false, "rewrite the schemas for editors")

// The schemas for editors are written from the compiler's own tables, so that
// the two cannot disagree on the closed sets.

// obj is a JSON object that keeps the order of its keys.
type obj []any

func (o obj) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteByte('{')
	for i := 0; i < len(o); i += 2 {
		if i > 0 {
			buf.WriteByte(',')
		}
		for j, v := range o[i : i+2] {
			enc := json.NewEncoder(&buf)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(v); err != nil {
				return nil, err
			}
			buf.Truncate(buf.Len() - 1)
			if j == 0 {
				buf.WriteByte(':')
			}
		}
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

func typesOf(f fields.Form) []string {
	var out []string
	for _, n := range []struct {
		f fields.Form
		s string
	}{{fields.FormText, "string"}, {fields.FormNumber, "number"}, {fields.FormBool, "boolean"}, {fields.FormList, "array"}, {fields.FormMap, "object"}, {fields.FormNull, "null"}} {
		if f&n.f != 0 {
			out = append(out, n.s)
		}
	}
	return out
}

// tableSchema is the schema of a map that is read by a table; more refines
// single fields.
func tableSchema(t *fields.Table, more map[string]obj) obj {
	props := obj{}
	var required []string
	for _, f := range t.Fields {
		s := obj{"description", strings.ToUpper(f.Say[:1]) + f.Say[1:] + "."}
		extra, refined := more[f.Name]
		if !refined || extra == nil {
			if types := typesOf(f.Form); len(types) == 1 {
				s = append(s, "type", types[0])
			} else if f.Form != fields.FormAny {
				s = append(s, "type", types)
			}
		}
		props = append(props, f.Name, append(s, extra...))
		if f.Required {
			required = append(required, f.Name)
		}
	}
	out := obj{"type", "object", "additionalProperties", false}
	if len(required) > 0 {
		out = append(out, "required", required)
	}
	return append(out, "properties", props)
}

func enum(words []string) obj { return obj{"type", "string", "enum", words} }

func whole(low, high int64, def any) obj {
	o := obj{"type", "integer", "minimum", low, "maximum", high}
	if def != nil {
		o = append(o, "default", def)
	}
	return o
}

func pattern(g fields.Grammar) obj { return obj{"type", "string", "pattern", g.Re.String()} }

func ref(name string) obj { return obj{"$ref", "#/$defs/" + name} }

func listOf(item obj) obj { return obj{"type", "array", "items", item} }

func shortText() obj { return obj{"type", "string", "maxLength", MaxText} }

func uniqueTexts(item obj) obj { return append(listOf(item), "uniqueItems", true) }

func retrySchema() obj {
	return tableSchema(catalog.RetryFields, map[string]obj{
		"max_retries": whole(0, catalog.MaxRetries, nil),
		"on":          uniqueTexts(enum(catalog.Retryable())),
		"initial_ms":  whole(1, catalog.MaxBackoffMS, catalog.DefaultInitialMS),
		"multiplier":  {"type", "number", "minimum", 1, "maximum", catalog.MaxMultiplier, "multipleOf", json.Number("0.001"), "default", catalog.DefaultMultiplierMilli / 1000},
		"max_ms":      whole(1, catalog.MaxBackoffMS, catalog.DefaultMaxMS),
	})
}

func rollbackSchema() obj {
	return tableSchema(catalog.RollbackFields, map[string]obj{"none": append(shortText(), "minLength", 1)})
}

// nodesSchema is the schema of the name of a node, or of a list of them.
func nodesSchema() obj {
	return obj{"anyOf", []obj{{"type", "string"}, append(uniqueTexts(obj{"type", "string"}), "minItems", 1)}}
}

// arrowPattern matches the ends of an edge.
const arrowPattern = `^\s*(\[[^\]]*\]|[^\s.>\[\]]+(\.[^\s.]+)?(\s*,\s*[^\s.>,]+)*)\s*->\s*(\[[^\]]*\]|[^\s.>\[\]]+(\.[^\s.]+)?(\s*,\s*[^\s.>,]+)*)\s*$`

func schemaHead(name, title, description string, body obj) obj {
	return append(obj{
		"$schema", "https://json-schema.org/draft/2020-12/schema",
		"$id", "https://chimera.ai/schemas/" + name + ".json",
		"title", title,
		"description", description,
	}, body...)
}

func planSchema() obj {
	node := tableSchema(nodeFields, map[string]obj{
		"id":                pattern(fields.NodeIDs),
		"template":          {"type", "string", "pattern", "^[0-9A-Za-z][0-9A-Za-z._-]{0,127}/[!-~]{1,128}$"},
		"provider_type":     enum(fields.ProviderTypes),
		"provider_name":     pattern(fields.ProviderNames),
		"operation":         pattern(fields.OperationNames),
		"mode":              enum(fields.Modes),
		"effect_class":      enum(fields.EffectClasses),
		"timeout_ms":        whole(1, catalog.MaxTimeoutMS, nil),
		"retry_policy":      ref("retry_policy"),
		"trust_requirement": enum(fields.TrustStates),
		"fingerprint":       pattern(fields.Fingerprints),
		"commit_policy":     ref("commit_policy"),
		"cost_estimate":     {"type", []string{"number", "string"}, "minimum", 0, "minLength", 1},
		"for_each":          ref("for_each"),
		"description":       shortText(),
		"resources":         uniqueTexts(shortText()),
		"priority":          enum(Priorities),
		"after":             nodesSchema(),
		"when":              {"type", "string", "minLength", 1, "examples", []string{"nodes.sum.total > input.threshold"}},
		"otherwise_of":      nodesSchema(),
		"with":              {"type", []string{"object", "string"}, "examples", []obj{{"text", "${nodes.read.text}"}}},
	})
	node = append(node, "anyOf", []obj{
		{"required", []string{"template"}},
		{"required", contractFields},
	})
	edge := tableSchema(edgeFields, map[string]obj{
		"from_port": {"type", "string", "examples", []string{plan.WholePort, plan.DonePort, plan.ErrorPort, plan.CompensatePort}},
		"to_port":   {"type", "string", "examples", []string{plan.WholePort, plan.StartPort}},
		"edge_type": enum(edgeTypes),
		"when":      {"type", "string", "minLength", 1},
		"check":     {"const", "runtime"},
	})
	edge = append(edge, "allOf", []obj{
		{"if", edgeType("control"), "then", obj{"properties", obj{"from_port", obj{"const", plan.DonePort}, "to_port", obj{"const", plan.StartPort}, "when", false, "transform", false, "check", false}}},
		{"if", edgeType("data"), "then", obj{"properties", obj{"when", false}}},
		{"if", edgeType("error"), "then", obj{"properties", obj{"from_port", obj{"enum", []string{plan.ErrorPort, plan.CompensatePort}}}}},
		{"if", obj{"properties", obj{"from_port", obj{"const", plan.CompensatePort}}, "required", []string{"from_port"}}, "then", obj{"required", []string{"transform"}}},
	})
	body := tableSchema(planFields, map[string]obj{
		"apiVersion":  {"const", fields.APIVersion},
		"kind":        {"const", "Plan"},
		"name":        pattern(fields.PlanNames),
		"version":     pattern(fields.Versions),
		"agent":       pattern(fields.AgentNames),
		"currency":    pattern(fields.Currencies),
		"description": shortText(),
		"defs":        {"type", "object", "propertyNames", obj{"pattern", fields.DefinitionNames.Re.String()}, "additionalProperties", obj{"type", []string{"object", "boolean"}}},
		"allow":       append(uniqueTexts(enum(fields.EffectClasses)), "default", []string{"pure"}),
		"limits": tableSchema(limitsFields, map[string]obj{
			"max_parallel": whole(1, MaxParallel, DefaultParallel),
			"deadline_ms":  whole(1, MaxDeadlineMS, DefaultDeadlineMS),
		}),
		"cycles": tableSchema(cyclesFields, map[string]obj{
			"max_iterations": whole(1, MaxIterations, nil),
			"on_exhausted":   append(enum(exhaustions), "default", "fail"),
		}),
		"nodes":  append(listOf(ref("node")), "minItems", 1, "maxItems", MaxNodes),
		"edges":  append(listOf(obj{"anyOf", []obj{ref("short"), ref("arrow"), ref("edge")}}), "maxItems", MaxEdges),
		"output": {"type", []string{"object", "string"}, "examples", []obj{{"total", "${nodes.sum.total}"}}},
	})
	arrow := tableSchema(arrowFields, map[string]obj{
		"edge":      {"type", "string", "pattern", arrowPattern, "examples", []string{"sum.total -> long.n", "read.$error -> note.text"}},
		"edge_type": enum(edgeTypes),
		"when":      {"type", "string", "minLength", 1},
		"check":     {"const", "runtime"},
	})
	body = append(body, "$defs", obj{
		"node", node,
		"edge", edge,
		"short", obj{
			"description", "`a.x -> b.y`, which carries a value, `a -> b` and `[a, b] -> c`, which bring order, or `a.$error -> b.y`, which carries the failure of a.",
			"type", "string", "pattern", arrowPattern,
			"examples", []string{"$input.text -> first.text", "first -> second", "[first, second] -> third"},
		},
		"arrow", arrow,
		"retry_policy", retrySchema(),
		"for_each", tableSchema(forEachFields, map[string]obj{
			"max_parallel": whole(1, MaxParallel, nil),
			"max_items":    whole(1, MaxItems, nil),
		}),
		"commit_policy", tableSchema(commitFields, map[string]obj{
			"approval":  ref("approval"),
			"barrier":   pattern(fields.NodeIDs),
			"prechecks": uniqueTexts(obj{"type", "string"}),
			"verify":    tableSchema(verifyFields, nil),
			"rollback": append(tableSchema(rollbackFields, map[string]obj{"none": append(shortText(), "minLength", 1)}),
				"oneOf", []obj{{"required", []string{"none"}}, {"required", []string{"node", "with"}}}),
		}),
		"approval", escalating(tableSchema(approvalFields, followUp(map[string]obj{
			"groups":        append(listOf(tableSchema(policy.GroupFields, map[string]obj{"role": pattern(fields.RoleNames), "min": whole(1, policy.MaxSigners, nil)})), "minItems", 1),
			"expires_in_ms": whole(1, MaxExpiresMS, nil),
			"exclude":       uniqueTexts(pattern(fields.RoleNames)),
		}))),
	})
	return schemaHead("plan", "Chimera plan", "A plan: a graph of nodes and edges with contracts. A file may hold several YAML documents; the first is the plan, the others are its sub-plans.", body)
}

func edgeType(word string) obj {
	return obj{"properties", obj{"edge_type", obj{"const", word}}, "required", []string{"edge_type"}}
}

func catalogSchema() obj {
	template := tableSchema(catalog.TemplateFields, map[string]obj{
		"provider_type":     enum(fields.ProviderTypes),
		"provider_name":     append(pattern(fields.ProviderNames), "not", obj{"enum", []string{catalog.EngineProvider, catalog.PlanProvider}}),
		"operation":         pattern(fields.OperationNames),
		"description":       shortText(),
		"mode":              enum(fields.Modes),
		"effect_class":      enum(fields.EffectClasses),
		"timeout_ms":        whole(1, catalog.MaxTimeoutMS, nil),
		"retry_policy":      ref("retry_policy"),
		"trust_requirement": enum(fields.TrustStates),
		"status":            enum(fields.TrustStates),
		"fingerprint":       pattern(fields.Fingerprints),
		"endpoints":         append(uniqueTexts(pattern(fields.Fingerprints)), "minItems", 1, "maxItems", catalog.MaxEndpoints),
		"instructions":      pattern(fields.Fingerprints),
		"resource": tableSchema(catalog.ResourceFields, map[string]obj{
			"uris": append(uniqueTexts(obj{"type", "string", "maxLength", plan.MaxURIPattern}), "minItems", 1, "maxItems", plan.MaxURIPatterns),
			"as":   append(enum(catalog.ResourceForms), "default", string(plan.AsText)),
		}),
		"egress": append(enum(catalog.Egresses), "default", "denied"),
		"commit_policy": tableSchema(catalog.CommitFields, map[string]obj{
			"verify": tableSchema(catalog.VerifyFields, map[string]obj{"executed": {"type", "string", "minLength", 1}}), "rollback": rollbackSchema(),
		}),
		"cost": tableSchema(catalog.CostFields, map[string]obj{
			"expr":     {"type", "string", "minLength", 1},
			"currency": pattern(fields.Currencies),
		}),
	})
	template = append(template, "anyOf", []obj{
		{"properties", obj{"provider_type", obj{"const", string(plan.MCP)}}},
		{"required", []string{"output_schema"}},
	})
	adapter := tableSchema(catalog.AdapterFields, map[string]obj{
		"id":          pattern(fields.AdapterIDs),
		"description": shortText(),
		"transform":   {"if", obj{"type", "string"}, "then", obj{"pattern", `\$\{`}},
	})
	body := tableSchema(catalog.CatalogFields, map[string]obj{
		"apiVersion": {"const", fields.APIVersion},
		"kind":       {"const", "Catalog"},
		"templates":  append(listOf(ref("template")), "maxItems", catalog.MaxTemplates),
		"adapters":   append(listOf(ref("adapter")), "maxItems", catalog.MaxAdapters),
		"servers": append(listOf(tableSchema(catalog.ServerFields, map[string]obj{
			"name": pattern(fields.ProviderNames), "fingerprint": pattern(fields.Fingerprints), "initialize": {"type", "object"},
			"endpoint": pattern(fields.Fingerprints), "place": {"type", "object"}, "resource_templates": listOf(obj{"type", "object"}),
		})), "maxItems", catalog.MaxServers),
		"statements": append(listOf(obj{"type", "object"}), "maxItems", catalog.MaxStatements),
	})
	body = append(body, "$defs", obj{"template", template, "adapter", adapter, "retry_policy", retrySchema()})
	return schemaHead("catalog", "Chimera catalog", "The operations that plans may call, and what the operator says of each.", body)
}

func groupsSchema() obj {
	return append(listOf(tableSchema(policy.GroupFields, map[string]obj{"role": pattern(fields.RoleNames), "min": whole(1, policy.MaxSigners, nil)})), "minItems", 1, "maxItems", policy.MaxGroups)
}

// followUp adds what follows while people have not approved.
func followUp(more map[string]obj) map[string]obj {
	more["remind_every_ms"], more["escalate_after_ms"] = whole(policy.MinRemindMS, policy.MaxFollowUpMS, nil), whole(1, policy.MaxFollowUpMS, nil)
	more["to"] = groupsSchema()
	return more
}

// escalating adds that an escalation has a time and groups.
func escalating(o obj) obj {
	return append(o, "dependentRequired", obj{"escalate_after_ms", []string{"to"}, "to", []string{"escalate_after_ms"}})
}

func policySchema() obj {
	names := func(item obj) obj { return append(uniqueTexts(item), "minItems", 1, "maxItems", policy.MaxNames) }
	entries := func(item obj) obj { return append(listOf(item), "maxItems", policy.MaxRules) }
	match := map[string]obj{"effects": names(enum(fields.EffectClasses)), "agents": names(pattern(fields.AgentNames)), "operations": names(pattern(policy.OperationNames))}
	risk := obj{"type", "number", "minimum", 0, "maximum", 1}
	with := func(more map[string]obj) map[string]obj {
		for k, v := range match {
			more[k] = v
		}
		return more
	}
	threshold := tableSchema(policy.ThresholdFields, with(map[string]obj{"max_auto_launch_risk": risk}))
	threshold = append(threshold, "anyOf", []obj{{"required", []string{"effects"}}, {"required", []string{"agents"}}})
	floor := escalating(tableSchema(policy.FloorFields, with(followUp(map[string]obj{"groups": groupsSchema()}))))
	predicate := obj{"type", "string", "minLength", 1}
	body := tableSchema(policy.BundleFields, map[string]obj{
		"apiVersion": {"const", fields.APIVersion},
		"kind":       {"const", "PolicyBundle"},
		"version":    pattern(fields.Versions),
		"thresholds": tableSchema(policy.ThresholdsFields, map[string]obj{"max_auto_launch_risk": risk, "per": entries(threshold)}),
		"approval": tableSchema(policy.ApprovalFields, map[string]obj{
			"floor":    entries(floor),
			"review":   groupsSchema(),
			"lift":     {"type", "object", "propertyNames", obj{"pattern", policy.Reasons.Re.String()}, "additionalProperties", names(pattern(fields.RoleNames))},
			"outcome":  groupsSchema(),
			"may_sign": names(enum(policy.Interested)),
		}),
		"caps": tableSchema(policy.CapsFields, map[string]obj{
			"invocations_per_run": whole(1, policy.MaxInvocations, nil),
			"prob_cost_per_run":   pattern(policy.Amounts),
		}),
		"allow":      entries(tableSchema(policy.AllowFields, with(map[string]obj{}))),
		"unmodelled": names(pattern(policy.OperationNames)),
		"models":     append(uniqueTexts(pattern(policy.ModelPaths)), "minItems", 1, "maxItems", policy.MaxModels),
		"rules": entries(append(tableSchema(policy.RuleFields, map[string]obj{
			"id":         pattern(fields.NodeIDs),
			"type":       enum(policy.RuleTypes),
			"operations": names(pattern(policy.OperationNames)),
			"match":      predicate,
			"require":    predicate,
			"message":    shortText(),
		}), "anyOf", []obj{{"required", []string{"operations"}}, {"required", []string{"match"}}})),
	})
	return schemaHead("policy", "Chimera policy bundle", "What the operator allows, who approves, and the rules that every action must meet. A bundle may span several files of one version.", body)
}

func causalSchema() obj {
	named := func(most int, item obj) obj {
		return obj{"type", "object", "propertyNames", append(pattern(causal.VariableNames), "not", obj{"enum", causal.Reserved}), "maxProperties", most, "additionalProperties", item}
	}
	size := json.Number("1e100")
	number := func() obj { return obj{"type", "number", "minimum", json.Number("-1e100"), "maximum", size} }
	category := obj{"type", "string", "minLength", 1, "maxLength", causal.MaxCategory}
	probabilities := obj{"type", "object", "minProperties", 1, "maxProperties", causal.MaxCategories, "additionalProperties", obj{"type", "number", "minimum", 0, "maximum", 1}}
	parents := obj{"type", "object", "maxProperties", causal.MaxParents}
	expression := obj{"type", "string", "minLength", 1}
	exactly := func(o obj, names ...string) obj {
		var one []obj
		for _, name := range names {
			one = append(one, obj{"required", []string{name}})
		}
		return append(o, "oneOf", one)
	}
	noise := exactly(tableSchema(causal.NoiseFields, map[string]obj{
		"normal":      tableSchema(causal.NormalFields, map[string]obj{"mean": number(), "sd": {"type", "number", "exclusiveMinimum", 0, "maximum", size}}),
		"uniform":     tableSchema(causal.UniformFields, map[string]obj{"min": number(), "max": number()}),
		"bernoulli":   {"type", "number", "minimum", 0, "maximum", 1},
		"categorical": probabilities,
		"empirical":   append(listOf(number()), "minItems", 1, "maxItems", causal.MaxEmpirical),
	}), "normal", "uniform", "bernoulli", "categorical", "empirical")
	row := exactly(tableSchema(causal.RowFields, map[string]obj{
		"when": append(parents, "additionalProperties", category), "p": probabilities, "value": number(),
	}), "p", "value")
	fit := tableSchema(causal.FitFields, map[string]obj{
		"source":          append(shortText(), "minLength", 1),
		"digest":          pattern(fields.Fingerprints),
		"rows":            whole(1, math.MaxInt32, nil),
		"held_out":        whole(0, math.MaxInt32, nil),
		"adjusted":        append(uniqueTexts(pattern(causal.VariableNames)), "maxItems", causal.MaxVariables),
		"marginalized":    append(uniqueTexts(pattern(causal.VariableNames)), "maxItems", causal.MaxVariables),
		"standard_errors": {"type", "object", "additionalProperties", obj{"type", "number", "minimum", 0, "maximum", size}},
		"held_out_error":  {"type", "number", "minimum", 0, "maximum", size},
	})
	variable := tableSchema(causal.VariableFields, map[string]obj{
		"description": shortText(),
		"values":      append(uniqueTexts(category), "minItems", 1, "maxItems", causal.MaxCategories),
		"range":       append(listOf(number()), "minItems", 2, "maxItems", 2),
		"parents":     append(uniqueTexts(pattern(causal.VariableNames)), "maxItems", causal.MaxParents),
		"value":       {"type", []string{"number", "string"}, "minLength", 1},
		"linear":      tableSchema(causal.LinearFields, map[string]obj{"intercept": number(), "weights": append(parents, "additionalProperties", number())}),
		"table":       append(listOf(row), "maxItems", causal.MaxRows),
		"expression":  expression,
		"noise":       noise,
		"provenance":  append(enum(causal.Provenances), "default", string(causal.Assumed)),
		"fit":         fit,
	})
	body := tableSchema(causal.ModelFields, map[string]obj{
		"apiVersion":  {"const", fields.APIVersion},
		"kind":        {"const", "CausalModel"},
		"name":        pattern(fields.PlanNames),
		"version":     pattern(fields.Versions),
		"description": shortText(),
		"operations":  append(uniqueTexts(pattern(fields.Operations)), "minItems", 1, "maxItems", causal.MaxOperations),
		"samples":     whole(causal.MinSamples, causal.MaxSamples, causal.DefaultSamples),
		"variables":   append(named(causal.MaxVariables, variable), "minProperties", 1),
		"bind":        named(causal.MaxVariables, expression),
		"kpis": named(causal.MaxKPIs, tableSchema(causal.KPIFields, map[string]obj{
			"min": number(), "max": number(), "allow": append(uniqueTexts(category), "minItems", 1, "maxItems", causal.MaxCategories),
			"unit": {"type", "string", "maxLength", causal.MaxUnit},
		})),
		"observe": named(causal.MaxKPIs, expression),
	})
	return schemaHead("causal", "Chimera causal model", "What an action brings about: variables, what they depend on, and the bounds of those that matter.", body)
}

func TestEditorSchemas(t *testing.T) {
	for name, make := range map[string]func() obj{"plan": planSchema, "catalog": catalogSchema, "policy": policySchema, "causal": causalSchema} {
		t.Run(name, func(t *testing.T) {
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			require.NoError(t, enc.Encode(make()))
			file := fmt.Sprintf("../../schemas/%s.json", name)
			if *update {
				require.NoError(t, os.WriteFile(file, want.Bytes(), 0o644))
			}
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, want.String(), string(got), "run go test ./compiler/lint -run TestEditorSchemas -update")
			_, err = schemas.Compile(got)
			require.NoError(t, err)
		})
	}
}
