package audit_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/trust"
)

// moved takes the first entry of a kind out of a tale and puts it elsewhere.
func moved(t testing.TB, of tale, kind ledger.Kind, to func(rest tale) int) tale {
	i := of.first(t, kind)
	x := of[i]
	rest := slices.Delete(slices.Clone(of), i, i+1)
	return slices.Insert(rest, to(rest), x)
}

func atTheEnd(rest tale) int { return len(rest) }

func atTheStart(tale) int { return 0 }

// TestMadeOlder: what is added later to a log counts as later, whatever time it says:
// with a witness or an older checkpoint, nothing can be put before what stands there.
func TestMadeOlder(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, d *deployment)
		kind ledger.Kind
		says string
	}{
		"a plan by an author who was revoked": {func(t *testing.T, d *deployment) {
			d.publish(t, "a", d.author, nil)
			d.state(t, &trust.RevokePublisher{ID: "ann"})
		}, ledger.PlanPublished, "by ann, who was revoked at"},
		"a start by a key that was replaced": {func(t *testing.T, d *deployment) {
			d.start(t, "x", d.agent, nil)
			d.state(t, &trust.SetAgentKeys{AgentID: "bot", Keys: []string{}})
		}, ledger.RunOpened, "no key that may act for bot has signed the grant"},
		"an approval by one who was revoked": {func(t *testing.T, d *deployment) {
			key := secret(t)
			d.state(t, signerOf("s", "s", key))
			d.accept(t, d.asks(t, "y"), "s", key)
			d.state(t, &trust.RevokeSigner{ID: "s"})
		}, ledger.ApprovalAccepted, "an approval by s was accepted at"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			c.do(t, d)
			d.start(t, "late", nil, nil)
			d.drain(t)
			d.finds(t, "", "")
			of := d.tale(t)
			// The last run is of some hours later; what is forged is put behind it.
			for _, x := range of.all(ledger.RunChain("late", "r")) {
				x.At = ledger.At(x.At.Time().Add(3 * time.Hour))
			}
			forged := of[of.first(t, c.kind)].At
			of = moved(t, of, c.kind, atTheEnd)
			if c.kind == ledger.RunOpened {
				of = moved(t, of, ledger.RunClosed, atTheEnd) // its end stands behind it
			}
			d.tell(t, of)
			r := d.finds(t, audit.BadAuthority, c.says)
			require.True(t, slices.ContainsFunc(r.Warnings, func(p audit.Problem) bool {
				return p.Kind == audit.BadTime && strings.Contains(p.Message, "an entry is of "+ledger.At(forged.Time().Truncate(time.Second)).String()+", more than 1m0s before those that it follows")
			}), "%v", r.Warnings)
		})
	}
}

// TestNotYet: nobody is what the admins made them before they had stated it.
func TestNotYet(t *testing.T) {
	t.Run("an author", func(t *testing.T) {
		d := newDeployment(t)
		d.publish(t, "a", d.author, nil)
		d.drain(t)
		d.tell(t, moved(t, d.tale(t), ledger.PlanPublished, atTheStart))
		r := d.finds(t, audit.BadAuthority, "the plan a@1 was published by ann, whom the admins had not stated yet")
		require.Zero(t, r.Problems[0].Index)
	})
	t.Run("a key that starts runs", func(t *testing.T) {
		d := newDeployment(t)
		d.start(t, "x", d.agent, nil)
		d.drain(t)
		d.tell(t, moved(t, d.tale(t), ledger.RunOpened, atTheStart))
		d.finds(t, audit.BadAuthority, "no key that may act for bot has signed the grant")
	})
	t.Run("a signer", func(t *testing.T) {
		d := newDeployment(t)
		key := secret(t)
		d.accept(t, d.asks(t, "y"), "s", key)
		d.state(t, signerOf("s", "s", key))
		d.drain(t)
		d.finds(t, audit.BadAuthority, "an approval by s was accepted, whom the admins had not enrolled yet")
	})
}

// TestMeanwhile: what nobody has stated is found, also where it was taken back before
// anybody looked.
func TestMeanwhile(t *testing.T) {
	usd := func(n int64) ledger.Money {
		m, err := ledger.Minor(n, "USD")
		require.NoError(t, err)
		return m
	}
	budget := func(t *testing.T, d *deployment, n int64) {
		require.NoError(t, d.store.SetBudget(t.Context(), ledger.Budget{Agent: "bot", Currency: "USD", Every: ledger.Forever, Limit: usd(n)}))
	}
	tool := func(t *testing.T, d *deployment, status string) {
		require.NoError(t, d.store.RegisterTool(t.Context(), ledger.Tool{ToolID: "bank/pay", Name: "pay", Version: "1", Schema: json.RawMessage(`{}`), Fingerprint: ledger.BodyDigest([]byte("fp")), Status: status}))
	}
	trusted := func(status string) trust.Act {
		return &trust.TrustTool{ToolID: "bank/pay", Fingerprint: ledger.BodyDigest([]byte("fp")), Status: status}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, d *deployment)
		says string
	}{
		"limits that were stated, one after the other": {func(t *testing.T, d *deployment) {
			for _, n := range []int64{100, 50, 200} {
				d.state(t, &trust.SetBudget{Agent: "bot", Currency: "USD", Every: ledger.Forever, Limit: usd(n)})
			}
		}, ""},
		"a limit that was raised for a while": {func(t *testing.T, d *deployment) {
			d.state(t, &trust.SetBudget{Agent: "bot", Currency: "USD", Every: ledger.Forever, Limit: usd(100)})
			budget(t, d, 100_000)
			budget(t, d, 100)
		}, "the budget of bot was set to 1000.00 USD for each forever, which the admins had not stated then"},
		"a limit that will be stated": {func(t *testing.T, d *deployment) {
			budget(t, d, 100)
			d.state(t, &trust.SetBudget{Agent: "bot", Currency: "USD", Every: ledger.Forever, Limit: usd(100)})
		}, "which the admins had not stated then"},
		"a tool, as it was stated": {func(t *testing.T, d *deployment) {
			d.state(t, trusted("allow_auto"))
			tool(t, d, "manual_review")
			require.NoError(t, d.store.TrustTools(t.Context(), "allow_auto", "bank/pay"))
			d.state(t, trusted("block"))
		}, ""},
		"a tool that was trusted for a while": {func(t *testing.T, d *deployment) {
			tool(t, d, "manual_review")
			require.NoError(t, d.store.TrustTools(t.Context(), "allow_auto", "bank/pay"))
			require.NoError(t, d.store.TrustTools(t.Context(), "manual_review", "bank/pay"))
		}, "the tool bank/pay became allow_auto, which the admins had not stated then"},
		"a tool that was blocked, and came back for a while": {func(t *testing.T, d *deployment) {
			tool(t, d, "manual_review")
			d.state(t, trusted("block"))
			require.NoError(t, d.store.TrustTools(t.Context(), "manual_review", "bank/pay"))
			require.NoError(t, d.store.TrustTools(t.Context(), "block", "bank/pay"))
		}, "the tool bank/pay became manual_review, which the admins had not stated then"},
		"a tool that is trusted from the start": {func(t *testing.T, d *deployment) {
			tool(t, d, "allow_auto")
			require.NoError(t, d.store.TrustTools(t.Context(), "block", "bank/pay"))
		}, "the tool bank/pay became allow_auto, which the admins had not stated then"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			c.do(t, d)
			d.drain(t)
			d.finds(t, audit.BadAuthority, c.says)
		})
	}
}

// TestGrantsAreUsedOnce: under whichever name a start grant is kept, and whatever run
// another says that it goes on with.
func TestGrantsAreUsedOnce(t *testing.T) {
	again := func(t *testing.T, d *deployment, root, origin, digest string) {
		first, err := d.store.Run(t.Context(), "x", "r")
		require.NoError(t, err)
		r := first
		r.Root, r.Origin, r.GrantDigest = root, origin, digest
		require.NoError(t, d.store.OpenRun(t.Context(), r))
	}
	digest := func(t *testing.T, d *deployment) string {
		r, err := d.store.Run(t.Context(), "x", "r")
		require.NoError(t, err)
		return r.GrantDigest
	}
	replace := func(t *testing.T, d *deployment) {
		d.state(t, &trust.SetAgentKeys{AgentID: "bot", Keys: []string{}})
		d.start(t, "hours later", nil, nil)
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, d *deployment)
		says string
	}{
		"goes on, after the key was replaced": {func(t *testing.T, d *deployment) {
			replace(t, d)
			again(t, d, "r2", "r", digest(t, d))
		}, ""},
		"kept as another": {func(t *testing.T, d *deployment) { again(t, d, "r2", "r2", ledger.BodyDigest(nil)) }, "the start of x: its start grant is kept as"},
		"kept as none":    {func(t *testing.T, d *deployment) { again(t, d, "r2", "r2", "") }, "the start of x: its start grant is kept as \"\""},
		"goes on with a run that had another": {func(t *testing.T, d *deployment) {
			replace(t, d)
			other := ledger.Run{Workflow: "x", Root: "bare", Origin: "bare", Agent: "bot", PlanDigest: ledger.BodyDigest([]byte("p")), InputDigest: ledger.BodyDigest([]byte("i"))}
			require.NoError(t, d.store.OpenRun(t.Context(), other))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			d.start(t, "x", d.agent, nil)
			c.do(t, d)
			d.drain(t)
			of := d.tale(t)
			for _, x := range append(of.all(ledger.RunChain("hours later", "r")), of.all(ledger.RunChain("x", "r2"))...) {
				x.At = ledger.At(x.At.Time().Add(3 * time.Hour))
			}
			d.tell(t, of)
			d.finds(t, audit.BadAuthority, c.says)
			if strings.Contains(c.says, "kept as") {
				// That shows without a bootstrap.
				d.trust.Bootstrap = nil
				d.finds(t, audit.BadAuthority, c.says)
			}
		})
	}
	t.Run("goes on with a run that is not there", func(t *testing.T) {
		d := newDeployment(t)
		d.start(t, "x", d.agent, nil)
		replace(t, d)
		d.drain(t)
		of := d.tale(t)
		for _, x := range of.all(ledger.RunChain("hours later", "r")) {
			x.At = ledger.At(x.At.Time().Add(3 * time.Hour))
		}
		// The run is made one that goes on with another, behind the replacement.
		for _, x := range of.all(ledger.RunChain("x", "r")) {
			changed(t, x, func(r *ledger.Run) { r.Origin = "gone" })
		}
		of = moved(t, moved(t, of, ledger.RunOpened, atTheEnd), ledger.RunClosed, atTheEnd)
		d.tell(t, of)
		d.finds(t, audit.BadAuthority, "no key that may act for bot has signed the grant")
	})
}

// verifier returns a key under another name.
func verifier(t testing.TB, name, key string) string {
	raw, err := base64.StdEncoding.DecodeString(key)
	require.NoError(t, err)
	out, err := note.NewEd25519VerifierKey(name, raw[1:])
	require.NoError(t, err)
	return out
}

// TestWitnessesAreOthers: a witness counts once, by its key, and the log is none of
// its own.
func TestWitnessesAreOthers(t *testing.T) {
	w := newWorld(t)
	key := func(public string) string { return strings.SplitN(public, "+", 3)[2] }
	_, public, err := ledger.NewKey("one.example.com")
	require.NoError(t, err)
	for name, keys := range map[string][]string{
		"one key under two names": {public, verifier(t, "two.example.com", key(public))},
		"the log's own key":       {verifier(t, "witness.example.com", key(w.key.Public()))},
		"one witness twice":       {public, public},
	} {
		t.Run(name, func(t *testing.T) {
			w.trust.Witnesses, w.trust.Quorum = keys, len(keys)
			_, err := audit.Verify(w.dir, w.trust, nil)
			require.ErrorContains(t, err, "its key is also that of the log, or of another witness")
			boot := newDeployment(t).boot
			boot.Witnesses = trust.Witnesses{Keys: keys, Quorum: len(keys)}
			boot.Log = trust.LogKey{Origin: ledgertest.Origin, Key: w.key.Public()}
			require.Error(t, boot.Check())
		})
	}
	// Nor do statements bring such ones in.
	d := newDeployment(t, public)
	for name, act := range map[string]trust.Act{
		"the log's own key":           &trust.SetWitnesses{Witnesses: trust.Witnesses{Keys: []string{verifier(t, "w", key(d.key.Public()))}, Quorum: 1}},
		"a witness's key for the log": &trust.RotateLog{LogKey: trust.LogKey{Origin: ledgertest.Origin, Key: verifier(t, ledgertest.Origin, key(public))}},
	} {
		s, err := trust.Read(t.Context(), d.store, d.boot)
		require.NoError(t, err)
		require.ErrorContains(t, s.Try(act), "is also that of the log", name)
	}
}

// TestFoldedBootstrap: the bootstrap in a trust file says the same to every reader.
func TestFoldedBootstrap(t *testing.T) {
	d := newDeployment(t)
	good, err := json.Marshal(d.trust)
	require.NoError(t, err)
	_, err = audit.ParseTrust(good)
	require.NoError(t, err)
	boot, err := json.Marshal(d.boot)
	require.NoError(t, err)
	_, err = audit.ParseTrust(boot)
	require.EqualError(t, err, "read trust file: it is a bootstrap, not a trust file")
	for _, change := range [][2]string{{`"quorum":2`, `"quorum":2,"QUORUM":2`}, {`"deployment":`, `"Deployment":`}} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		require.NotEqual(t, string(good), bad)
		_, err := audit.ParseTrust([]byte(bad))
		require.ErrorContains(t, err, "read trust file: ", change[1])
	}
}

// TestPermitsAreVerified: against the guardians that the admins had stated by then, by the
// place in the log.
func TestPermitsAreVerified(t *testing.T) {
	for name, c := range map[string]struct {
		// do states what the admins state of the guardian g, and permits between.
		do   func(t *testing.T, d *deployment, add, revoke trust.Act, permit func(func(*trust.Permit)))
		says string
	}{
		"valid": {func(t *testing.T, d *deployment, add, _ trust.Act, permit func(func(*trust.Permit))) {
			d.state(t, add)
			permit(nil)
		}, ""},
		"revoked afterwards": {func(t *testing.T, d *deployment, add, revoke trust.Act, permit func(func(*trust.Permit))) {
			d.state(t, add)
			permit(nil)
			d.state(t, revoke)
		}, ""},
		"nobody's": {func(_ *testing.T, _ *deployment, _, _ trust.Act, permit func(func(*trust.Permit))) { permit(nil) }, `there is no guardian "g"`},
		"not yet": {func(t *testing.T, d *deployment, add, _ trust.Act, permit func(func(*trust.Permit))) {
			permit(nil)
			d.state(t, add)
		}, "whom the admins had not stated yet"},
		"of another decision": {func(t *testing.T, d *deployment, add, _ trust.Act, permit func(func(*trust.Permit))) {
			d.state(t, add)
			permit(func(p *trust.Permit) { p.Decision = "i/7" })
		}, `rests on the decision "i/7", not on i/1`},
		"of another invocation": {func(t *testing.T, d *deployment, add, _ trust.Act, permit func(func(*trust.Permit))) {
			d.state(t, add)
			permit(func(p *trust.Permit) { p.Invocation = "j" })
		}, `for the invocation "j", not "i"`},
		"of another deployment": {func(t *testing.T, d *deployment, add, _ trust.Act, permit func(func(*trust.Permit))) {
			d.state(t, add)
			permit(func(p *trust.Permit) { p.Deployment = "other" })
		}, `for the deployment "other"`},
		"for longer": {func(t *testing.T, d *deployment, add, _ trust.Act, permit func(func(*trust.Permit))) {
			d.state(t, add)
			permit(func(p *trust.Permit) { p.Expires = ledger.At(p.Expires.Time().Add(time.Second)) })
		}, "and by the ledger until"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			key := secret(t)
			r := ledger.Run{Workflow: "y", Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
			d.grant(t, &r, d.agent, nil)
			require.NoError(t, d.store.OpenRun(t.Context(), r))
			c.do(t, d, &trust.AddGuardian{ID: "g", Key: key.Public()}, &trust.RevokeGuardian{ID: "g"}, func(change func(*trust.Permit)) {
				a := ledgertest.Ask("i", "action")
				a.Life = trust.MaxPermit - time.Second
				_, err := d.store.Authorize(t.Context(), r, a, func(st ledger.Standing) (ledger.Ruling, error) {
					ruling, err := ledgertest.Rule(ledger.Approve)(st)
					require.NoError(t, err)
					p := trust.Permit{Deployment: "example", Audience: trust.Prod, Guardian: "g", Invocation: "i", Decision: st.Decision,
						Call: ledger.BodyDigest([]byte("call")), Issued: st.At, Expires: st.Until}
					if change != nil {
						change(&p)
					}
					ruling.Permit, err = trust.SignPermit(key, p)
					return ruling, err
				})
				require.NoError(t, err)
			})
			d.drain(t)
			if c.says == "" {
				d.finds(t, "", "")
				return
			}
			d.finds(t, audit.BadAuthority, c.says)
		})
	}
	t.Run("no permit at all", func(t *testing.T) {
		d := newDeployment(t)
		r := ledger.Run{Workflow: "y", Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
		require.NoError(t, d.store.OpenRun(t.Context(), r))
		_, err := d.store.Authorize(t.Context(), r, ledgertest.Ask("i", "action"), ledgertest.Rule(ledger.Approve))
		require.NoError(t, err)
		d.drain(t)
		d.finds(t, audit.BadAuthority, "the permit of i: ")
	})
}

// TestProofsAskTheBootstrapsWitnesses: a proof of one entry rests on a checkpoint as
// an export does.
func TestProofsAskTheBootstrapsWitnesses(t *testing.T) {
	secret, public, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	d := newDeployment(t, public)
	d.drain(t)
	records, err := d.store.Records(t.Context(), 0, 1)
	require.NoError(t, err)
	proof, err := audit.Prove(t.Context(), d.store, records[0].Hash)
	require.NoError(t, err)
	_, err = audit.VerifyProof(proof, d.trust)
	require.ErrorContains(t, err, "0 of the known witnesses have cosigned, 1 must")
	witness, err := ledger.NewWitness(secret, d.key.Public(), nil)
	require.NoError(t, err)
	cosigned, err := witness.Cosign(d.read(t, audit.CheckpointFile), nil)
	require.NoError(t, err)
	require.NoError(t, d.store.AddCosignatures(t.Context(), cosigned))
	proof, err = audit.Prove(t.Context(), d.store, records[0].Hash)
	require.NoError(t, err)
	_, err = audit.VerifyProof(proof, d.trust)
	require.NoError(t, err)
}

// TestClockAhead: an entry with a time that the witnesses had not seen is reported.
func TestClockAhead(t *testing.T) {
	w := newWorld(t)
	secret, public, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	w.trust.Witnesses, w.trust.Quorum = []string{public}, 1
	for ahead, told := range map[time.Duration]bool{0: false, 2 * time.Hour: true} {
		w.export(t)
		of := w.tale(t)
		last := of[len(of)-1]
		last.At = ledger.At(last.At.Time().Add(ahead))
		w.tell(t, of)
		witness, err := ledger.NewWitness(secret, w.key.Public(), nil)
		require.NoError(t, err)
		cosigned, err := witness.Cosign(w.read(t, audit.CheckpointFile), nil)
		require.NoError(t, err)
		w.write(t, audit.CheckpointFile, cosigned)
		r := w.verify(t, nil)
		require.True(t, r.OK, "%v", r.Problems)
		require.Equal(t, told, slices.ContainsFunc(r.Warnings, func(p audit.Problem) bool {
			return p.Kind == audit.BadTime && strings.Contains(p.Message, "the store's clock is ahead")
		}), "%v", r.Warnings)
	}
}
