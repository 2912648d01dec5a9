//go:build pkcs11 && cgo

package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/softhsm"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/trust/pkcs11"
)

// tokenConfig is a deployment whose keys are on a token.
const tokenConfig = `
worker: {roles: [engine, tools, guardian, effects], drain: 1s}
store: {origin: test.example.com/log, path: ledger.db, dir: store}
ledger: {key: %q}
guardian: {key: %q}
pkcs11: {module: %q, pin: '${file:pin}'}
trust: {bootstrap: bootstrap.json, pin: %q}
catalog: catalog.yaml
policy: [policy.yaml]
skills: {book: {command: /bin/sh, args: [-c, %q, book], env: {LINES_FILE: %q}}}
`

// onToken is a deployment with effects whose keys are on a token.
type onToken struct {
	acting
	dir   string
	token *softhsm.Token
}

func (d *onToken) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600))
}

// settle configures the keys of the log and of the guardian, and the PIN.
func (d *onToken) settle(t *testing.T, log, guardian, pin string) config.Config {
	t.Helper()
	digest := ""
	if d.Deployment != nil {
		digest = d.Root.Digest()
	}
	d.write(t, "pin", pin+"\n")
	d.write(t, "chimera.yaml", fmt.Sprintf(tokenConfig, log, guardian, d.token.Module, digest, writes, d.lines))
	settings, ds := config.Load(filepath.Join(d.dir, "chimera.yaml"))
	require.Empty(t, ds)
	settings, err := settings.Resolve()
	require.NoError(t, err)
	if d.Deployment == nil {
		return settings
	}
	d.options, ds, err = host.Settings(settings)
	require.NoError(t, err)
	require.False(t, ds.HasErrors(), "%v", ds)
	d.options.Dev, d.options.Client = true, client.Options{HostPort: stage.Temporal(t).Address, Namespace: stage.Temporal(t).Namespace}
	return settings
}

// publics returns the public halves of both keys.
func (d *onToken) publics(t *testing.T, c config.Config) (log trust.LogKey, guardian string) {
	t.Helper()
	l, done, err := host.OpenLogKey(t.Context(), c, "ledger.key", c.Ledger.Key, c.Store.Origin)
	require.NoError(t, err)
	require.NoError(t, done())
	g, done, err := host.OpenKey(t.Context(), c, "guardian.key", c.Guardian.Key)
	require.NoError(t, err)
	require.NoError(t, done())
	return trust.LogKey{Origin: l.Name(), Key: l.Public()}, g.Public()
}

// begins tries to begin with these settings, which fails.
func (d *onToken) begins(t *testing.T) error {
	t.Helper()
	h, err := host.New(t.Context(), d.options)
	require.Nil(t, h)
	return err
}

// TestKeysOnToken: the guardian's key and the log's may be on a token. While it is out,
// effects wait for it, and the log is not signed; nothing is lost. Keys change there as they
// do in files.
func TestKeysOnToken(t *testing.T) {
	d := &onToken{dir: t.TempDir(), token: softhsm.New(t, "T")}
	d.lines = filepath.Join(d.dir, "lines")
	d.write(t, "catalog.yaml", actingCatalog)
	d.write(t, "policy.yaml", actingPolicy)
	log, guardian := d.token.Key(t, "log"), d.token.Key(t, "guardian")
	logKey, guardianKey := d.publics(t, d.settle(t, log, guardian, softhsm.PIN))
	admin := newKey(t)
	root, err := trust.DevBootstrap("test", "ada", admin, logKey, time.Now())
	require.NoError(t, err)
	raw, err := root.Encode()
	require.NoError(t, err)
	d.write(t, "bootstrap.json", string(raw))
	d.Deployment = &stage.Deployment{Root: root, Admin: admin, Author: admin, Starter: admin}

	d.settle(t, log, guardian, "wrong-secret")
	err = d.begins(t)
	require.ErrorIs(t, err, pkcs11.ErrPIN)
	require.True(t, host.Unusable(err))
	require.NotContains(t, err.Error(), "wrong-secret")
	require.NotContains(t, d.options.Secrets.Text("it says wrong-secret"), "wrong-secret", "the PIN is hidden in logs and answers")
	settings := d.settle(t, log, guardian, softhsm.PIN)
	d.again(t)
	t.Cleanup(func() { require.NoError(t, d.h.Close()) })
	keys := []string{admin.Public()}
	d.state(t, &trust.AddPublisher{ID: "ada", Person: "ada", Key: admin.Public(), Uses: []string{trust.UsePlans}},
		&trust.AddAgent{AgentID: "tester", Owner: "ada", Keys: keys, Vouching: keys}, &trust.AddGuardian{ID: "g1", Key: guardianKey})
	digest := d.publish(t, actingPlan)
	ends := func(name string) error {
		return stage.Await(t, d.h.Client(), d.start(t, name, digest, `{"line":"`+name+`"}`), nil)
	}
	require.NoError(t, ends("one"))
	require.Len(t, d.written(t), 1)
	_, before := replayed(t, d.h.Store())

	d.token.TakeOut(t)
	run := d.start(t, "waits", digest, `{"line":"waits"}`)
	stage.Until(t, "the run waits for the token", func() bool {
		for _, w := range stage.State(t, d.h.Client(), run).Waiting {
			if strings.Contains(w.Detail, "the guardian's key: ") && strings.Contains(w.Detail, "the token is away") {
				return true
			}
		}
		return false
	})
	require.Len(t, d.written(t), 1)
	pending, err := d.h.Store().Ledger.Pending(t.Context(), 1)
	require.NoError(t, err)
	require.NotEmpty(t, pending, "nobody signs the log")
	_, _, err = host.OpenKey(t.Context(), settings, "guardian.key", settings.Guardian.Key)
	require.ErrorIs(t, err, pkcs11.ErrAway)
	require.False(t, host.Unusable(err), "a worker that begins now is to be started again")
	d.token.PutBack(t)
	require.NoError(t, stage.Await(t, d.h.Client(), run, nil))
	require.Len(t, d.written(t), 2)
	_, after := replayed(t, d.h.Store())
	require.Greater(t, after.Size, before.Size)

	// The keys change: others on the same token, once the admins have stated them.
	log2, guardian2 := d.token.Key(t, "log-2"), d.token.Key(t, "guardian-2")
	nextLog, nextGuardian := d.publics(t, d.settle(t, log2, guardian2, softhsm.PIN))
	d.settle(t, log, guardian2, softhsm.PIN)
	d.again(t)
	f := stage.FailureOf(t, ends("unstated"))
	require.Equal(t, contract.Blocked, f.Kind)
	require.Contains(t, f.Message, "no statement of the admins lets this guardian's key sign permits")
	d.state(t, &trust.AddGuardian{ID: "g2", Key: nextGuardian}, &trust.RevokeGuardian{ID: "g1"}, &trust.RotateLog{LogKey: nextLog})
	require.NoError(t, d.h.Close())
	d.h = nil
	require.ErrorContains(t, d.begins(t), "is not the one that the admins have stated last")
	d.settle(t, log2, guardian2, softhsm.PIN)
	d.again(t)
	require.NoError(t, ends("two"))
	require.Len(t, d.written(t), 3)
	_, last := replayed(t, d.h.Store())
	require.Greater(t, last.Size, after.Size)
	require.Equal(t, nextLog.Key, d.h.Store().Key.Public())
}
