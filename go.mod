module chimera.ai/engine

go 1.26.0

require (
	cel.dev/cel-go v0.33.2 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/mark3labs/mcp-go v1.2.1 // indirect
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v5 v5.3.1 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.temporal.io/api v1.64.1 // indirect
	go.temporal.io/sdk v1.50.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
