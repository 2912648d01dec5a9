package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	cosign "github.com/transparency-dev/formats/note"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/trust"
)

// eye is a witness with a clock of its own.
type eye struct {
	secret, public string
	now            time.Time
}

func newEye(t testing.TB) *eye {
	secret, public, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	return &eye{secret, public, time.Now()}
}

// cosign adds the witness's cosignature to a checkpoint (https://c2sp.org/tlog-cosignature).
func (e *eye) cosign(t testing.TB, checkpoint []byte) []byte {
	v, err := cosign.NewVerifierForCosignatureV1(e.public)
	require.NoError(t, err)
	parts := strings.SplitN(e.secret, "+", 5)
	seed, err := base64.StdEncoding.DecodeString(parts[4])
	require.NoError(t, err)
	text, _, _ := bytes.Cut(checkpoint, []byte("\n\n"))
	message := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", e.now.Unix(), text)
	sig := binary.BigEndian.AppendUint32(nil, v.KeyHash())
	sig = binary.BigEndian.AppendUint64(sig, uint64(e.now.Unix()))
	sig = append(sig, ed25519.Sign(ed25519.NewKeyFromSeed(seed[1:]), message)...)
	return fmt.Appendf(slices.Clone(checkpoint), "— %s %s\n", v.Name(), base64.StdEncoding.EncodeToString(sig))
}

// cosigns has the witness cosign what there is, after so long.
func (d *deployment) cosigns(t testing.TB, e *eye, after time.Duration) {
	d.drain(t)
	e.now = e.now.Add(after)
	raw, err := d.store.Checkpoint(t.Context())
	require.NoError(t, err)
	require.NoError(t, d.store.AddCosignatures(t.Context(), e.cosign(t, raw)))
}

func warned(r audit.Report, says string) bool {
	return slices.ContainsFunc(r.Warnings, func(p audit.Problem) bool { return strings.Contains(p.Message, says) })
}

// TestFrozenClock: what is added after a witness has cosigned the log without it is not older than
// that, although the store's clock says so.
func TestFrozenClock(t *testing.T) {
	d, e := newDeployment(t), newEye(t)
	d.trust.Witnesses = []string{e.public}
	d.publish(t, "a", d.author, nil)
	d.state(t, &trust.RevokePublisher{ID: "ann"})
	d.cosigns(t, e, 0)
	d.publish(t, "b", d.author, nil) // on its way when ann was revoked
	d.cosigns(t, e, 3*time.Hour)
	r := d.verifiesExport(t)
	require.True(t, r.OK, "%v", r.Problems)
	require.Zero(t, r.Unwitnessed)

	d.publish(t, "c", d.author, nil)
	r = d.verifiesExport(t)
	require.False(t, r.OK)
	require.Len(t, r.Problems, 1)
	require.Contains(t, r.Problems[0].Message, "the plan c@1 was published at")
	require.True(t, warned(r, "more than 1m0s before a witness had cosigned the log without them"), "%v", r.Warnings)
	require.Equal(t, int64(1), r.Unwitnessed)
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text, time.Now()))
	require.Contains(t, text.String(), "  1 entry not yet witnessed\n")

	// Whose witness nobody knows, says nothing.
	d.trust.Witnesses = []string{newEye(t).public}
	r = d.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.Equal(t, r.Size, r.Unwitnessed)
}

// verifiesExport places, exports and verifies what there is.
func (d *deployment) verifiesExport(t testing.TB) audit.Report {
	d.drain(t)
	return d.verify(t, nil)
}

// TestAStatementThatWasSeen counts since a witness has seen it, whatever time it says.
func TestAStatementThatWasSeen(t *testing.T) {
	d, e := newDeployment(t), newEye(t)
	d.trust.Witnesses = []string{e.public}
	d.state(t, &trust.RevokePublisher{ID: "ann"})
	d.cosigns(t, e, -5*time.Hour)
	d.cosigns(t, e, 2*time.Hour)
	d.publish(t, "a", d.author, nil)
	d.drain(t)
	r := d.finds(t, audit.BadAuthority, "by ann, who was revoked at")
	require.True(t, warned(r, "more than 1m0s after a witness had cosigned the log with them"), "%v", r.Warnings)
}

// TestRewrittenTail: with the log's key, what a witness has seen cannot be replaced.
func TestRewrittenTail(t *testing.T) {
	d, e := newDeployment(t), newEye(t)
	d.trust.Witnesses = []string{e.public}
	d.start(t, "x", d.agent, nil)
	d.cosigns(t, e, 0)
	d.start(t, "y", d.agent, nil)
	d.drain(t)
	d.finds(t, "", "")
	of := d.tale(t)
	d.tell(t, of[:len(of)-1])
	d.finds(t, "", "") // nobody has seen the last one
	d.tell(t, slices.Concat(of[:1], of[3:]))
	d.finds(t, audit.BadHistory, "and they are not those that the log begins with")
	d.tell(t, of[:2])
	d.finds(t, audit.BadHistory, "and they are not those that the log begins with")
}

// TestGaps: a long time without a cosignature is said.
func TestGaps(t *testing.T) {
	d, e := newDeployment(t), newEye(t)
	d.trust.Witnesses = []string{e.public}
	e.now = e.now.Add(-60 * time.Hour)
	for i := range 6 {
		d.start(t, strings.Repeat("x", i+1), nil, nil)
		d.cosigns(t, e, time.Minute)
	}
	require.False(t, warned(d.verifiesExport(t), "no witness has cosigned between"))
	d.start(t, "y", nil, nil)
	d.cosigns(t, e, 59*time.Hour)
	require.True(t, warned(d.verifiesExport(t), "and 2 entries were added: only the store's clock says when"))
}

// TestCosignedFile: a file of older checkpoints that is none is refused, and what has no
// cosignature of a known witness in it says nothing.
func TestCosignedFile(t *testing.T) {
	d, e := newDeployment(t), newEye(t)
	d.trust.Witnesses = []string{e.public}
	d.cosigns(t, e, 0)
	d.start(t, "x", d.agent, nil)
	d.cosigns(t, e, time.Second)
	d.drain(t)
	good := linesOf(d.read(t, audit.CosignedFile))
	require.Len(t, good, 2)
	quoted := func(raw []byte) []byte {
		line, err := json.Marshal(string(raw))
		require.NoError(t, err)
		return append(line, '\n')
	}
	other, err := d.key.Sign(ledger.Checkpoint{Origin: d.key.Name(), Size: 1, Root: ledger.Hash{1}})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"as it is":       {bytes.Join(good, nil), ""},
		"none":           {nil, ""},
		"of nobody":      {quoted(other), ""},
		"no JSON":        {[]byte("x\n"), "cosigned.jsonl: line 1: "},
		"no checkpoint":  {[]byte("\"x\"\n"), "cosigned.jsonl: line 1: "},
		"no end":         {good[0][:9], "cosigned.jsonl: the last line has no end"},
		"in another way": {bytes.Join([][]byte{good[1], good[0]}, nil), "its checkpoints are not in order, or more than 1000"},
		"twice":          {bytes.Join([][]byte{good[1], good[1]}, nil), "its checkpoints are not in order, or more than 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			d.write(t, audit.CosignedFile, c.file)
			r := d.verify(t, nil)
			require.Equal(t, c.says == "", r.OK, "%v", r.Problems)
			if c.says != "" {
				require.Equal(t, audit.BadExport, r.Problems[0].Kind)
				require.Contains(t, r.Problems[0].Message, c.says)
			}
		})
	}
}
