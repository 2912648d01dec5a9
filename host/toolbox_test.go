package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/skills"
)

// toolbox is an executable whose calls a test counts: echo answers at once, and
// held when it is let go.
type toolbox struct {
	t   *testing.T
	dir string
}

const toolboxScript = `input=$(cat)
echo "$1" >> "$DIR/calls"
if [ "$1" = held ]; then until [ -e "$DIR/go" ]; do sleep 0.02; done; fi
printf '{"x":"%s of a tool"}' "$1"
`

func newToolbox(t *testing.T) *toolbox {
	t.Helper()
	b := &toolbox{t, t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "tool.sh"), []byte(toolboxScript), 0o600))
	return b
}

// put adds the tool, its catalog, or both to a host's options.
func (b *toolbox) put(o host.Options) host.Options {
	b.t.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n")
	for _, operation := range []string{"echo", "held"} {
		fmt.Fprintf(&text, "  - {provider_type: skill, provider_name: box, operation: %s, mode: deter, effect_class: pure, input_schema: {type: object}, "+
			"output_schema: {type: object, required: [x], properties: {x: {}}}, timeout_ms: 60000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto}\n", operation)
	}
	catalog, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog", Text: []byte(text.String())})
	require.False(b.t, ds.HasErrors(), ds)
	o.Catalog = catalog
	o.Executables = map[string]skills.Executable{"box": {
		Command: "sh", Args: []string{filepath.Join(b.dir, "tool.sh")}, Env: map[string]string{"DIR": b.dir}, Dir: b.dir,
	}}
	return o
}

// calls counts the calls of an operation so far.
func (b *toolbox) calls(operation string) int {
	raw, err := os.ReadFile(filepath.Join(b.dir, "calls"))
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(b.t, err)
	return strings.Count(string(raw), operation+"\n")
}
