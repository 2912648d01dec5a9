package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/conform/verdict"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// chain is a source of statements, which may be away.
type chain struct {
	list []json.RawMessage
	away error
}

func (c *chain) Authority(context.Context) ([]json.RawMessage, error) { return c.list, c.away }

// bank is a deployment of development with a manifest of an MCP server.
type bank struct {
	chain
	root             *trust.Bootstrap
	admin, publisher *trust.Key
	file             string
	at               time.Time
}

// printOf is the fingerprint of a tool, made up.
func printOf(name string) string { return plan.DigestOf([]byte(name)) }

// pay is the operation of the tests.
func pay() *plan.Node {
	return &plan.Node{Kind: plan.KindCall, ProviderType: plan.MCP, Provider: "bank", Operation: "pay", Fingerprint: printOf("pay"), Effect: plan.Committing}
}

func newBank(t *testing.T) *bank {
	t.Helper()
	key := func() *trust.Key {
		k, _, err := trust.NewKey()
		require.NoError(t, err)
		return k
	}
	b := &bank{admin: key(), publisher: key(), file: filepath.Join(t.TempDir(), "bank.manifest"), at: time.Now()}
	_, log, err := ledger.NewKey("test.example.com/log")
	require.NoError(t, err)
	b.root, err = trust.DevBootstrap("test", "ada", b.admin, trust.LogKey{Origin: "test.example.com/log", Key: log}, time.Now())
	require.NoError(t, err)
	b.state(t, &trust.AddPublisher{ID: "max", Person: "max", Key: b.publisher.Public(), Uses: []string{trust.UseManifests}, Providers: []string{"bank"}})
	b.accept(t, b.put(t, b.publisher, nil))
	return b
}

func (b *bank) state(t *testing.T, acts ...trust.Act) {
	t.Helper()
	s, err := trust.Read(t.Context(), &b.chain, b.root)
	require.NoError(t, err)
	e, err := s.Draft(time.Now(), acts...).Envelope(b.admin)
	require.NoError(t, err)
	raw, err := e.Encode()
	require.NoError(t, err)
	_, err = s.Next(raw)
	require.NoError(t, err)
	b.list = append(b.list, raw)
}

// put writes a manifest into the file.
func (b *bank) put(t *testing.T, k *trust.Key, change func(*trust.Manifest)) []byte {
	t.Helper()
	m := trust.Manifest{
		Provider: "bank", Version: "1.2.0", Issued: ledger.At(time.Now()),
		Tools: []trust.ManifestTool{{Name: "pay", Fingerprint: printOf("pay"), Effect: plan.Committing}, {Name: "read", Fingerprint: printOf("read"), Effect: plan.Pure}},
	}
	if change != nil {
		change(&m)
	}
	raw, err := trust.SignManifest(k, m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.file, raw, 0o600))
	return raw
}

func (b *bank) accept(t *testing.T, envelope []byte) {
	t.Helper()
	m, digest, err := trust.ReadManifest(envelope)
	require.NoError(t, err)
	b.state(t, &trust.AcceptManifest{Provider: m.Provider, Version: m.Version, Digest: digest})
}

// begin makes what a worker does, whose clock is the bank's.
func (b *bank) begin(t *testing.T, o Options) (*manifests, error) {
	t.Helper()
	if o.Roles == nil {
		o.Roles = []Role{RoleEffects}
	}
	o.Manifests = map[string]string{"bank": b.file}
	var said *trust.Reader
	if o.compiles() {
		said = &trust.Reader{Source: &b.chain, Bootstrap: b.root}
	}
	m, err := newManifests(t.Context(), &o, said)
	if err == nil {
		m.now = func() time.Time { return b.at }
	}
	return m, err
}

// counter counts calls.
type counter struct{ calls int }

func (c *counter) Call(context.Context, activities.Request) (activities.Answer, error) {
	c.calls++
	return activities.Answer{}, nil
}

// TestManifestsFailAtTheStart: a worker does not begin with a manifest that does not count, or with
// a catalog that it does not cover.
func TestManifestsFailAtTheStart(t *testing.T) {
	template := func(change func(*catalog.Template)) *catalog.Catalog {
		n := pay()
		o := catalog.Template{ProviderType: n.ProviderType, Provider: n.Provider, Operation: n.Operation, Fingerprint: n.Fingerprint, Effect: n.Effect}
		if change != nil {
			change(&o)
		}
		return &catalog.Catalog{Templates: []catalog.Template{o}}
	}
	other := func(*testing.T, *bank) {}
	for name, c := range map[string]struct {
		operations *catalog.Catalog
		change     func(*testing.T, *bank)
		want       string
		// alone says what the role tools says, which has no root of trust.
		alone string
	}{
		"good":         {template(nil), other, "", ""},
		"stricter":     {template(func(o *catalog.Template) { o.Effect = plan.Irreversible }), other, "", ""},
		"another's":    {template(func(o *catalog.Template) { o.Provider, o.Operation = "files", "write" }), other, "", ""},
		"a skill":      {template(func(o *catalog.Template) { o.ProviderType, o.Operation = plan.Skill, "x" }), other, "", ""},
		"weaker":       {template(func(o *catalog.Template) { o.Effect = plan.Staged }), other, "bank/pay: not trusted: the tool \"pay\" is said to be staged", "is said to be staged"},
		"changed tool": {template(func(o *catalog.Template) { o.Fingerprint = printOf("x") }), other, "is pinned as", "is pinned as"},
		"not pinned":   {template(func(o *catalog.Template) { o.Fingerprint = "" }), other, "nothing pins the tool", "nothing pins"},
		"unlisted":     {template(func(o *catalog.Template) { o.Operation = "erase" }), other, `has no tool "erase"`, `has no tool "erase"`},
		"no file":      {nil, func(t *testing.T, b *bank) { require.NoError(t, os.Remove(b.file)) }, "(mcpServers.bank.manifest): not trusted: ", "no such file"},
		"no manifest":  {nil, func(t *testing.T, b *bank) { require.NoError(t, os.WriteFile(b.file, []byte("{}"), 0o600)) }, "the envelope", "the envelope"},
		"large": {nil, func(t *testing.T, b *bank) {
			require.NoError(t, os.WriteFile(b.file, make([]byte, trust.MaxManifest+1), 0o600))
		}, "is over", "is over"},
		"another key": {nil, func(t *testing.T, b *bank) { b.put(t, b.admin, nil) }, "no publisher of manifests has signed it", ""},
		"revoked":     {nil, func(t *testing.T, b *bank) { b.state(t, &trust.RevokePublisher{ID: "max"}) }, "was revoked at", ""},
		"of another":  {nil, func(t *testing.T, b *bank) { b.put(t, b.publisher, func(m *trust.Manifest) { m.Provider = "files" }) }, `of the provider "files"`, `of the provider "files"`},
		"older":       {nil, func(t *testing.T, b *bank) { b.put(t, b.publisher, func(m *trust.Manifest) { m.Version = "1.1.0" }) }, "the admins have accepted last", ""},
		"newer":       {nil, func(t *testing.T, b *bank) { b.put(t, b.publisher, func(m *trust.Manifest) { m.Version = "2.0.0" }) }, "the admins have accepted last", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			c.change(t, b)
			for role, want := range map[Role]string{RoleEffects: c.want, RoleTools: c.alone} {
				_, err := b.begin(t, Options{Roles: []Role{role}, Catalog: c.operations})
				if want == "" {
					require.NoError(t, err, role)
					continue
				}
				require.ErrorIs(t, err, trust.ErrInvalid, role)
				require.ErrorContains(t, err, want, role)
			}
		})
	}
}

// TestManifestsSwapped: a running worker calls nothing of a server whose manifest is exchanged, at
// once, or was taken back, within ten seconds.
func TestManifestsSwapped(t *testing.T) {
	b := newBank(t)
	other, _, err := trust.NewKey()
	require.NoError(t, err)
	b.state(t, &trust.AddPublisher{ID: "moe", Person: "moe", Key: other.Public(), Uses: []string{trust.UseManifests}, Providers: []string{"files"}})
	good, err := os.ReadFile(b.file)
	require.NoError(t, err)
	m, err := b.begin(t, Options{})
	require.NoError(t, err)
	did := new(counter)
	call := func(n *plan.Node, kind contract.Kind, says string) {
		t.Helper()
		before := did.calls
		_, err := manifested{did, m}.Call(t.Context(), activities.Request{Node: n})
		if kind == "" {
			require.NoError(t, err)
			require.Equal(t, before+1, did.calls)
			return
		}
		var known *contract.Error
		require.ErrorAs(t, err, &known)
		require.Equal(t, kind, known.Kind)
		require.ErrorContains(t, err, says)
		require.Equal(t, before, did.calls)
	}
	call(pay(), "", "")

	// What the plan pins counts.
	changed := pay()
	changed.Fingerprint = printOf("changed")
	call(changed, contract.Blocked, "is pinned as")
	weak := pay()
	weak.Effect = plan.Pure
	call(weak, contract.Blocked, "is said to be pure")
	call(&plan.Node{ProviderType: plan.Skill, Provider: "bank"}, "", "")
	call(&plan.Node{ProviderType: plan.MCP, Provider: "files", Operation: "write", Effect: plan.Committing}, "", "")

	// The file.
	b.put(t, b.admin, nil)
	call(pay(), contract.Blocked, "no publisher of manifests has signed it")
	next := b.put(t, b.publisher, func(m *trust.Manifest) { m.Version = "1.3.0" })
	call(pay(), contract.Blocked, "the admins have accepted last")
	require.NoError(t, os.Remove(b.file))
	call(pay(), contract.Blocked, "no such file")
	require.NoError(t, os.WriteFile(b.file, good, 0o600))
	call(pay(), "", "")

	// The statements.
	b.accept(t, next)
	call(pay(), "", "")
	b.at = b.at.Add(manifestEvery)
	call(pay(), contract.Blocked, "the admins have accepted last")
	require.NoError(t, os.WriteFile(b.file, next, 0o600))
	call(pay(), "", "")
	require.NoError(t, os.WriteFile(b.file, good, 0o600)) // an older version, which was accepted once
	call(pay(), contract.Blocked, "of version 1.3.0, and this one is")
	b.put(t, other, nil)
	call(pay(), contract.Blocked, `the publisher moe, who has signed it, does not sign manifests of "bank"`)
	b.accept(t, b.put(t, b.publisher, func(m *trust.Manifest) { m.Version, m.Tools = "1.4.0", m.Tools[1:] }))
	b.at = b.at.Add(manifestEvery)
	call(pay(), contract.Blocked, `the manifest of bank 1.4.0 has no tool "pay"`)
	b.accept(t, b.put(t, b.publisher, func(m *trust.Manifest) { m.Version, m.Tools[0].Fingerprint = "1.5.0", printOf("pay more") }))
	b.at = b.at.Add(manifestEvery)
	call(pay(), contract.Blocked, "is pinned as")
	b.accept(t, b.put(t, b.publisher, func(m *trust.Manifest) { m.Version = "1.6.0" }))
	b.at = b.at.Add(manifestEvery)
	call(pay(), "", "")
	b.state(t, &trust.RevokePublisher{ID: "max"})
	call(pay(), "", "")
	b.at = b.at.Add(manifestEvery)
	call(pay(), contract.Blocked, "was revoked at")

	// A store that is away says nothing, and one that withdraws statements is not believed.
	b.away = errors.New("no route")
	call(pay(), contract.Blocked, "was revoked at")
	b.at = b.at.Add(manifestEvery)
	call(pay(), contract.Unsent, "cannot be verified: read authority: no route")
	b.away, b.list = nil, b.list[:2]
	call(pay(), contract.Blocked, "were seen before")
}

// TestBelieving: what the admins do not let be called now is not, whatever they said when the plan
// was compiled.
func TestBelieving(t *testing.T) {
	b := newBank(t)
	did, says, away := new(counter), error(nil), error(nil)
	c := believing{did, &trust.Reader{Source: &b.chain, Bootstrap: b.root}, func() activities.Workbench {
		return activities.Workbench{Away: away, Stated: func(trust.State, *plan.Node) error { return says }}
	}}
	refused := func(kind contract.Kind, want string) {
		t.Helper()
		before := did.calls
		_, err := c.Call(t.Context(), activities.Request{Node: pay()})
		var known *contract.Error
		require.ErrorAs(t, err, &known)
		require.Equal(t, kind, known.Kind)
		require.ErrorContains(t, err, want)
		require.Equal(t, before, did.calls)
	}
	_, err := c.Call(t.Context(), activities.Request{Node: pay()})
	require.NoError(t, err)
	require.Equal(t, 1, did.calls)
	says = errors.New("they have blocked it")
	refused(contract.Blocked, "bank/pay is not called: they have blocked it")
	away = errors.New("the registry is busy")
	refused(contract.StoreUnavailable, "bank/pay is not called: the registry is busy")
	_, err = informed{c.said, c.bench}.State(t.Context())
	require.ErrorIs(t, err, away)
	away = nil
	said, err := informed{c.said, c.bench}.State(t.Context())
	require.NoError(t, err)
	require.NotZero(t, said.N)
	says, b.away = nil, errors.New("no route")
	refused(contract.Unsent, "nobody knows what the admins have stated: read authority: no route")
	b.away, b.list = nil, b.list[:1]
	refused(contract.Blocked, "were seen before")
}

// TestRegistryIsReadAgain: a registry that could not be read is read again, less and less often, until
// it can be; and then what was read holds.
func TestRegistryIsReadAgain(t *testing.T) {
	b := newBank(t)
	i := &imported{said: &trust.Reader{Source: &b.chain, Bootstrap: b.root}, rows: rows{}}
	r := &reader{registry: i, holds: true}
	b.away = fmt.Errorf("no route: %w", ledger.ErrUnavailable)
	for n := range 10 {
		i.read = time.Time{}
		now := r.workbench()
		require.ErrorIs(t, now.Away, ledger.ErrUnavailable)
		require.ErrorContains(t, now.Away, "read the registry of tools: read authority: no route")
		require.Equal(t, min(registryPause<<n, 10*registryEvery), i.pause)
	}
	b.away, i.pause = nil, time.Hour
	require.ErrorIs(t, r.workbench().Away, ledger.ErrUnavailable, "it is not read before its time")
	i.read = time.Time{}
	now := r.workbench()
	require.NoError(t, now.Away)
	require.NotEmpty(t, now.Edition)
	require.Equal(t, registryEvery, i.pause)

	b.away, i.read = ledger.ErrUnavailable, time.Time{}
	again := r.workbench()
	require.NoError(t, again.Away)
	require.Equal(t, now.Edition, again.Edition)
	require.Equal(t, registryEvery, i.pause)
}

// hanging is a source that has its statements, and whose next answers, once it hangs, come when it is let
// go on, or not in time.
type hanging struct {
	chain
	hangs atomic.Bool
	goes  chan struct{}
}

func (h *hanging) Authority(ctx context.Context) ([]json.RawMessage, error) {
	if h.hangs.Load() {
		select {
		case <-h.goes:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ledger.ErrUnavailable, ctx.Err())
		}
	}
	return h.chain.Authority(ctx)
}

// TestRegistryHangs: a reading that does not end holds up no call for longer than registryEvery once there
// was one before, and the next one has not more time for that. What it says counts when it ends.
func TestRegistryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBank(t)
		source := &hanging{chain: b.chain, goes: make(chan struct{})}
		i := &imported{said: &trust.Reader{Source: source, Bootstrap: b.root}, rows: rows{}}
		r := &reader{registry: i, holds: true}
		now := r.workbench()
		require.NoError(t, now.Away)
		b.state(t, &trust.AddPublisher{ID: "eva", Person: "eva", Key: b.admin.Public(), Uses: []string{trust.UseManifests}, Providers: []string{"shop"}})
		source.list = b.list
		source.hangs.Store(true)
		i.read = time.Time{}
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() { require.Equal(t, now.Edition, r.workbench().Edition) })
		}
		calls.Wait()
		i.mu.Lock()
		reading := i.reading
		i.mu.Unlock()
		require.NotNil(t, reading, "it has not ended")
		close(source.goes)
		<-reading
		require.NotEqual(t, now.Edition, r.workbench().Edition)
	})
}

// TestRegistryIsReadForTheFirstTime: what waits for the first reading does not outlast its context.
func TestRegistryIsReadForTheFirstTime(t *testing.T) {
	b := newBank(t)
	source := &hanging{chain: b.chain, goes: make(chan struct{})}
	source.hangs.Store(true)
	i := &imported{said: &trust.Reader{Source: source, Bootstrap: b.root}, rows: rows{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := i.catalog(ctx)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	close(source.goes)
	_, edition, err := i.catalog(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, edition)
}

// rows are a registry's; nil is one that does not answer in time.
type rows []ledger.Tool

func (r rows) Tools(ctx context.Context, _ ...string) ([]ledger.Tool, error) {
	if r == nil {
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", ledger.ErrUnavailable, ctx.Err())
	}
	return r, nil
}

// toolOf is a tool that the bank's server offers, its row, and what the admins say of it.
func toolOf(t *testing.T, effect plan.EffectClass) (rows, *trust.TrustTool) {
	t.Helper()
	tool := &catalog.Template{ProviderType: plan.MCP, Provider: "bank", Operation: "give", Mode: plan.Deter, Effect: effect, Status: plan.AllowAuto,
		TimeoutMS: 1000, InputSchema: json.RawMessage(`{"type":"object"}`), Definition: json.RawMessage(`{"name":"give","inputSchema":{"type":"object"}}`)}
	print, err := fingerprint.Tool(tool.Definition)
	require.NoError(t, err)
	tool.Fingerprint = print.Digest
	act, err := registry.Act(tool)
	require.NoError(t, err)
	return rows{{ToolID: tool.ToolID(), Name: tool.Name(), Schema: tool.Definition, Fingerprint: tool.Fingerprint}}, act
}

// TestRegistryTime: only a registry whose tools take too long has more time, until it was read.
func TestRegistryTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBank(t)
		_, act := toolOf(t, plan.Pure)
		source := &hanging{chain: b.chain}
		source.hangs.Store(true)
		i := &imported{said: &trust.Reader{Source: source, Bootstrap: b.root}, rows: rows(nil)}
		again := func(within time.Duration) {
			i.reading = make(chan struct{})
			i.again(within)
		}
		again(time.Millisecond)
		require.ErrorIs(t, i.failed, ledger.ErrUnavailable)
		require.Equal(t, 2*time.Millisecond, i.within, "nothing was read yet, for whatever reason")
		source.hangs.Store(false)
		again(time.Minute)
		require.NoError(t, i.failed)
		require.Zero(t, i.within)
		source.hangs.Store(true)
		again(time.Millisecond)
		require.Zero(t, i.within, "an outage")
		source.hangs.Store(false)
		b.state(t, act)
		source.list = b.list
		again(100 * time.Millisecond)
		require.Equal(t, 200*time.Millisecond, i.within, "the tools took too long")
		require.NoError(t, i.failed)
		i.rows, _ = toolOf(t, plan.Pure)
		again(time.Minute)
		require.Zero(t, i.within)
		require.Len(t, i.last.Templates, 1)
	})
}

// TestCheckedLate: what is registered is checked as by the start once it can be read.
func TestCheckedLate(t *testing.T) {
	for name, c := range map[string]struct {
		effect          plan.EffectClass
		status          plan.Trust
		refused, logged string
	}{
		"anybody may have its secrets": {plan.Committing, plan.AllowAuto, "read the registry of tools: bank/give commits, and nothing says which roles have the secrets of bank", ""},
		"blocked":                      {plan.Pure, plan.Block, "", "an operation is not called"},
		"good":                         {plan.Pure, plan.AllowAuto, "", "the registry of tools was read"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			var log bytes.Buffer
			h := &Host{options: Options{Production: true, Roles: []Role{RoleEffects}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Servers: map[string]mcp.Server{"bank": {}}}, refused: make(chan error, 1)}
			has, act := toolOf(t, c.effect)
			act.Status = string(c.status)
			b.state(t, act)
			said := &trust.Reader{Source: &b.chain, Bootstrap: b.root}
			h.await(t.Context(), &reader{registry: &imported{said: said, rows: has}}, said, new(catalog.Catalog))
			require.Contains(t, log.String(), c.logged)
			close(h.refused)
			if err := <-h.refused; c.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.refused)
				require.NotContains(t, log.String(), "was read")
			}
		})
	}
}

// TestStatedOfNodes: what counts is what the admins have stated, and what the catalog says now.
func TestStatedOfNodes(t *testing.T) {
	read := catalog.Template{ProviderType: plan.MCP, Provider: "bank", Operation: "read", Mode: plan.Deter, Effect: plan.Pure, Trust: plan.AllowAuto, Status: plan.AllowAuto}
	bench := workbench(&catalog.Catalog{Templates: []catalog.Template{read}}, nil, nil)
	require.NotEmpty(t, bench.Catalog)
	facts, err := read.Facts()
	require.NoError(t, err)
	s := trust.State{Tools: map[string]trust.TrustTool{"bank/read": {ToolID: "bank/read", Status: "allow_auto", Facts: facts}}}
	node := &plan.Node{ProviderType: plan.MCP, Provider: "bank", Operation: "read", Effect: plan.Pure, Trust: plan.AllowAuto}
	require.NoError(t, bench.Stated(s, node))
	require.ErrorContains(t, bench.Stated(trust.State{}, node), "no statement of the admins")
	s.Tools["bank/read"] = trust.TrustTool{ToolID: "bank/read", Status: "block", Facts: facts}
	require.ErrorContains(t, bench.Stated(s, node), "have stated block")
	require.ErrorContains(t, bench.Stated(s, &plan.Node{ProviderType: plan.MCP, Provider: "bank", Operation: "write"}), "the catalog has no operation bank/write")

	read.Effect = plan.Committing
	bench = workbench(&catalog.Catalog{Templates: []catalog.Template{read}}, nil, nil)
	require.ErrorContains(t, bench.Stated(s, node), "the plan says that bank/read is pure, and the catalog that it is committing")
	require.ErrorContains(t, refusing(errors.New("no file")).Stated(s, node), "no file")
	require.NoError(t, refusing(errors.New("no file")).Away)
	require.ErrorIs(t, refusing(fmt.Errorf("read the registry of tools: %w", ledger.ErrUnavailable)).Away, ledger.ErrUnavailable)
}

// TestManifestsOfProductionSwapped: in production a running worker commits nothing by a server whose
// manifest is no longer enough, and does so again once the admins have waived that.
func TestManifestsOfProductionSwapped(t *testing.T) {
	b := newBank(t)
	reported := func(change func(*verdict.Summary)) func(*trust.Manifest) {
		return func(m *trust.Manifest) {
			s := verdict.Summary{Suite: verdict.Suite, ServerFingerprint: printOf("where CI ran")}
			for _, id := range verdict.IDs() {
				s.Cases = append(s.Cases, verdict.Case{ID: id, Verdict: verdict.Passed})
			}
			change(&s)
			var prints []fingerprint.Print
			for _, tool := range m.Tools {
				prints = append(prints, fingerprint.Print{Tool: tool.Name, Digest: tool.Fingerprint})
			}
			var err error
			m.ToolsFingerprint, err = fingerprint.Tools(prints)
			require.NoError(t, err)
			require.NoError(t, m.Conformed(s))
		}
	}
	versions := 2
	// accepted puts a manifest into the file, and has the admins accept it.
	accepted := func(change func(*trust.Manifest)) {
		t.Helper()
		versions++
		b.accept(t, b.put(t, b.publisher, func(m *trust.Manifest) {
			m.Version = fmt.Sprintf("1.%d.0", versions)
			change(m)
		}))
		b.at = b.at.Add(manifestEvery)
	}
	accepted(reported(func(*verdict.Summary) {}))
	m, err := b.begin(t, Options{})
	require.NoError(t, err)
	m.demanding = true
	m.last = map[string]*held{}
	allowed := func(want string) {
		t.Helper()
		err := m.allow(t.Context(), "bank", "pay", printOf("pay"), plan.Committing)
		require.NoError(t, m.allow(t.Context(), "bank", "read", printOf("read"), plan.Pure), "what commits nothing needs no report")
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, trust.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	allowed("")
	for _, c := range []struct {
		change func(*trust.Manifest)
		want   string
	}{
		{func(*trust.Manifest) {}, "has no report of a conformance suite"},
		{reported(func(s *verdict.Summary) { s.Cases = s.Cases[1:] }), "there is no verdict on the case bad-arguments"},
		{reported(func(s *verdict.Summary) { s.Cases[14].Verdict = verdict.Skipped }), "the case unknown-tool was skipped"},
		{reported(func(s *verdict.Summary) { s.Suite = "suite/1" }), `the suite is "suite/1"`},
	} {
		accepted(c.change)
		allowed(c.want)
		b.state(t, &trust.WaiveManifest{Provider: "bank", Reason: "it is ours"})
		allowed(c.want)
		b.at = b.at.Add(manifestEvery)
		allowed("")
	}
	accepted(reported(func(*verdict.Summary) {}))
	allowed("")

	// A report that does not fit its hash is no manifest, whoever has signed it.
	raw, err := os.ReadFile(b.file)
	require.NoError(t, err)
	e, err := trust.ParseEnvelope(raw, trust.ManifestType)
	require.NoError(t, err)
	altered := bytes.Replace(e.Payload, []byte(`"id":"stops","verdict":"passed"`), []byte(`"id":"stops","verdict":"warned"`), 1)
	require.NotEqual(t, e.Payload, altered)
	e = &trust.Envelope{Type: trust.ManifestType, Payload: altered}
	require.NoError(t, e.Sign(b.publisher))
	raw, err = e.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.file, raw, 0o600))
	require.ErrorContains(t, m.allow(t.Context(), "bank", "pay", printOf("pay"), plan.Committing), "the conformance_hash is")
}
