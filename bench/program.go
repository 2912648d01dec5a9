package main

import (
	"encoding/json"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
)

// echoProgram is an executable that is as little as can be: what it costs is the
// engine's way to it, and the start of one process. Its operation, which is its
// argument, is the file that cat reads.
var echoProgram = map[string]skills.Executable{"bench": {Command: "/bin/cat", Dir: "/dev"}}

// echoCatalog has its operation.
func echoCatalog() *catalog.Catalog {
	schema := json.RawMessage(`{"type":"object","required":["x"],"properties":{"x":{"type":"string"}}}`)
	return &catalog.Catalog{Templates: []catalog.Template{{
		ProviderType: plan.Skill, Provider: "bench", Operation: "stdin", Mode: plan.Deter, Effect: plan.Pure,
		InputSchema: schema, OutputSchema: schema, Trust: plan.AllowAuto, Status: plan.AllowAuto, TimeoutMS: ordinary,
	}}}
}
