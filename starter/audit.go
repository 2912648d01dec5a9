package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// The parts of chimera audit, with how many operands each takes.
var auditParts = map[string]int{"checkpoint": 0, "prove": 1, "export": 0, "verify": 1, "cosign": 1, "prune": 0, "hold": 1, "lift": 1, "erase": 1}

func auditCommand(p *Program, fs *flag.FlagSet) action {
	out := fs.String("out", "", "`DIR` that export makes")
	as := fs.String("as", "native", "`FORM` of an export: native, which verify reads, or cloudevents, for a SIEM")
	from := fs.Int64("from", 0, "`INDEX` of the first entry of an export as cloudevents")
	to := fs.Int64("to", -1, "`INDEX` before which an export as cloudevents ends; without it, at the latest checkpoint")
	trust := fs.String("trust", "", "`FILE` with the public keys that verify trusts: from elsewhere, never from the export")
	against := fs.String("against", "", "older checkpoint, a `FILE`, that verify holds the log against")
	var cosign cosigning
	fs.StringVar(&cosign.key, "key", "", "`FILE` with the witness's key, for cosign")
	fs.StringVar(&cosign.name, "name", "", "`NAME` for which cosign makes that key, where there is none")
	fs.StringVar(&cosign.state, "state", "", "`FILE` where cosign keeps what it has signed last; nobody else may write there")
	reason := fs.String("reason", "", "`TEXT` that the log keeps for ever: why prune, hold, lift or erase; name no person in it")
	return func(ctx context.Context, operands []string) error {
		what, rest := operands[0], operands[1:]
		acts := slices.Contains([]string{"hold", "lift", "erase"}, what)
		n, known := auditParts[what]
		switch {
		case !known:
			return noPart("audit", what, slices.Sorted(maps.Keys(auditParts)),
				"There are checkpoint, prove HASH, export --out DIR, verify DIR --trust FILE, cosign DIR, prune, hold RUN, lift RUN and erase SUBJECT.")
		case len(rest) != n:
			return misuse("chimera audit %s takes %s", what, plural(n, "operand"))
		case *out != "" && what != "export", *trust != "" && what != "verify" && what != "cosign", *against != "" && what != "verify":
			return misuse("--out belongs to export, --trust and --against to verify")
		case cosign.given() && what != "cosign":
			return misuse("--key, --name and --state belong to cosign")
		case (*as != "native" || *from != 0 || *to != -1) && what != "export":
			return misuse("--as, --from and --to belong to export")
		case *as != "native" && *as != "cloudevents":
			return misuse("--as is one of native, cloudevents")
		case *as == "native" && (*from != 0 || *to != -1):
			return misuse("--from and --to belong to --as cloudevents").withHint("A native export is verified from its first entry on; prove HASH proves a single one.")
		case *reason != "" && !acts && what != "prune":
			return misuse("--reason belongs to prune, hold, lift and erase")
		case *reason == "" && acts:
			return misuse("chimera audit %s needs --reason TEXT, which the log keeps", what)
		case len(*reason) > maxReason:
			return misuse("the reason has more than %d bytes", maxReason)
		}
		switch what {
		case "checkpoint":
			return p.auditCheckpoint(ctx)
		case "prove":
			return p.auditProve(ctx, rest[0])
		case "export":
			if *out == "" {
				return misuse("chimera audit export needs --out DIR")
			}
			if *as == "cloudevents" {
				return p.auditEvents(ctx, *out, *from, *to)
			}
			return p.auditExport(ctx, *out)
		case "cosign":
			cosign.trust = *trust
			return p.auditCosign(rest[0], cosign)
		case "prune":
			return p.auditPrune(ctx, *reason)
		case "hold", "lift":
			return p.auditHold(ctx, rest[0], *reason, what == "hold")
		case "erase":
			return p.auditErase(ctx, rest[0], *reason)
		}
		return p.auditVerify(rest[0], *trust, *against)
	}
}

// maxReason bounds the reason of an act, in bytes.
const maxReason = 1000

// books opens the ledger of the deployment.
func (p *Program) books(ctx context.Context) (ledger.Store, error) {
	at, err := p.place()
	if err != nil {
		return nil, err
	}
	return at.ledger(ctx, p)
}

// signedCheckpoint is the JSON answer of audit checkpoint.
type signedCheckpoint struct {
	Origin     string `json:"origin"`
	Checkpoint string `json:"checkpoint"`
}

func (p *Program) auditCheckpoint(ctx context.Context) error {
	books, err := p.books(ctx)
	if err != nil {
		return err
	}
	raw, err := books.Checkpoint(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return negative("the log of %s has no checkpoint yet", books.Origin()).withHint("A worker with role engine that has the log's key signs them.")
	}
	if err != nil {
		return storeError(err)
	}
	if p.json() {
		return p.document(signedCheckpoint{books.Origin(), string(raw)})
	}
	p.printf("%s", raw)
	return nil
}

func (p *Program) auditProve(ctx context.Context, what string) error {
	h, err := ledger.ParseHash(what)
	if err != nil {
		if _, h, err = ledger.ParseReference(what); err != nil {
			return misuse("%s", err).withHint("An entry is named by its hash, or as ledger://ORIGIN/HASH.")
		}
	}
	books, err := p.books(ctx)
	if err != nil {
		return err
	}
	raw, err := p.prove(ctx, books, h)
	if err != nil {
		return err
	}
	if p.json() {
		return p.document(map[string]string{"hash": h.String(), "proof": string(raw)})
	}
	p.printf("%s", raw)
	return nil
}

func (p *Program) auditExport(ctx context.Context, dir string) error {
	books, err := p.books(ctx)
	if err != nil {
		return err
	}
	log, keys, quorum, err := p.witnessed(books)
	if err != nil {
		return err
	}
	x, err := audit.Export(ctx, log, dir)
	switch {
	case errors.Is(err, os.ErrExist):
		return misuse("%s", err)
	case err != nil:
		return storeError(err)
	}
	if p.json() {
		return p.document(x)
	}
	p.printf("%s: %d entries, %d bodies\n", dir, x.Entries, x.Bodies)
	if raw, err := wholefile.Read(filepath.Join(dir, audit.CheckpointFile), ledger.MaxCheckpointBytes); err == nil && audit.Cosigners(raw, keys) < quorum {
		p.say("its checkpoint has %d of the %d cosignatures that the configuration asks for", audit.Cosigners(raw, keys), quorum)
	}
	p.say("verify it anywhere: %s", p.command("audit", "verify", dir, "--trust", "FILE"))
	return nil
}

// auditEvents exports entries for a SIEM.
func (p *Program) auditEvents(ctx context.Context, dir string, from, to int64) error {
	books, err := p.books(ctx)
	if err != nil {
		return err
	}
	x, err := audit.ExportEvents(ctx, books, dir, from, to)
	switch {
	case errors.Is(err, os.ErrExist), errors.Is(err, audit.ErrRange):
		return misuse("%s", err)
	case err != nil:
		return storeError(err)
	}
	if p.json() {
		return p.document(x)
	}
	p.printf("%s: %s, from entry %d to before %d\n", dir, plural(int(x.Events), "event"), x.From, x.Next)
	p.say("what comes then: %s", p.command("audit", "export", "--as", "cloudevents", "--from", fmt.Sprint(x.Next), "--out", "DIR"))
	return nil
}

// provenEntry is the JSON answer about a proof.
type provenEntry struct {
	OK    bool            `json:"ok"`
	Index int64           `json:"index"`
	Hash  ledger.Hash     `json:"hash"`
	Entry json.RawMessage `json:"entry,omitempty"`
	// Size is how many entries the log had.
	Size   int64  `json:"size"`
	Reason string `json:"reason,omitempty"`
}

func (p *Program) auditVerify(path, trustFile, against string) error {
	if trustFile == "" {
		return unanswered("nothing is verified without --trust FILE").
			withHint("The file has the public keys, and comes from elsewhere than the export; chimera dev writes its own to .chimera/trust.json.")
	}
	trust, err := trustFrom(trustFile)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return unanswered("%s", err)
	}
	if info.Mode().IsRegular() {
		return p.auditProof(path, trust)
	}
	var old []byte
	if against != "" {
		if old, err = wholefile.Read(against, ledger.MaxCheckpointBytes); err != nil {
			return unanswered("%s", err)
		}
	}
	r, err := audit.Verify(path, trust, old)
	if err != nil {
		return unanswered("%s", err)
	}
	if p.json() {
		if err := p.document(r); err != nil {
			return err
		}
	} else {
		var text strings.Builder
		if err := r.WriteText(&text, time.Now()); err != nil {
			return err
		}
		p.printf("%s", printable(text.String())) // what an export says of itself is strangers' text
	}
	if !r.OK {
		return &failure{code: exitNegative}
	}
	return nil
}

// auditProof verifies the proof of one entry.
func (p *Program) auditProof(file string, trust audit.Trust) error {
	raw, err := wholefile.Read(file, audit.MaxProofBytes)
	if err != nil {
		return unanswered("%s", err)
	}
	x, err := audit.VerifyProof(raw, trust)
	if err != nil && !errors.Is(err, ledger.ErrProof) && !errors.Is(err, ledger.ErrCheckpoint) {
		return unanswered("%s", err)
	}
	if p.json() {
		answer := provenEntry{OK: err == nil, Index: x.Index, Hash: x.Hash, Entry: x.Bytes, Size: x.Checkpoint.Size}
		if err != nil {
			answer.Reason = err.Error()
		}
		if err := p.document(answer); err != nil {
			return err
		}
		if !answer.OK {
			return &failure{code: exitNegative}
		}
		return nil
	}
	if err != nil {
		return negative("not verified: %s", err)
	}
	p.printf("verified: entry %d of %d of %s\n%s\n", x.Index, x.Checkpoint.Size, trust.Origin, printable(string(x.Bytes)))
	return nil
}
