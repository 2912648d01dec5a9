package activities_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
)

const findCatalog = stage.ActingCatalog + `
  - {provider_type: skill, provider_name: book, operation: find, mode: deter, effect_class: pure, timeout_ms: 10000, retry_policy: {max_retries: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {found: {type: boolean}}, required: [found]},
     trust_requirement: allow_auto, status: allow_auto}
`

const verifiedPlan = `{apiVersion: chimera/v1, kind: Plan, name: acts, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [
    {id: write, template: book/write, commit_policy: {verify: {node: find, with: {line: "${args.line}"}, executed: "output.found", output: {ok: true}}}},
    {id: find, template: book/find}],
  edges: [$input.line -> write.line, write.ok -> $output.ok]}`

// forgets writes a line and does not answer in time, once; or does not even write it, if it
// is "unwritten". It finds what is written, but of a line that is "silent".
const forgets = `in=$(cat)
case "$1" in
find)
  case "$in" in *silent*) exit 1;; esac
  if grep -qxF "$in" "$LINES_FILE" 2>/dev/null; then echo '{"found":true}'; else echo '{"found":false}'; fi;;
write)
  echo "$in" >> "$LINES_FILE.calls"
  case "$in" in *unwritten*) if [ "$(grep -cxF "$in" "$LINES_FILE.calls")" = 1 ]; then kill -9 $$; fi;; esac
  echo "$in" >> "$LINES_FILE"
  case "$in" in *unwritten*) echo '{"ok":true}';; *) kill -9 $$;; esac;;
esac`

// TestVerifyTells: of a call that did not answer, verify says whether it had its effect.
// What had it is not called again, and what had not is; where verify does not know, nobody
// does.
func TestVerifyTells(t *testing.T) {
	t.Run("as the plan says", func(t *testing.T) { verifyTells(t, findCatalog, verifiedPlan) })
	t.Run("as the catalog says", func(t *testing.T) {
		const verify = `verify: {%s, with: {line: "${args.line}"}, executed: "output.found", output: {ok: true}}`
		operations := strings.Replace(findCatalog, "status: allow_auto}", "status: allow_auto, commit_policy: {"+fmt.Sprintf(verify, "operation: book/find")+"}}", 1)
		source := strings.Replace(verifiedPlan, ", commit_policy: {"+fmt.Sprintf(verify, "node: find")+"}},\n    {id: find, template: book/find}", "}", 1)
		require.NotContains(t, source, "verify")
		verifyTells(t, operations, source)
	})
}

func verifyTells(t *testing.T, operations, source string) {
	t.Parallel()
	a := stage.ActBy(t, "book", forgets, operations, stage.ActingPolicy)
	onlyEffects(t)
	digest := a.Publish(t, source)
	runs := map[string]client.WorkflowRun{}
	for _, line := range []string{"written", "unwritten", "silent"} {
		runs[line] = a.Start(t, line, digest, `{"line":"`+line+`"}`)
	}
	var out struct{ OK bool }
	for _, line := range []string{"written", "unwritten"} {
		require.NoError(t, a.Await(t, runs[line], &out), line)
		require.True(t, out.OK)
	}
	f := stage.FailureOf(t, a.Await(t, runs["silent"], nil))
	require.Equal(t, contract.OutcomeUnknown, f.Kind, f.Message)
	require.Contains(t, f.Message, "could not be verified")
	require.ElementsMatch(t, []string{`{"line":"written"}`, `{"line":"unwritten"}`, `{"line":"silent"}`}, a.Written(t))
	calls, err := os.ReadFile(a.Lines + ".calls")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(calls), `"unwritten"`), "what had no effect is called again")
	require.Equal(t, 1, strings.Count(string(calls), `"written"`))
	require.Equal(t, 1, strings.Count(string(calls), `"silent"`))
}
