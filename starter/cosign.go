package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/store"
)

// cosigning are the flags of audit cosign.
type cosigning struct{ key, name, state, trust string }

// cosigned is the JSON answer of audit cosign.
type cosigned struct {
	// Witness is the verifier key of this witness.
	Witness string `json:"witness"`
	witness.Answer
}

// auditCosign acts as a witness: it checks the folder that it shares with the log
// once.
func (p *Program) auditCosign(dir string, c cosigning) error {
	if c.key == "" || c.state == "" || c.trust == "" {
		return misuse("chimera audit cosign needs --key FILE, --state FILE and --trust FILE").
			withHint("The key is the witness's own (--name NAME creates it), the state is what it signed last, and the trust file has the log's key.")
	}
	trust, err := trustFrom(c.trust)
	if err != nil {
		return err
	}
	if c.name != "" {
		if err := store.NewKey(c.key, c.name); err != nil {
			return misuse("%s", err)
		}
	}
	secret, err := wholefile.Read(c.key, 4<<10)
	if err != nil {
		return unanswered("%s", err)
	}
	key, err := ledger.ParseKey(string(secret))
	if err != nil {
		return misuse("%s: %s", c.key, err)
	}
	public, err := ledger.CosignatureKey(key.Public())
	if err != nil {
		return misuse("%s: %s", c.key, err)
	}
	if c.name != "" {
		// The log's operator and auditors need the public key.
		if err := os.WriteFile(c.key+".pub", []byte(public+"\n"), 0o644); err != nil {
			return unanswered("%s", err)
		}
	}
	// Two witnesses at once, with one key, could sign two different logs.
	lock, err := devserver.TryLock(c.state + ".lock")
	if err != nil {
		return unanswered("the witness's state %s: %s", c.state, err)
	}
	defer lock.Release()
	answer, err := witness.Cosigner{Secret: string(secret), Log: trust.Log, Dir: dir, State: c.state}.Answer()
	switch {
	case errors.Is(err, witness.ErrRefused):
		return negative("%s", err)
	case errors.Is(err, fs.ErrNotExist) && !exists(dir):
		return unanswered("there is no folder %s, which the witness shares with the log", dir).withHint("The witness's public key, for the log's configuration: %s", public)
	case errors.Is(err, fs.ErrNotExist):
		return unanswered("nobody asks for a cosignature yet: %s", err).withHint("The witness's public key, for the log's configuration: %s", public)
	case err != nil:
		return unanswered("%s", err)
	}
	if p.json() {
		return p.document(cosigned{public, answer})
	}
	if !answer.New {
		p.printf("nothing new: %s has cosigned %s of %s\n", key.Name(), plural(int(answer.Size), "entry"), trust.Origin)
		return nil
	}
	p.printf("cosigned: %s of %s, which %s with the %d before\n", plural(int(answer.Size), "entry"), trust.Origin, agree(int(answer.Size), "begins", "begin"), answer.Before)
	return nil
}

// trustFrom reads a trust file.
func trustFrom(file string) (audit.Trust, error) {
	raw, err := wholefile.Read(file, 1<<20)
	if err != nil {
		return audit.Trust{}, unanswered("%s", err)
	}
	trust, err := audit.ParseTrust(raw)
	if err == nil {
		err = ledger.Signers{Log: trust.Log, Witnesses: trust.Witnesses}.Check()
	}
	if err != nil {
		return audit.Trust{}, unanswered("%s: %s", file, err).
			withHint("A trust file has the public keys of the log and its witnesses, and the bootstrap: chimera trust init --auditors makes it, and chimera dev writes .chimera/trust.json.")
	}
	return trust, nil
}

// witnessed returns the log as the configured quorum of witnesses has seen it, with
// their keys.
func (p *Program) witnessed(store ledger.Log) (log ledger.Log, keys []string, quorum int, err error) {
	settings, err := p.settings()
	if err != nil {
		return nil, nil, 0, err
	}
	for _, w := range settings.Ledger.Witnesses {
		keys = append(keys, w.Key)
	}
	return audit.Witnessed(store, keys, settings.Ledger.Quorum), keys, settings.Ledger.Quorum, nil
}

// prove proves an entry, preferably with a checkpoint that the witnesses have cosigned.
func (p *Program) prove(ctx context.Context, store ledger.Log, h ledger.Hash) ([]byte, error) {
	log, _, quorum, err := p.witnessed(store)
	if err != nil {
		return nil, err
	}
	raw, err := audit.Prove(ctx, log, h)
	if errors.Is(err, ledger.ErrNotFound) && quorum > 0 {
		if raw, err = audit.Prove(ctx, store, h); err == nil {
			p.say("no checkpoint with this entry has %d cosignatures yet", quorum)
		}
	}
	if err != nil {
		return nil, storeError(err)
	}
	return raw, nil
}
