package host_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// deployment is one of production: two admins, an author, and a key that starts
// runs for the agent of the tests' plans.
type deployment struct {
	bootstrap                *trust.Bootstrap
	ada, ben, author, starts *trust.Key
}

func newKey(t *testing.T) *trust.Key {
	t.Helper()
	k, _, err := trust.NewKey()
	require.NoError(t, err)
	return k
}

// deploy makes a deployment whose log is that of a store, which gets a key of
// that name where it has none.
func deploy(t *testing.T, o *store.Options) *deployment {
	t.Helper()
	if o.Key == "" {
		var err error
		o.Key, _, err = ledger.NewKey("test.example.com/log")
		require.NoError(t, err)
	}
	key, err := ledger.ParseKey(o.Key)
	require.NoError(t, err)
	d := &deployment{ada: newKey(t), ben: newKey(t), author: newKey(t), starts: newKey(t)}
	d.bootstrap = &trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: "test", Audience: trust.Prod, Quorum: 2, Issued: ledger.At(time.Now()),
		Log: trust.LogKey{Origin: key.Name(), Key: key.Public()}, Witnesses: trust.Witnesses{Keys: []string{}},
		Admins: []trust.Admin{{ID: "ada", Person: "ada", Key: d.ada.Public()}, {ID: "ben", Person: "ben", Key: d.ben.Public()}},
	}
	require.NoError(t, d.bootstrap.Check())
	return d
}

// state makes a statement of acts, signed by both admins.
func (d *deployment) state(t *testing.T, store ledger.Store, acts ...trust.Act) trust.State {
	t.Helper()
	s, err := trust.Read(t.Context(), store, d.bootstrap)
	require.NoError(t, err)
	e, err := s.Draft(time.Now(), acts...).Envelope(d.ada, d.ben)
	require.NoError(t, err)
	raw, err := e.Encode()
	require.NoError(t, err)
	s, err = trust.Publish(t.Context(), store, d.bootstrap, raw, time.Now())
	require.NoError(t, err)
	return s
}

// row compiles a plan and returns the row of its publication, signed by the author.
func (d *deployment) row(t *testing.T, store ledger.Store, text string, change func(*trust.Plan)) ledger.Plan {
	t.Helper()
	_, catalog, err := host.Catalog(nil, nil)
	require.NoError(t, err)
	p, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(text)}, catalog, nil)
	require.False(t, ds.HasErrors(), "%v", ds)
	raw, err := p.Encode()
	require.NoError(t, err)
	blob, err := store.PutBlob(t.Context(), []byte(text))
	require.NoError(t, err)
	row := ledger.Plan{Name: p.Name, Version: p.Version, Digest: plan.DigestOf(raw), SourceDigest: blob, Author: "fay", Agent: p.Agent}
	what := trust.Plan{
		Deployment: "test", Audience: trust.Prod, Author: row.Author, Name: row.Name, Version: row.Version,
		SourceDigest: row.SourceDigest, Digest: row.Digest, Issued: ledger.At(time.Now()),
	}
	if change != nil {
		change(&what)
	}
	row.Signature, err = trust.SignPlan(d.author, what)
	require.NoError(t, err)
	return row
}

func (d *deployment) publisher() *trust.AddPublisher {
	return &trust.AddPublisher{ID: "fay", Person: "fay", Key: d.author.Public(), Uses: []string{trust.UsePlans}}
}

// versioned is a plan of that version.
func versioned(version string) string {
	return `{apiVersion: chimera/v1, kind: Plan, name: signed, version: "` + version + `", agent: tester,
  input_schema: {type: object, properties: {x: {type: integer}}, required: [x]},
  output_schema: {type: object, properties: {x: {type: integer}}, required: [x]},
  nodes: [{id: a, template: engine/pass, input_schema: {type: object, properties: {x: {type: integer}}, required: [x]},
    output_schema: {type: object, properties: {x: {type: integer}}, required: [x]}}],
  edges: [$input.x -> a.x, a.x -> $output.x]}`
}

// TestPublishedPlansAreSigned: whatever rows say, a worker with a root of trust
// runs what a publisher of the admins has signed, and nothing else.
func TestPublishedPlansAreSigned(t *testing.T) {
	stage.Parallel(t)
	o := stores(t)["postgres, as the engine's role"](t)
	d := deploy(t, &o)
	h := stage.Host(t, host.Options{Store: o, Trust: d.bootstrap})
	store := people(t, h, o)
	publish := func(p ledger.Plan) {
		_, err := store.PublishPlan(t.Context(), p)
		require.NoError(t, err)
	}
	start := func(ref string) error {
		run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
			contract.WorkflowType, contract.Start{Plan: ref, Input: json.RawMessage(`{"x":2}`)})
		require.NoError(t, err)
		return stage.Await(t, h.Client(), run, nil)
	}
	refused := func(ref, why string) {
		t.Helper()
		f := stage.FailureOf(t, start(ref))
		require.Equal(t, contract.Blocked, f.Kind)
		require.Contains(t, f.Message, why)
	}
	good := d.row(t, store, versioned("1"), nil)
	publish(good)
	refused("signed@1", `there is no publisher "fay"`)
	s := d.state(t, store, d.publisher())
	require.NoError(t, start("signed@1"))
	require.NoError(t, start(good.Digest))

	// Rows behind the back.
	unsigned := d.row(t, store, versioned("2"), nil)
	unsigned.Signature = nil
	publish(unsigned)
	refused("signed@2", "signed@2 is in the store without its author's signature")
	borrowed := d.row(t, store, versioned("3"), nil)
	borrowed.Signature = good.Signature
	publish(borrowed)
	refused("signed@3", "the signature is of signed@1, not of signed@3")
	foreign := d.row(t, store, versioned("4"), func(p *trust.Plan) { p.Deployment = "other" })
	publish(foreign)
	refused("signed@4", "the plan is signed for other")
	dev := d.row(t, store, versioned("5"), func(p *trust.Plan) { p.Audience = trust.Dev })
	publish(dev)
	refused(dev.Digest, "(dev), not for test (prod)")
	renamed := d.row(t, store, versioned("1"), func(p *trust.Plan) { p.Name = "renamed" })
	renamed.Name = "renamed"
	publish(renamed)
	refused("renamed@1", "what is published as renamed@1 is the source of signed@1")

	// What a publisher has signed no longer counts once the publisher is revoked.
	s = d.state(t, store, &trust.RevokePublisher{ID: "fay"})
	refused("signed@1", `is signed by "fay", who is revoked since `+s.Issued.String())

	// A statement that the admins have not agreed on ends all trust.
	e, err := s.Draft(time.Now(), &trust.AddPublisher{ID: "eve", Person: "eve", Key: newKey(t).Public(), Uses: []string{trust.UsePlans}}).Envelope(d.ada)
	require.NoError(t, err)
	raw, err := e.Encode()
	require.NoError(t, err)
	list, err := store.Authority(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.StateAuthority(t.Context(), raw, plan.DigestOf(list[len(list)-1])))
	refused("signed@1", "statement 3: 1 of the admins' persons have signed (ada), 2 must")
	_, err = host.New(t.Context(), host.Options{Dev: true, Store: o, Trust: d.bootstrap, Client: client.Options{HostPort: stage.Temporal(t).Address}})
	require.ErrorIs(t, err, trust.ErrInvalid, "no worker begins with it either")

	// What rests on no publication runs: it has no effects.
	run := stage.Start(t, h.Client(), versioned("9"), `{"x":1}`)
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
}

// TestTheStoreAnswersAnother: without a root of trust the store is believed, but for a plan
// that is not the one that was asked for.
func TestTheStoreAnswersAnother(t *testing.T) {
	o := store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	d := deploy(t, &o)
	h := stage.Rehearse(t, host.Options{Store: o})
	row := d.row(t, h.Store().Ledger, versioned("1"), nil)
	row.Name = "other"
	_, err := h.Store().Ledger.PublishPlan(t.Context(), row)
	require.NoError(t, err)
	run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
		contract.WorkflowType, contract.Start{Plan: "other@1", Input: json.RawMessage(`{"x":2}`)})
	require.NoError(t, err)
	f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
	require.Equal(t, contract.Blocked, f.Kind)
	require.Equal(t, "what is published as other@1 is the source of signed@1", f.Message)
}

// TestWorkersPinTheBootstrap: a worker refuses another bootstrap than the pinned
// one, one of another log, and the log's key where the admins have not stated it.
func TestWorkersPinTheBootstrap(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{Dir: filepath.Join(dir, "store")}
	d := deploy(t, &o)
	file := filepath.Join(dir, "bootstrap.json")
	raw, err := json.MarshalIndent(d.bootstrap, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	c := config.Default()
	for _, x := range []struct{ file, pin, want string }{
		{file, "", "trust.pin, the digest that it must have, is not"},
		{"", d.bootstrap.Digest(), "trust.bootstrap is not"},
		{file, plan.DigestOf(nil), "is pinned"},
		{file, "sha256:x", "not sha256: and 64 hex digits"},
		{filepath.Join(dir, "none.json"), d.bootstrap.Digest(), "no such file"},
		{dir, d.bootstrap.Digest(), "is not a regular file"},
	} {
		c.Trust = config.Trust{Bootstrap: x.file, Pin: x.pin}
		_, err := host.Bootstrap(c)
		require.ErrorContains(t, err, x.want)
		_, _, err = host.Settings(c)
		require.ErrorContains(t, err, x.want)
	}
	c.Trust = config.Trust{Bootstrap: file, Pin: d.bootstrap.Digest()}
	b, err := host.Bootstrap(c)
	require.NoError(t, err)
	require.Equal(t, d.bootstrap, b)
	c.Trust = config.Trust{}
	b, err = host.Bootstrap(c)
	require.NoError(t, err)
	require.Nil(t, b)

	begin := func(o store.Options, b *trust.Bootstrap) error {
		_, err := host.New(t.Context(), host.Options{Store: o, Trust: b})
		return err
	}
	require.NoError(t, stage.Rehearse(t, host.Options{Store: o, Trust: d.bootstrap}).Close())
	other := store.Options{Dir: filepath.Join(dir, "other")}
	e := deploy(t, &other)
	require.ErrorContains(t, begin(o, e.bootstrap), "(ledger.key) is not the one that the admins have stated last")
	named := store.Options{Dir: filepath.Join(dir, "named")}
	named.Key, _, err = ledger.NewKey("other.example.com/log")
	require.NoError(t, err)
	require.ErrorContains(t, begin(named, d.bootstrap), `the bootstrap is of the log test.example.com/log, and this one is called "other.example.com/log"`)
	dev := *d.bootstrap
	dev.Audience = trust.Dev
	require.ErrorContains(t, begin(store.Options{Driver: store.Postgres}, &dev), "exists with the embedded store alone")
}

// TestTheLogsKeyIsRotated: after the admins have stated the next key, the log goes
// on with that and with no other.
func TestTheLogsKeyIsRotated(t *testing.T) {
	o := store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	d := deploy(t, &o)
	h := stage.Rehearse(t, host.Options{Store: o, Trust: d.bootstrap})
	d.state(t, h.Store().Ledger, d.publisher())
	_, before := replayed(t, h.Store())
	next, _, err := ledger.NewKey("test.example.com/log")
	require.NoError(t, err)
	key, err := ledger.ParseKey(next)
	require.NoError(t, err)
	d.state(t, h.Store().Ledger, &trust.RotateLog{LogKey: trust.LogKey{Origin: key.Name(), Key: key.Public()}})
	require.NoError(t, h.Close())

	_, err = host.New(t.Context(), host.Options{Store: o, Trust: d.bootstrap})
	require.ErrorContains(t, err, "is not the one that the admins have stated last")
	o.Key = next
	h = stage.Rehearse(t, host.Options{Store: o, Trust: d.bootstrap})
	d.state(t, h.Store().Ledger, &trust.RevokePublisher{ID: "fay"})
	_, after := replayed(t, h.Store())
	require.Greater(t, after.Size, before.Size)
}
