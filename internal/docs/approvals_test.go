package docs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
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
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/trust/sshsig"
)

const approving = "docs/approvals.md"

// TestApprovalsWalk runs the commands and the programs of docs/approvals.md beside chimera
// dev, and holds what they print against the block below each. What is "eventually" so may
// take some time.
func TestApprovalsWalk(t *testing.T) {
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
			w.delegate(t)
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

// delegate makes the delegation of the page: Eve signs it with ssh-keygen.
func (w *walk) delegate(t *testing.T) {
	var d approval.Delegation
	require.NoError(t, trust.Decode([]byte(first(t, approving, "json")), &d))
	require.Equal(t, approval.DelegationFormat, d.Format)
	out, err := w.command(t, "chimera approvals show third --format json")
	require.NoError(t, err, out)
	var asked struct{ Request approval.Request }
	require.NoError(t, json.Unmarshal([]byte(out), &asked))
	d.Deployment, d.NotBefore, d.Expires = asked.Request.Deployment, ledger.At(time.Now().Add(-time.Hour)), ledger.At(time.Now().Add(time.Hour))
	e, err := d.Unsigned()
	require.NoError(t, err)
	require.Contains(t, read(t, approving), "`"+e.Type+"`")
	w.write(t, "message", string(trust.PAE(e.Type, e.Payload)))
	out, err = w.command(t, "ssh-keygen -q -Y sign -n "+sshsig.Namespace+" -f eve message && cat message.sig")
	require.NoError(t, err, out)
	sig, err := sshsig.Unarmor([]byte(out[strings.Index(out, "-----BEGIN"):]))
	require.NoError(t, err)
	envelope, err := json.Marshal(map[string]any{
		"payloadType": e.Type, "payload": base64.StdEncoding.EncodeToString(e.Payload),
		"signatures": []map[string]string{{"sig": base64.StdEncoding.EncodeToString(sig)}},
	})
	require.NoError(t, err)
	w.write(t, "eve-to-leo.json", string(envelope))
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
	require.Equal(t, policy.MaxFollowUpMS, lint.MaxExpiresMS)
	require.Equal(t, 1000, policy.MinRemindMS, "the reference says: less than 1,000 is refused")
	require.Equal(t, 1<<20, display.MaxFree, "the page says: 1 MiB")
	require.Equal(t, 64, display.MaxList, "the page says: 64 resources")
	require.Len(t, approval.Type, 40, "the page says so")
}
