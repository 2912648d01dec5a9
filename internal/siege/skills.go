package siege

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
)

// MaxSize is the largest text that siege/grow gives.
const MaxSize = 8 << 20

// Skills are the operations of provider siege. What outlives a worker, the gates
// and the counts of calls, is in the folder.
func Skills(dir string) []skills.Skill {
	key := `{"type":"string","minLength":1,"maxLength":100}`
	text := json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`)
	return []skills.Skill{
		skill("grow", fmt.Sprintf(`{"type":"object","properties":{"size":{"type":"integer","minimum":0,"maximum":%d}},"required":["size"],"additionalProperties":false}`, MaxSize), text, grow),
		skill("blow", `{"type":"object","properties":{"key":`+key+`,"fails":{"type":"integer","minimum":0,"maximum":100}},"required":["key","fails"],"additionalProperties":false}`, text,
			func(_ context.Context, in request) (string, error) { return in.Key, blow(dir, in) }),
		skill("wait", `{"type":"object","properties":{"key":`+key+`},"required":["key"],"additionalProperties":false}`, text,
			func(ctx context.Context, in request) (string, error) { return in.Key, wait(ctx, dir, in.Key) }),
		skill("open", `{"type":"object","properties":{"key":`+key+`},"required":["key"],"additionalProperties":false}`, text,
			func(_ context.Context, in request) (string, error) {
				return in.Key, os.WriteFile(gate(dir, in.Key), nil, 0o600)
			}),
	}
}

type request struct {
	Key   string
	Fails int
	Size  int
}

func skill(operation, in string, out json.RawMessage, run func(context.Context, request) (string, error)) skills.Skill {
	return skills.Skill{
		Provider: "siege", Operation: operation, Mode: plan.Deter, Description: "Part of a siege.",
		InputSchema: json.RawMessage(in), OutputSchema: out,
		Run: func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
			var r request
			if err := json.Unmarshal(input, &r); err != nil {
				return nil, contract.Errorf(contract.Contract, "siege/%s: read the input: %w", operation, err)
			}
			x, err := run(ctx, r)
			if err != nil {
				return nil, err
			}
			return json.Marshal(map[string]string{"x": x})
		},
	}
}

func grow(_ context.Context, in request) (string, error) { return strings.Repeat("g", in.Size), nil }

// blow fails until it was called often enough. Its calls are not at one time.
func blow(dir string, in request) error {
	file := filepath.Join(dir, "calls-"+in.Key)
	calls, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return contract.Errorf(contract.Transport, "siege/blow: %w", err)
	}
	if len(calls) >= in.Fails {
		return nil
	}
	if err := os.WriteFile(file, append(calls, 'x'), 0o600); err != nil {
		return contract.Errorf(contract.Transport, "siege/blow: %w", err)
	}
	return contract.Errorf(contract.Transport, "call %d of %d", len(calls)+1, in.Fails)
}

func gate(dir, key string) string { return filepath.Join(dir, "gate-"+key) }

// wait ends when the gate is open.
func wait(ctx context.Context, dir, key string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(gate(dir, key)); err == nil {
			return nil
		} else if !os.IsNotExist(err) && !isPath(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func isPath(err error) bool {
	_, ok := err.(*fs.PathError)
	return ok
}

// envTool makes the test binary the program that siegetools/echo calls.
const envTool = "CHIMERA_SIEGE_TOOL"

// echo gives the key of its input.
func echo() error {
	var in request
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{"x": in.Key})
}

// Tools gives options with the programs that plans call, and their catalog.
func Tools() (host.Options, error) {
	catalog, ds := compiler.ParseCatalog(compiler.Source{Name: "siege", Text: []byte(toolCatalog)})
	if ds.HasErrors() {
		return host.Options{}, fmt.Errorf("the catalog of the siege: %s", ds[0].Summary)
	}
	return host.Options{Catalog: catalog, Executables: map[string]skills.Executable{
		"siegetools": {Command: os.Args[0], Env: map[string]string{envTool: "1"}, MaxMemory: -1},
	}}, nil
}

const toolCatalog = `apiVersion: chimera/v1
kind: Catalog
templates:
  - provider_type: skill
    provider_name: siegetools
    operation: echo
    mode: deter
    effect_class: pure
    input_schema: {type: object, properties: {key: {type: string}}, required: [key], additionalProperties: false}
    output_schema: {type: object, properties: {x: {type: string}}, required: [x]}
    timeout_ms: 60000
    retry_policy: {max_retries: 0}
    trust_requirement: allow_auto
    status: allow_auto
`
