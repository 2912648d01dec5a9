package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/configuration.md and schemas/config.json anew")

// TestReference: the document and the schema for editors say what the table
// says. `go test ./config -update` writes them.
func TestReference(t *testing.T) {
	for file, want := range map[string][]byte{
		"../docs/configuration.md": markdown(),
		"../schemas/config.json":   jsonSchema(t),
	} {
		if *update {
			require.NoError(t, os.WriteFile(file, want, 0o644))
		}
		have, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "%s is stale: go test ./config -update", file)
	}
}

const preface = "# Configuration\n\n" +
	"<!-- Written from config/keys.go by `go test ./config -update`. -->\n\n" +
	"All settings are in one file: `chimera.yaml` in the working directory, or the file that\n" +
	"`--config FILE` names. The file may be empty: every key is optional.\n" +
	"Unknown keys are refused. `chimera schema config` prints a JSON Schema for editors.\n\n" +
	"```yaml\n" +
	"temporal:\n  address: temporal.example.com:7233\n  namespace: agents\n" +
	"store:\n  driver: postgres\n  url: ${env:DATABASE_URL}\n  blobs: database\n" +
	"ledger:\n  key: ${file:/run/secrets/ledger-key}\n" +
	"  retention: {operational: 90d, evidence: 7y, financial: 10y}\n" +
	"catalog: catalog.yaml\n" +
	"mcpServers:\n  files:\n    command: mcp-files\n    args: [--root, /srv/documents]\n" +
	"    env:\n      FILES_TOKEN: ${file:/run/secrets/files-token}\n" +
	"skills:\n  words:\n    command: ./bin/words\n" +
	"```\n\n" +
	"## Precedence\n\n" +
	"Later layers override earlier ones:\n\n" +
	"1. the defaults below;\n" +
	"2. Temporal's own profile file (`temporal.toml`, the profile that `temporal.profile` or\n" +
	"   `TEMPORAL_PROFILE` names), for section `temporal`;\n" +
	"3. `chimera.yaml`;\n" +
	"4. Temporal's own environment (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`,\n" +
	"   `TEMPORAL_TLS…`, `TEMPORAL_GRPC_META_…`), for section `temporal`;\n" +
	"5. a variable for each key of the tables below;\n" +
	"6. flags of the command.\n\n" +
	"If none of them names a server, commands use the one that `chimera dev` runs in this\n" +
	"folder, or else `localhost` at `dev.port`.\n\n" +
	"A variable that begins like a section (`CHIMERA_TEMPORAL_`, `CHIMERA_DEV_`, `CHIMERA_CHILDREN_`, `CHIMERA_WORKER_`,\n" +
	"`CHIMERA_STORE_`, `CHIMERA_LEDGER_`, `CHIMERA_PAYLOAD_`, `CHIMERA_TRUST_`, `CHIMERA_GUARDIAN_`, `CHIMERA_PKCS11_`, `CHIMERA_CONSOLE_`) and names no key is refused.\n\n" +
	"## Paths\n\n" +
	"A relative path in the file is relative to the file's folder; one in a variable or a\n" +
	"default is relative to the working directory. A `command` without a slash is looked up on `PATH`.\n\n" +
	"## Secrets\n\n" +
	"Values of `env` and `headers`, `jwt.key` and `oauth.client_secret` of MCP servers, `temporal.api_key`, `store.url`, `ledger.key`, `trust.author_key`, `trust.start_key`, `guardian.key`, `pkcs11.pin`, `payload.keys`,\n" +
	"`console.codec.token` and `console.guardian.token` may contain references: `${env:NAME}` is a variable of the worker's environment, `${file:PATH}` the\n" +
	"text of a file of at most 64 KiB, without its final newline. `$${` stands for `${`. The worker resolves references when it starts. If it\n" +
	"cannot resolve one, it stops with an error that names it. Secrets are never printed, and\n" +
	"never enter a plan, a history or a store. A reference anywhere else is refused.\n\n" +
	"`ledger.key`, `trust.author_key`, `trust.start_key` and `guardian.key` may name a private key on a PKCS #11 token instead, by its\n" +
	"URI, which begins with `pkcs11:`: [keys on tokens](trust.md#keys-on-tokens).\n\n" +
	"## Keys\n"

// markdown is docs/configuration.md.
func markdown() []byte {
	var b bytes.Buffer
	b.WriteString(preface)
	def := Default()
	section := "?"
	for _, k := range keys {
		s, _, _ := strings.Cut(k.name, ".")
		if s != section {
			section = s
			fmt.Fprintf(&b, "\n### `%s`\n\n| key | value | default | variable | meaning |\n|---|---|---|---|---|\n", s)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s |\n", k.name, valueText(k), defaultText(k.at(&def)), variable(k.name), k.doc)
	}
	b.WriteString("\n### `ledger.witnesses`\n\nThe list of witnesses that cosign the log's checkpoints. The process that signs the\n" +
		"checkpoints asks them in the background; the log waits for none of them.\n\n")
	entryTable(&b, witnessKeys)
	b.WriteString("\n### `mcpServers`\n\nThe MCP servers, by the name that plans give as `provider_name`, in the form that other MCP\n" +
		"hosts use. A server is started as a child and spoken to on standard input and output\n" +
		"(`command`), or it is a remote one (`url`). A dot stands for a map within the entry:\n" +
		"`tls.ca_file` is `tls: {ca_file: …}`. What is required below `jwt` and `oauth` is so if they\n" +
		"are there. A request to a remote server has one credential: `jwt`, `oauth`, or a header\n" +
		"`Authorization`; the client's certificate may be there as well.\n\n" +
		"```yaml\n" +
		"mcpServers:\n  payments:\n    url: https://mcp.bank.example.com/mcp\n    roles: [effects]\n" +
		"    tls:\n      cert_file: /run/secrets/chimera.pem\n      key_file: /run/secrets/chimera.key\n" +
		"      pins: [\"sha256:0f1d2c3b4a59687786958493a2b1c0decafe0123456789abcdef0123456789ab\"]\n" +
		"    jwt:\n      key: ${file:/run/secrets/payments-jwt.pem}\n      issuer: chimera.example.com\n" +
		"```\n\n")
	entryTable(&b, serverKeys)
	b.WriteString("\n### `skills`\n\nExecutables that speak JSON on standard input and output, by the name that plans give as\n" +
		"`provider_name`. The names `engine` and `plan` are reserved.\n\n")
	entryTable(&b, skillKeys)
	return b.Bytes()
}

func entryTable[T any](b *bytes.Buffer, table []key[T]) {
	b.WriteString("| key | value | meaning |\n|---|---|---|\n")
	for _, k := range table {
		value := valueText(k)
		if k.required {
			value += ", required"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", k.name, value, k.doc)
	}
}

func valueText[T any](k key[T]) string {
	switch k.sort {
	case integer:
		return fmt.Sprintf("whole number, %d to %d", k.min, k.max)
	case duration:
		return fmt.Sprintf("duration, %s to %s", time.Duration(k.min), time.Duration(k.max))
	case period:
		return "duration, also in `d`, `w`, `y`"
	case path:
		return "path"
	case command:
		return "path or name"
	case secret:
		if k.check != nil {
			return "reference or URL"
		}
		return "reference"
	case private:
		return "reference or URI"
	case choice:
		return "`" + strings.Join(k.oneOf, "` or `") + "`"
	case choices:
		return "list of `" + strings.Join(k.oneOf, "`, `") + "`"
	case secrets, headers:
		return "map of strings and references"
	case texts:
		return "list of strings"
	case networks:
		return "list of networks"
	case references:
		return "list of references"
	case paths:
		return "list of paths"
	case boolean:
		return "`true` or `false`"
	default:
		return "string"
	}
}

func defaultText(at any) string {
	var s string
	switch v := at.(type) {
	case *string:
		s = *v
	case *[]Secret:
		s = "[]"
	case *[]string:
		s = "[" + strings.Join(*v, ", ") + "]"
	case *int:
		s = fmt.Sprint(*v)
	case *bool:
		s = fmt.Sprint(*v)
	case *time.Duration:
		if *v != 0 {
			s = v.String()
		}
	case *Secret:
		s = v.Reveal()
	}
	if s == "" {
		return "–"
	}
	return "`" + s + "`"
}

// object is a JSON Schema with properties in their order.
type object struct {
	ID          string            `json:"$id,omitempty"`
	Draft       string            `json:"$schema,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Type        string            `json:"type,omitempty"`
	Properties  map[string]object `json:"properties,omitempty"`
	Names       *object           `json:"propertyNames,omitempty"`
	Additional  any               `json:"additionalProperties,omitempty"`
	Required    []string          `json:"required,omitempty"`
	Items       *object           `json:"items,omitempty"`
	Enum        []string          `json:"enum,omitempty"`
	Minimum     *int64            `json:"minimum,omitempty"`
	Maximum     *int64            `json:"maximum,omitempty"`
	MinItems    int               `json:"minItems,omitempty"`
	MaxItems    int               `json:"maxItems,omitempty"`
	Unique      bool              `json:"uniqueItems,omitempty"`
	MinLength   int               `json:"minLength,omitempty"`
	MaxLength   int               `json:"maxLength,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	Default     any               `json:"default,omitempty"`
	MaxNamed    int               `json:"maxProperties,omitempty"`
	OneOf       []object          `json:"oneOf,omitempty"`
}

// jsonSchema is schemas/config.json.
func jsonSchema(t *testing.T) []byte {
	t.Helper()
	root := object{
		ID: "https://chimera.ai/schemas/config.json", Draft: "https://json-schema.org/draft/2020-12/schema",
		Title: "chimera.yaml", Type: "object", Properties: map[string]object{}, Additional: false,
	}
	def := Default()
	for _, k := range keys {
		o := valueSchema(k)
		switch v := k.at(&def).(type) {
		case *string:
			if *v != "" {
				o.Default = *v
			}
		case *int:
			o.Default = *v
		case *bool:
			o.Default = *v
		case *time.Duration:
			if *v != 0 {
				o.Default = v.String()
			}
		case *[]string:
			if *v != nil {
				o.Default = *v
			}
		}
		at := root.Properties
		levels := strings.Split(k.name, ".")
		for _, level := range levels[:len(levels)-1] {
			if _, ok := at[level]; !ok {
				at[level] = object{Type: "object", Properties: map[string]object{}, Additional: false}
			}
			at = at[level].Properties
		}
		at[levels[len(levels)-1]] = o
	}
	server := entrySchema(serverKeys)
	server.OneOf = []object{{Required: []string{"command"}}, {Required: []string{"url"}}}
	root.Properties["mcpServers"] = named("The MCP servers, by the name that plans give as provider_name.", server)
	witness := entrySchema(witnessKeys)
	root.Properties["ledger"].Properties["witnesses"] = object{Type: "array", MaxItems: maxWitnesses, Items: &witness,
		Description: "The witnesses that cosign the log's checkpoints."}
	root.Properties["skills"] = named("Executables that speak JSON, by the name that plans give as provider_name.", entrySchema(skillKeys))
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(root))
	return b.Bytes()
}

func named(doc string, entry object) object {
	return object{Type: "object", Description: doc, MaxNamed: maxNamed, Names: &object{Pattern: providerName.String()}, Additional: entry}
}

func entrySchema[T any](table []key[T]) object {
	o := object{Type: "object", Properties: map[string]object{}, Additional: false}
	for _, k := range table {
		section, name, nested := strings.Cut(k.name, ".")
		at := o
		if nested {
			var ok bool
			if at, ok = o.Properties[section]; !ok {
				at = object{Type: "object", Properties: map[string]object{}, Additional: false}
			}
		} else {
			name = k.name
		}
		at.Properties[name] = valueSchema(k)
		if k.required {
			at.Required = append(at.Required, name)
		}
		if nested {
			o.Properties[section] = at
		} else {
			o = at
		}
	}
	return o
}

func valueSchema[T any](k key[T]) object {
	o := object{Description: strings.ReplaceAll(k.doc, "`", "")}
	switch k.sort {
	case integer:
		o.Type, o.Minimum, o.Maximum = "integer", &k.min, &k.max
	case boolean:
		o.Type = "boolean"
	case choice:
		o.Type, o.Enum = "string", k.oneOf
	case choices:
		o.Type, o.MinItems, o.Unique, o.Items = "array", 1, true, &object{Enum: k.oneOf}
	case texts, networks:
		o.Type, o.MaxItems, o.Items = "array", maxTexts, &object{Type: "string", MaxLength: maxText, Pattern: k.pattern}
	case paths:
		o.Type, o.MaxItems, o.Unique, o.Items = "array", maxTexts, true, &object{Type: "string", MinLength: 1, MaxLength: maxText}
	case secrets:
		o.Type, o.MaxNamed = "object", maxNamed
		o.Names, o.Additional = &object{Pattern: variableName.String()}, object{Type: "string", MaxLength: maxText}
	case headers:
		o.Type, o.MaxNamed = "object", maxNamed
		o.Names, o.Additional = &object{Pattern: headerName.String()}, object{Type: "string", MaxLength: maxText}
	case references:
		o.Type, o.MaxItems, o.Items = "array", maxTexts, &object{Type: "string", MaxLength: maxText, Pattern: `\$\{(env|file):[^}]+\}`}
	case secret:
		o.Type, o.MaxLength, o.Pattern = "string", maxText, `\$\{(env|file):[^}]+\}`
		if k.pattern != "" {
			o.Pattern += "|" + k.pattern
		}
	case private:
		o.Type, o.MaxLength, o.Pattern = "string", maxText, `\$\{(env|file):[^}]+\}|^[Pp][Kk][Cc][Ss]11:[^?]*=`
	default:
		o.Type, o.MaxLength, o.Pattern = "string", maxText, k.pattern
	}
	return o
}
