package approval_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/approval/display"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/trust/sshsig"
)

const (
	deployment = "acme"
	logName    = "acme.example/log"
)

// noon is when people sign: an hour after the barrier opened, and an hour before it expires.
var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func minutes(n int) ledger.Time { return ledger.At(noon.Add(time.Duration(n) * time.Minute)) }

func days(n int) ledger.Time { return ledger.At(noon.AddDate(0, 0, n)) }

// The cast. Ada has two keys, under two spellings of her name. Rae, the requester, must not
// approve; Dan may not approve anything on his own.
var cast = []struct {
	id, person string
	dev, prod  string
	roles      []string
}{
	{"ada", "ada", trust.SigDev, trust.SigToken, []string{"finance"}},
	{"ada-2", "ada", trust.SigSSH, trust.SigSSHHardware, []string{"finance", "legal"}},
	{"ben", "ben", trust.SigSSH, trust.SigSSHHardware, []string{"finance", "legal"}},
	{"cleo", "cleo", trust.SigToken, trust.SigToken, []string{"legal"}},
	{"dan", "dan", trust.SigDev, trust.SigToken, []string{"intern"}},
	{"eli", "eli", trust.SigSSH, trust.SigSSHHardware, []string{"intern"}},
	{"rae", "rae", trust.SigDev, trust.SigToken, []string{"finance", "legal"}},
}

// world is a deployment with its chain of statements, and the keys of everybody.
type world struct {
	t      testing.TB
	boot   *trust.Bootstrap
	admins []*trust.Key
	chain  [][]byte
	state  trust.State
	// sign adds a signer's signature to an envelope.
	sign map[string]func(*trust.Envelope)
}

// newWorld sets up a deployment in which the cast is enrolled. Keys follow from names, so
// that they are the same in every process that shares a corpus.
func newWorld(t testing.TB, audience trust.Audience) *world {
	t.Helper()
	w := bareWorld(t, audience)
	var acts []trust.Act
	for _, c := range cast {
		kind := c.dev
		if audience == trust.Prod {
			kind = c.prod
		}
		acts = append(acts, w.signer(c.id, c.person, kind, c.roles...))
	}
	w.must(acts...)
	return w
}

// bareWorld sets up a deployment without signers.
func bareWorld(t testing.TB, audience trust.Audience) *world {
	t.Helper()
	_, log, err := ledger.NewKey(logName)
	require.NoError(t, err)
	w := &world{t: t, admins: []*trust.Key{software(t, "admin 1"), software(t, "admin 2")}, sign: map[string]func(*trust.Envelope){}}
	w.boot = &trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: deployment, Audience: audience, Quorum: 2,
		Admins: []trust.Admin{{ID: "mia", Person: "mia", Key: w.admins[0].Public()}, {ID: "noa", Person: "noa", Key: w.admins[1].Public()}},
		Log:    trust.LogKey{Origin: logName, Key: log}, Witnesses: trust.Witnesses{Keys: []string{}}, Issued: days(-30),
	}
	w.state, err = trust.Chain(w.boot, nil)
	require.NoError(t, err)
	return w
}

// do states acts. A statement that is refused leaves the world as it is.
func (w *world) do(acts ...trust.Act) error {
	e, err := w.state.Draft(noon.AddDate(0, 0, -20), acts...).Envelope(w.admins...)
	if err != nil {
		return err
	}
	raw, err := e.Encode()
	if err != nil {
		return err
	}
	chain := append(slices.Clone(w.chain), raw)
	state, err := trust.Chain(w.boot, chain)
	if err != nil {
		return err
	}
	w.chain, w.state = chain, state
	return nil
}

func (w *world) must(acts ...trust.Act) {
	w.t.Helper()
	require.NoError(w.t, w.do(acts...))
}

// signer makes a key of a type, and returns the act that enrolls it.
func (w *world) signer(id, person, kind string, roles ...string) *trust.EnrollSigner {
	w.t.Helper()
	act := &trust.EnrollSigner{ID: id, Person: person, Roles: roles, SigType: kind, NotBefore: days(-10), NotAfter: days(10)}
	switch kind {
	case trust.SigDev, trust.SigToken:
		k := software(w.t, id)
		if kind == trust.SigToken {
			// Like a token, of whose key only a crypto.Signer is seen.
			k = hardware(w.t, id)
		}
		act.PublicKey = k.Public()
		w.sign[id] = func(e *trust.Envelope) { require.NoError(w.t, e.Sign(k)) }
	case trust.SigSSH, trust.SigSSHHardware:
		s := sshKey(w.t, id, kind == trust.SigSSHHardware)
		act.PublicKey = sshText(w.t, s)
		w.sign[id] = func(e *trust.Envelope) {
			sig, err := sshsig.Sign(s, trust.PAE(e.Type, e.Payload))
			require.NoError(w.t, err)
			e.Signatures = append(e.Signatures, trust.Signature{Sig: sig})
		}
	}
	return act
}

func seed(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:]
}

// software returns the Ed25519 key of a name.
func software(t testing.TB, name string) *trust.Key {
	t.Helper()
	k, err := trust.FromSigner(ed25519.NewKeyFromSeed(seed(name)))
	require.NoError(t, err)
	return k
}

// hardware returns the P-256 key of a name.
func hardware(t testing.TB, name string) *trust.Key {
	t.Helper()
	k, err := trust.FromSigner(onP256(t, name))
	require.NoError(t, err)
	return k
}

func onP256(t testing.TB, name string) *ecdsa.PrivateKey {
	t.Helper()
	scalar := seed(name)
	scalar[0] &= 0x7f // below the order
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	require.NoError(t, err)
	return k
}

// sshKey returns the key of OpenSSH of a name, in a file or on a FIDO token.
func sshKey(t testing.TB, name string, onToken bool) ssh.Signer {
	t.Helper()
	k := ed25519.NewKeyFromSeed(seed(name))
	if onToken {
		return &token{key: k, flags: 0x05}
	}
	s, err := ssh.NewSignerFromKey(k)
	require.NoError(t, err)
	return s
}

func sshText(t testing.TB, s ssh.Signer) string {
	t.Helper()
	k, err := sshsig.ParseKey(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
	require.NoError(t, err)
	return k.String()
}

// token does what a FIDO token does. Its flags say whether it saw and verified its user.
type token struct {
	key   ed25519.PrivateKey
	flags byte
}

func (k *token) PublicKey() ssh.PublicKey {
	public, ok := k.key.Public().(ed25519.PublicKey)
	if !ok {
		panic("an Ed25519 key without its public half")
	}
	p, err := ssh.ParsePublicKey(ssh.Marshal(struct{ Algorithm, Key, Application string }{ssh.KeyAlgoSKED25519, string(public), "ssh:"}))
	if err != nil {
		panic(err)
	}
	return p
}

func (k *token) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	application, message := sha256.Sum256([]byte("ssh:")), sha256.Sum256(data)
	rest := binary.BigEndian.AppendUint32([]byte{k.flags}, 7)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(k.key, slices.Concat(application[:], rest, message[:])), Rest: rest}, nil
}

// rawSSH makes a signature of OpenSSH that package sshsig would not make.
func rawSSH(t testing.TB, s ssh.Signer, message []byte, namespace string) []byte {
	t.Helper()
	sig, err := wire.Sign(bytes.NewReader(message), s, wire.HashSHA512, namespace)
	require.NoError(t, err)
	return sig.Marshal()
}

// rawP256 makes the two forms of another signature over a message than the one of a key
// that is given: (r, n-s) verifies as (r, s) does.
func rawP256(t testing.TB, name string, message []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, onP256(t, name), sum[:])
	require.NoError(t, err)
	s.Sub(elliptic.P256().Params().N, s)
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
}

func digest(of string) string { return plan.DigestOf([]byte(of)) }

// shown is what people are shown of each action of the world's request.
var shown = []approval.Shown{
	{
		Fingerprint: digest("tool"), Description: "pay the invoice", Resources: []string{"account:1"}, Inputs: json.RawMessage(`{"amount":12.5,"to":"zoe"}`),
		Tainted: []string{"to"}, TaintedDecision: true, Prechecks: []display.Precheck{{Node: "balance", Output: digest("balance")}}, Objections: []string{"budget_exceeded"}, Undo: "none",
	},
	{Inputs: json.RawMessage(`{}`)},
}

// request returns what people are asked, with its digest. The edits come before the text
// is rendered.
func (w *world) request(edits ...func(*approval.Request)) (*approval.Request, string) {
	w.t.Helper()
	r := &approval.Request{
		Deployment: deployment, Audience: w.state.Audience, Namespace: "default", Workflow: "run-7f3a", Origin: "origin-1",
		Barrier: "barrier-1", Name: "pay", Plan: digest("plan"), PlanName: "invoices@1.2.0", Agent: "bookkeeper", Requester: "rae",
		Rule: approval.Rule{Groups: []plan.Group{{Role: "finance", Min: 2}, {Role: "legal", Min: 1}}, Excluded: []string{"owen", "rae"}},
		Actions: []approval.Action{
			{
				Node: "transfer", Path: "/transfer", Operation: "bank/transfer", Effect: plan.Irreversible, Invocation: "inv-1", Action: digest("action 1"),
				Amount: "1250.00", Currency: "EUR", Decision: "dec-1", Policy: digest("policy"), Evidence: digest("evidence 1"), Hold: "hold-1",
				Lifts: []string{"budget_exceeded"},
			},
			{
				Node: "mail", Path: "/mail", Operation: "mail/send", Effect: plan.Committing, Invocation: "inv-2", Action: digest("action 2"),
				Decision: "dec-2", Policy: digest("policy"), Evidence: digest("evidence 2"),
			},
		},
		Renderer: 1, Checkpoint: logName + " 4711 q1Zrqd7gMXr0", Opened: minutes(-60), Expires: minutes(60),
	}
	for _, edit := range edits {
		edit(r)
	}
	if r.Text == "" && len(r.Actions) == len(shown) {
		var err error
		_, r.Text, err = approval.Text(r, shown)
		require.NoError(w.t, err)
	}
	return parsed(w.t, r)
}

// parsed returns a request as it is read again, with its digest.
func parsed(t require.TestingT, r *approval.Request) (*approval.Request, string) {
	raw, err := r.Encode()
	require.NoError(t, err)
	again, d, err := approval.ParseRequest(raw)
	require.NoError(t, err)
	return again, d
}

// payload returns an approval that counts, if the signer may sign in the role.
func payload(r *approval.Request, digest, signer, role string) approval.Payload {
	p := r.Payload(digest, approval.Approve)
	p.Signer, p.Role, p.Nonce = signer, role, strings.Repeat("0f", 16)
	p.Issued, p.NotBefore, p.Expires = minutes(0), minutes(-1), minutes(30)
	return p
}

// seal returns the envelope of a payload, signed by a signer.
func (w *world) seal(p approval.Payload, by string) []byte {
	w.t.Helper()
	e, err := p.Unsigned()
	require.NoError(w.t, err)
	return w.sealed(e, by)
}

// sealed signs an envelope and encodes it.
func (w *world) sealed(e *trust.Envelope, by ...string) []byte {
	w.t.Helper()
	for _, id := range by {
		require.Contains(w.t, w.sign, id)
		w.sign[id](e)
	}
	return encoded(w.t, e)
}

func encoded(t testing.TB, e *trust.Envelope) []byte {
	t.Helper()
	raw, err := e.Encode()
	require.NoError(t, err)
	return raw
}

// parsedEnvelope is the envelope of an approval.
func parsedEnvelope(t testing.TB, raw []byte) *trust.Envelope {
	t.Helper()
	e, err := trust.ParseEnvelope(raw, approval.Type)
	require.NoError(t, err)
	return e
}

// vote verifies a signature that counts.
func (w *world) vote(r *approval.Request, digest string, p approval.Payload) approval.Vote {
	w.t.Helper()
	v, err := approval.Verify(w.state, r, digest, w.seal(p, p.Signer), noon)
	require.NoError(w.t, err)
	return v
}

// refused requires that a signature is refused with a code, for a reason.
func refused(t testing.TB, code approval.Code, says string, v approval.Vote, err error) {
	t.Helper()
	require.Error(t, err, "accepted: %+v", v)
	why := approval.Refused(err)
	require.NotNil(t, why, "%v", err)
	require.Equal(t, code, why.Code, "%s", why.Detail)
	require.Contains(t, why.Detail, says)
	require.Equal(t, string(code)+": "+why.Detail, err.Error())
	require.Zero(t, v, "a refusal comes with no vote")
}

// audiences runs a test in both.
func audiences(t *testing.T, test func(*testing.T, *world)) {
	for _, a := range []trust.Audience{trust.Dev, trust.Prod} {
		t.Run(string(a), func(t *testing.T) { test(t, newWorld(t, a)) })
	}
}
