package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/approval/display"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

const approving = "docs/approvals.md"

// TestApprovalsWalk runs the commands and the programs of docs/approvals.md beside chimera
// dev, and holds what they print against the block below each. What is "eventually" so may
// take some time.
func TestApprovalsWalk(t *testing.T) {
	lengthy.Skip(t)
	w := newWalk(t)
	list := blocks(read(t, approving))
	for info, file := range map[string]string{"yaml plan": "announce.yaml", "yaml policy": "policy.yaml", "yaml catalog": "catalog.yaml", "yaml": "chimera.yaml"} {
		w.write(t, file, first(t, approving, info))
	}
	address := w.develop(t)
	for info, file := range map[string]string{"ts": "sign.mjs", "python": "sign.py"} {
		require.Contains(t, first(t, approving, info), "localhost:7233")
		w.write(t, file, strings.ReplaceAll(first(t, approving, info), "localhost:7233", address))
	}
	require.NoError(t, os.Symlink(filepath.Join(npm.Dir(t), "node_modules"), filepath.Join(w.dir, "operator", "node_modules")))
	temporal, err := devserver.Find(t.Context(), os.Stderr)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(temporal, filepath.Join(w.dir, "bin", "temporal")))

	commands, last := 0, ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last command has printed:\n%s", last)
		}
	})
	for i, b := range list {
		info, ok := strings.CutPrefix(b.info, "sh approvals")
		if !ok {
			continue
		}
		if info == " python" && !hasPython(t) {
			continue
		}
		commands++
		if strings.Contains(b.text, "--delegation eve-to-leo.json") {
			w.delegated(t)
		}
		want := `(?s).*`
		if list[i+1].info == "text" {
			want = pattern(list[i+1].text)
		}
		if info == " eventually" {
			re := regexp.MustCompile(want)
			stage.Until(t, b.text, func() bool {
				var err error
				last, err = w.command(t, b.text)
				return err == nil && re.MatchString(last)
			})
			continue
		}
		out, err := w.command(t, b.text)
		require.NoError(t, err, "line %d:\n%s", b.line, out)
		require.Regexp(t, want, out, "line %d", b.line)
		if m := regexp.MustCompile(`chimera start .* --id (\S+)`).FindStringSubmatch(b.text); m != nil {
			stage.Until(t, "people are asked", func() bool {
				_, err := w.command(t, "chimera approvals show "+m[1])
				return err == nil
			})
		}
	}
	require.Greater(t, commands, 15)
	for _, id := range []string{"first", "fourth"} {
		out, err := w.command(t, "grep -c . posted; chimera status "+id)
		require.NoError(t, err)
		require.Contains(t, out, "succeeded")
	}
	posted, err := os.ReadFile(filepath.Join(w.dir, "operator", "posted"))
	require.NoError(t, err)
	require.NotContains(t, string(posted), "not moving", "somebody has rejected it")
}

// hasPython reports whether the program in Python can run: nothing else of the project needs
// what it needs.
func hasPython(t *testing.T) bool {
	for _, argv := range [][]string{{"python3", "-c", "import sys; sys.exit(sys.version_info < (3, 9))"}, {"sh", "-c", "openssl version | grep -q '^OpenSSL [3-9]'"}} {
		if err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).Run(); err != nil {
			t.Logf("the program in Python was not run: %s: %s", strings.Join(argv, " "), err)
			return false
		}
	}
	return true
}

// delegated: the delegation that a command of the page has made is the one that it shows.
func (w *walk) delegated(t *testing.T) {
	t.Helper()
	var shown, made approval.Delegation
	require.NoError(t, trust.Decode([]byte(first(t, approving, "json")), &shown))
	raw, err := os.ReadFile(filepath.Join(w.dir, "operator", "eve-to-leo.json"))
	require.NoError(t, err)
	e, err := trust.ParseEnvelope(raw, approval.DelegationType)
	require.NoError(t, err)
	require.Contains(t, read(t, approving), "`"+e.Type+"`")
	require.NoError(t, trust.Decode(e.Payload, &made))
	require.Equal(t, shown.Expires.Time().Sub(shown.NotBefore.Time()), made.Expires.Time().Sub(made.NotBefore.Time()))
	shown.Deployment, shown.Nonce, shown.NotBefore, shown.Expires = made.Deployment, made.Nonce, made.NotBefore, made.Expires
	require.Equal(t, shown, made)
}

// write writes a file of the operator.
func (w *walk) write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "operator", file), []byte(text), 0o600))
}

// command runs commands of the operator, and returns all that they print.
func (w *walk) command(t *testing.T, text string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", text)
	cmd.Dir, cmd.Env = filepath.Join(w.dir, "operator"), w.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// TestApprovalCodes: the table of codes is the closed set, in its order, and what a run says.
func TestApprovalCodes(t *testing.T) {
	var said []string
	for _, row := range rows(t, read(t, approving), "<!-- table of codes -->") {
		said = append(said, strings.Trim(row[0], "`"))
	}
	require.Equal(t, append(constants(t, "Code", "approval", "verify.go"), contract.CodeAgain), said)
}

// TestApprovalBounds: the table of bounds has those of the programs.
func TestApprovalBounds(t *testing.T) {
	of := func(name string) int64 {
		m := regexp.MustCompile(`\b` + name + ` += ([0-9]+)\n`).FindStringSubmatch(read(t, "workflows/inbox.go"))
		require.NotNil(t, m, name)
		n, err := strconv.ParseInt(m[1], 10, 64)
		require.NoError(t, err)
		return n
	}
	want := map[string]int64{
		"actions of a barrier": ledger.MaxAwaited, "barriers of a plan that several nodes share": lint.MaxBarriers,
		"groups that a plan, or one list of a policy, asks for": policy.MaxGroups, "groups that are asked at a barrier, by plan and policy together": display.MaxList, "persons whom a plan excludes at one node": lint.MaxExcluded,
		"persons of a role that a group asks for": policy.MaxSigners, "`expires_in_ms`, `remind_every_ms`, `escalate_after_ms`": lint.MaxExpiresMS, "reminders of a barrier": ledger.MaxReminders,
		"bytes of the text": display.MaxText, "bytes of an envelope": contract.MaxSignature, "bytes of a reason": approval.MaxReason,
		"days for which a delegation is valid": int64(approval.MaxDelegation / (24 * time.Hour)), "refused signatures of a barrier in the log": ledger.MaxRefused,
		"signatures in one request to the guardian": contract.MaxSignatures, "signatures that wait for the guardian, in a run": of("maxWaiting"),
		"signals in one execution of a run, which then continues as new": of("maxSignals"),
	}
	said := map[string]int64{}
	for _, row := range rows(t, read(t, approving), "<!-- bounds -->") {
		n, err := strconv.ParseInt(strings.ReplaceAll(row[1], ",", ""), 10, 64)
		require.NoError(t, err)
		said[row[0]] = n
	}
	require.Equal(t, want, said)
	require.Equal(t, contract.MaxSignature, approval.MaxEnvelope)
	require.Equal(t, ledger.MaxAwaited, lint.MaxMembers)
	require.Equal(t, policy.MaxFollowUpMS, lint.MaxExpiresMS)
	require.Equal(t, 1000, policy.MinRemindMS, "the reference says: less than 1,000 is refused")
	require.Equal(t, 1<<20, display.MaxFree, "the page says: 1 MiB")
	require.Equal(t, 64, display.MaxList, "the page says: 64 resources")
	require.Len(t, approval.Type, 40, "the page says so")
}
