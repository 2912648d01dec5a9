package adversary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/ledger/sqlstore"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// Copy is a copy of the deployment's database, on which one attack is made.
type Copy struct {
	*Deployment
	// name is the copy's, and dir a folder for its export.
	name, dir string
}

// On makes a copy and hands it to f.
func (d *Deployment) On(t testing.TB, f func(c *Copy)) {
	t.Helper()
	d.copies++
	from, err := url.Parse(d.Database)
	require.NoError(t, err)
	c := &Copy{Deployment: d, name: fmt.Sprintf("%s_%d", from.Path[1:], d.copies), dir: filepath.Join(t.TempDir(), fmt.Sprint(d.copies))}
	run(t, admin(d.Database), "CREATE DATABASE "+c.name+" TEMPLATE "+from.Path[1:])
	defer run(t, admin(d.Database), "DROP DATABASE "+c.name+" WITH (FORCE)")
	f(c)
}

// as is the connection string of the copy for a user of a role, or for its owner if role is "".
func (c *Copy) as(role string) string {
	if role == "" {
		return place(c.Database, c.name)
	}
	return place(c.users[role], c.name)
}

// open opens the ledger as a user of a role.
func (c *Copy) open(ctx context.Context, role string) (*sqlstore.Store, error) {
	return postgres.Open(ctx, postgres.Options{URL: c.as(role), Origin: c.Root.Log.Origin, Subjects: keyring.At(c.Store.Subjects), Connections: 2})
}

// execute makes the statements of an attack in one transaction.
func execute(ctx context.Context, database string, a *Attack, commit bool) (err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	for _, s := range a.SQL {
		done, err := tx.Exec(ctx, s.Text, s.Args...)
		if err == nil && (done.Update() || done.Delete() || done.Insert()) && done.RowsAffected() == 0 {
			err = errNothing
		}
		if err != nil {
			return errors.Join(err, tx.Rollback(ctx))
		}
	}
	if !commit {
		return tx.Rollback(ctx)
	}
	return tx.Commit(ctx)
}

// errNothing reports a statement that changes no row.
var errNothing = errors.New("it changes nothing")

// Seen is what the honest parts have made of a copy.
type Seen struct {
	// Troubles are what the parts could not do, by part.
	Troubles map[string]string
	// Believed are the rows that the parts would act by, since what the admins or an author have
	// signed covers them: agents, signers, tools, plans.
	Believed map[string]string
	// Aside is how many entries the sequencer has set aside.
	Aside int
	// Exported and Report are the export and its verification. They are empty where there is
	// trouble with those.
	Exported audit.Exported
	Report   audit.Report
}

// The parts in which there may be trouble.
const (
	partStore     = "store"
	partAuthority = "authority"
	partPlans     = "plans"
	partRegistry  = "registry"
	partRuns      = "runs"
	partBarriers  = "barriers"
	partSequencer = "sequencer"
	partExport    = "export"
	partVerify    = "verify"
)

// Trust is what the auditor knows; quorum is how many witnesses must have cosigned.
func (d *Deployment) Trust(quorum int) audit.Trust {
	return audit.Trust{Format: audit.TrustFormat, Origin: d.Root.Log.Origin, Log: d.Root.Log.Key, Witnesses: []string{d.Witness}, Quorum: quorum, Audience: string(d.Root.Audience), Namespaces: []string{client.DefaultNamespace}, Bootstrap: d.Root}
}

// Proceed lets the honest parts go on, and an auditor verify what there is then. Each part has
// its own user of the database.
func (c *Copy) Proceed(t testing.TB, quorum int) *Seen {
	t.Helper()
	s := &Seen{Troubles: map[string]string{}, Believed: map[string]string{}}
	note := func(part string, err error) bool {
		if err != nil {
			s.Troubles[part] = err.Error()
		}
		return err == nil
	}
	ctx := t.Context()
	var stores [3]*sqlstore.Store
	for i, role := range []string{postgres.DefaultRoles.Engine, postgres.DefaultRoles.Guardian, postgres.DefaultRoles.Reader} {
		opened, err := c.open(ctx, role)
		if !note(partStore, err) {
			return s
		}
		defer func() { require.NoError(t, opened.Close()) }()
		stores[i] = opened
	}
	engine, guardian, reader := stores[0], stores[1], stores[2]
	state, err := trust.Read(ctx, engine, c.Root)
	if note(partAuthority, err) {
		note(partPlans, believed(ctx, s.Believed, guardian, state))
		note(partRegistry, templates(ctx, s.Believed, guardian, state))
		note(partRuns, c.begins(t, engine, state))
	}
	sequence := func() error { return integrate(ctx, engine, c.LogKey) }
	note(partRuns, patiently(sequence, func() error { return ends(ctx, engine) }))
	note(partBarriers, patiently(sequence, func() error { return sweep(ctx, guardian) }))
	note(partSequencer, sequence())
	s.Aside, err = aside(ctx, c.as(""))
	require.NoError(t, err)
	s.Exported, err = audit.Export(ctx, audit.Witnessed(reader, []string{c.Witness}, quorum), c.dir)
	if !note(partExport, err) {
		return s
	}
	s.Report, err = audit.Verify(c.dir, c.Trust(quorum), nil)
	note(partVerify, err)
	return s
}

// patiently does something again, as workers do, once the sequencer has set aside what is no entry.
func patiently(sequence, do func() error) error {
	err := do()
	if !errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	if err := sequence(); err != nil {
		return err
	}
	return do()
}

// ends closes all runs that are open, as they are stored.
func ends(ctx context.Context, engine ledger.Store) error {
	open, err := engine.OpenRuns(ctx, "", "", 100)
	if err != nil {
		return err
	}
	var all []error
	for _, r := range open {
		r.State = ledger.RunTerminated
		_, _, err := engine.CloseRun(ctx, r, nil)
		all = append(all, err)
	}
	return errors.Join(all...)
}

// begins opens a run with a start grant, as an engine does: of a plan that its author has signed.
func (c *Copy) begins(t testing.TB, engine ledger.Store, state trust.State) error {
	ctx := t.Context()
	p, err := engine.Plan(ctx, "acts@1")
	if err != nil {
		return err
	}
	if err := trust.Authored(state, "acts@1", p); err != nil {
		return err
	}
	r := ledger.Run{Workflow: "later", Root: "later-root", Origin: "later-root", Agent: "tester", PlanDigest: p.Digest, PlanName: p.Name, PlanVersion: p.Version, InputDigest: ledger.BodyDigest([]byte(`{"line":"later"}`)), Requester: c.Requester}
	r.Grant = c.grantOf(t, c.Starter, r, nil)
	if r.GrantDigest, err = trust.GrantDigest(r.Grant); err != nil {
		return err
	}
	if err := engine.OpenRun(ctx, r); err != nil {
		return err
	}
	return engine.RecordOutcomes(ctx, r.Workflow, r.Root, []ledger.Outcome{{Node: "write", Kind: ledger.NodeSkipped}})
}

// sweep ends what nobody else can, as the guardian does: holds, barriers and calls of runs that
// have ended.
func sweep(ctx context.Context, guardian ledger.Store) error {
	_, err := guardian.ExpireHolds(ctx)
	all, one := guardian.Forsaken(ctx, 100)
	err = errors.Join(err, one)
	for _, b := range all {
		_, one := guardian.CloseBarrier(ctx, b.ID, ledger.BarrierWithdrawn, "the run has ended")
		err = errors.Join(err, one)
	}
	calls, one := guardian.Abandoned(ctx, 100)
	err = errors.Join(err, one)
	for _, i := range calls {
		_, one := guardian.Settle(ctx, i.ID, ledger.Effect{Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Unknown}, Orphaned: true})
		err = errors.Join(err, one)
	}
	return err
}

// integrate gives everything its place.
func integrate(ctx context.Context, engine ledger.Store, secret string) error {
	key, err := ledger.ParseKey(secret)
	if err != nil {
		return err
	}
	release, err := engine.Lead(ctx)
	if err != nil {
		return err
	}
	defer release()
	q := ledger.Sequencer{Store: engine, Key: key, Possible: model.Possible}
	for {
		n, err := q.Integrate(ctx)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// aside counts what the sequencer has set aside, where the ledger has a table for that.
func aside(ctx context.Context, database string) (n int, err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('aside') IS NOT NULL").Scan(&there); err != nil || !there {
		return 0, err
	}
	return n, conn.QueryRow(ctx, "SELECT count(*) FROM aside").Scan(&n)
}

// believed notes the rows that statements and signatures cover.
func believed(ctx context.Context, into map[string]string, s ledger.Store, state trust.State) error {
	put := func(what, id string, row any) error {
		raw, err := json.Marshal(row)
		into[what+" "+id] = string(raw)
		return err
	}
	var all []error
	for id := range state.Agents {
		if row, err := trust.Known(ctx, s, state, id); err == nil {
			all = append(all, put("agent", id, row))
		}
	}
	for id := range state.Signers {
		if row, err := trust.Enrolled(ctx, s, state, id); err == nil {
			all = append(all, put("signer", id, row))
		}
	}
	for id := range state.Tools {
		if row, err := trust.Trusted(ctx, s, state, id); err == nil {
			all = append(all, put("tool", id, row))
		}
	}
	for key := range state.Budgets {
		if row, err := trust.Limited(ctx, s, state, key); err == nil {
			all = append(all, put("budget", key.Agent, row.Limit))
		}
	}
	plans, err := s.ListPlans(ctx, ledger.Page{Limit: 1000})
	for _, p := range plans {
		if trust.Authored(state, p.Digest, p) == nil {
			all = append(all, put("plan", p.Name+"@"+p.Version, p.Digest))
		}
	}
	return errors.Join(append(all, err)...)
}

// templates notes what the catalog has of the tools that are registered and stated.
func templates(ctx context.Context, into map[string]string, s ledger.Store, state trust.State) error {
	all, err := registry.Catalog(ctx, s, state)
	if err != nil {
		return err
	}
	for i := range all.Templates {
		x := &all.Templates[i]
		facts, err := x.Facts()
		if err != nil {
			return err
		}
		into["template "+x.Name()] = x.Fingerprint + " " + string(x.State()) + " " + string(facts)
	}
	return nil
}
