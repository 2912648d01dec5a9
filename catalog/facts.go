package catalog

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// ToolID names the operation as it was declared: "provider/operation", and what it pins of
// an MCP tool after "@".
func (t *Template) ToolID() string {
	if t.Fingerprint == "" {
		return t.Name()
	}
	return t.Name() + "@" + t.Fingerprint
}

// Reviewed reports whether people must review each call of the operation.
func (t *Template) Reviewed() bool {
	return t.State() == plan.ManualReview || t.Trust == plan.ManualReview
}

// Stated reports whether the operation is called, in production, only as the admins have stated it:
// it is not a part of this program, or it has a cost.
func (t *Template) Stated() bool { return !t.InProcess || t.Cost != nil }

// Facts is what the operator says of the operation, and on which it depends what a plan may
// do with it: a JSON object, which the admins state. What the defaults say is left out;
// schemas are named by their digests.
func (t *Template) Facts() (json.RawMessage, error) { return t.facts(t.Definition != nil) }

// Said is what a file says of an operation that was imported: the facts, and of resources also the
// time limit, the retries and the trust requirement, which are no facts of theirs.
func (t *Template) Said() (json.RawMessage, error) { return t.facts(true) }

func (t *Template) facts(whole bool) (json.RawMessage, error) {
	facts := struct {
		ProviderType    plan.ProviderType `json:"provider_type"`
		Mode            plan.Mode         `json:"mode"`
		Effect          plan.EffectClass  `json:"effect_class"`
		InputSchema     string            `json:"input_schema,omitempty"`
		OutputSchema    string            `json:"output_schema,omitempty"`
		Endpoints       []string          `json:"endpoints,omitempty"`
		Instructions    string            `json:"instructions,omitempty"`
		TrustedOutput   bool              `json:"trusted_output,omitempty"`
		Endorses        bool              `json:"endorses,omitempty"`
		EgressAllowed   bool              `json:"egress_allowed,omitempty"`
		OpenWorld       bool              `json:"open_world,omitempty"`
		IdempotencyPort string            `json:"idempotency_port,omitempty"`
		Cost            *statedCost       `json:"cost,omitempty"`
		NoRollback      string            `json:"no_rollback,omitempty"`
		Verify          *statedVerify     `json:"verify,omitempty"`
		InProcess       bool              `json:"in_process,omitempty"`
		Resource        *plan.Resource    `json:"resource,omitempty"`
		*imported
	}{
		ProviderType: t.ProviderType, Mode: t.Mode, Effect: t.Effect, Endpoints: t.Endpoints, Instructions: t.Instructions,
		TrustedOutput: t.TrustedOutput, Endorses: t.Endorses, EgressAllowed: t.EgressAllowed, OpenWorld: t.OpenWorld,
		IdempotencyPort: t.IdempotencyPort, InProcess: t.InProcess, Resource: t.Resource,
	}
	if t.Cost != nil {
		facts.Cost = &statedCost{t.Cost.Expr, t.Cost.Currency, t.Cost.FromOutput}
	}
	if t.Commit != nil {
		facts.NoRollback = t.Commit.Waived
		if v := t.Commit.Verify; v != nil {
			facts.Verify = &statedVerify{v.Operation, v.With.Any(), v.Executed.Text, v.Output.Any()}
		}
	}
	if whole {
		facts.imported = &imported{Timeout: t.TimeoutMS, Trust: t.Trust}
		if t.Retry.MaxAttempts > 0 {
			facts.Retry = stateRetry(t.Retry)
		}
		if t.Given {
			facts.Given = t.OutputSchema
		}
	}
	var err error
	if facts.InputSchema, err = digestOf(t.InputSchema); err == nil {
		facts.OutputSchema, err = digestOf(t.OutputSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("the facts of %s: %w", t.Name(), err)
	}
	raw, err := json.Marshal(facts)
	if err != nil {
		return nil, fmt.Errorf("the facts of %s: %w", t.Name(), err)
	}
	return raw, nil
}

// digestOf is the digest of a schema in canonical form, "" for none.
func digestOf(schema json.RawMessage) (string, error) {
	if len(schema) == 0 {
		return "", nil
	}
	v, err := schemas.Decode(schema)
	if err != nil {
		return "", err
	}
	raw, err := plan.Canonical(v)
	if err != nil {
		return "", err
	}
	return plan.DigestOf(raw), nil
}

// imported is what is said of a tool whose definition is in the registry, so that these facts and
// the definition make the template.
type imported struct {
	Timeout int64           `json:"timeout_ms,omitempty"`
	Retry   *statedRetry    `json:"retry_policy,omitempty"`
	Trust   plan.Trust      `json:"trust_requirement,omitempty"`
	Given   json.RawMessage `json:"given_output_schema,omitempty"`
}

// statedRetry is a retry policy as a catalog file has it.
type statedRetry struct {
	MaxRetries int             `json:"max_retries"`
	On         []contract.Kind `json:"on,omitzero"`
	InitialMS  int64           `json:"initial_ms"`
	Multiplier json.Number     `json:"multiplier"`
	MaxMS      int64           `json:"max_ms"`
}

func stateRetry(r plan.Retry) *statedRetry {
	whole, part := r.MultiplierMilli/1000, r.MultiplierMilli%1000
	factor := strconv.FormatInt(whole, 10)
	if part > 0 {
		factor += strings.TrimRight(fmt.Sprintf(".%03d", part), "0")
	}
	return &statedRetry{MaxRetries: r.MaxAttempts - 1, On: r.On, InitialMS: r.InitialMS, Multiplier: json.Number(factor), MaxMS: r.MaxMS}
}

type statedCost struct {
	Expr       string `json:"expr"`
	Currency   string `json:"currency"`
	FromOutput bool   `json:"from_output,omitempty"`
}

type statedVerify struct {
	Operation string `json:"operation"`
	With      any    `json:"with,omitempty"`
	Executed  string `json:"executed"`
	Output    any    `json:"output,omitempty"`
}
