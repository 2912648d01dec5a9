package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/config"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/ledger/audit"
)

const auditing = "docs/audit.md"

// TestAuditProblems: the table of problems is the closed set, in its order.
func TestAuditProblems(t *testing.T) {
	var kinds []audit.ProblemKind
	for _, row := range rows(t, read(t, auditing), "<!-- table of problems -->") {
		require.Len(t, row, 3)
		kinds = append(kinds, audit.ProblemKind(strings.Trim(row[0], "`")))
	}
	require.Equal(t, audit.Kinds(), kinds)
}

// TestAuditTrustFile: the trust file that the page shows is one.
func TestAuditTrustFile(t *testing.T) {
	_, err := audit.ParseTrust([]byte(first(t, auditing, "json")))
	require.NoError(t, err)
}

// TestAuditWalk runs every command of docs/audit.md, in the folder of whoever it
// is for, and holds what it prints against the block below it.
func TestAuditWalk(t *testing.T) {
	lengthy.Skip(t)
	w := newWalk(t)
	list := blocks(read(t, auditing))
	said := ""
	for i, b := range list {
		who, isCommand := strings.CutPrefix(b.info, "sh ")
		switch file, isProgram := strings.CutPrefix(b.info, "js "); {
		case isProgram:
			require.NoError(t, os.WriteFile(filepath.Join(w.dir, "auditor", file), []byte(b.text), 0o600))
		case isCommand:
			who, with, _ := strings.Cut(who, " ")
			if with != "" {
				w.trustWitness(t)
			}
			said = w.run(t, who, b)
		case b.info == "text":
			require.True(t, strings.HasPrefix(list[i-1].info, "sh "), "line %d", b.line)
			require.Regexp(t, pattern(b.text), said, "line %d", b.line)
		case b.info == "yaml":
			w.configure(t, b.text)
		}
	}
}

// walk is three folders: of the operator, an auditor, and a witness.
type walk struct {
	dir string
	env []string
}

// chimera is the program, which is built once.
var chimera = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "chimera-docs-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "chimera")
	build := exec.Command("go", "build", "-o", file, "./starter")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(file)
})

func newWalk(t *testing.T) *walk {
	temporal, err := devserver.Find(t.Context(), os.Stderr)
	require.NoError(t, err)
	program, err := chimera()
	require.NoError(t, err)
	w := &walk{dir: t.TempDir()}
	bin := filepath.Join(w.dir, "bin")
	for _, dir := range []string{"bin", "operator", "auditor", "witness"} {
		require.NoError(t, os.Mkdir(filepath.Join(w.dir, dir), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(bin, "chimera"), program, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "operator", "greet.yaml"), []byte(first(t, "docs/write-a-plan.md", "yaml plan")), 0o600))
	w.env = []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + w.dir, "LC_ALL=C",
		"CHIMERA_DEV_TEMPORAL=" + temporal, "CHIMERA_DEV_PORT=0", "CHIMERA_DEV_UI_PORT=0",
	}
	return w
}

// run runs a block's commands, and gives what they print on standard output.
func (w *walk) run(t *testing.T, who string, b block) string {
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", b.text)
	cmd.Dir, cmd.Env = filepath.Join(w.dir, who), w.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "line %d:\n%s\n%s%s", b.line, b.text, &out, &errs)
	// The shell does not stop at a command that should fail and does not.
	for line := range strings.Lines(b.text) {
		if strings.HasPrefix(line, "! ") {
			require.Contains(t, out.String(), "NOT VERIFIED", "line %d", b.line)
		}
	}
	return out.String()
}

// pattern is what a block of output stands for: … is any text in a line, and by
// itself any lines.
func pattern(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "…" {
			b.WriteString(`(.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	return `\A` + b.String() + `\z`
}

// witness is the witness's public key.
func (w *walk) witness(t *testing.T) string {
	key, err := os.ReadFile(filepath.Join(w.dir, "witness", "witness.key.pub"))
	require.NoError(t, err)
	return strings.TrimSpace(string(key))
}

// configure gives the operator the page's configuration, with this witness's key.
func (w *walk) configure(t *testing.T, text string) {
	key := regexp.MustCompile(`key: \S+`)
	require.Len(t, key.FindAllString(strings.Split(text, "#")[0], -1), 1)
	text = key.ReplaceAllLiteralString(text, "key: "+w.witness(t))
	file := filepath.Join(w.dir, "operator", config.DefaultFile)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// trustWitness adds the witness to the auditor's trust file, as the page says.
func (w *walk) trustWitness(t *testing.T) {
	file := filepath.Join(w.dir, "auditor", "trust.json")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var trust map[string]any
	require.NoError(t, json.Unmarshal(raw, &trust))
	trust["witnesses"], trust["quorum"] = []string{w.witness(t)}, 1
	raw, err = json.Marshal(trust)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, raw, 0o600))
}
