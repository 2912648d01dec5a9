package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// auditParts are the sub-commands of chimera audit.
func auditParts() []command {
	return []command{
		{name: "status", prepare: statusOfLogCommand, summary: "show the log's head, what waits for a place in it, and what its witnesses have cosigned"},
		{name: "checkpoint", prepare: checkpointCommand, summary: "print the log's latest checkpoint"},
		{name: "prove", operands: "HASH", least: 1, most: 1, prepare: proveCommand, summary: "prove that an entry is in the log"},
		{name: "export", prepare: exportCommand, summary: "write the whole log into a new folder"},
		{name: "verify", operands: "DIR|PROOF", least: 1, most: 1, prepare: verifyCommand, completes: files,
			summary: "verify an export, or the proof of an entry, offline"},
		{name: "cosign", operands: "DIR", least: 1, most: 1, prepare: cosignCommand, completes: files,
			summary: "be a witness: cosign the checkpoint in a folder that is shared with the log"},
		{name: "prune", prepare: pruneCommand, summary: "delete the bodies past their retention period"},
		{name: "hold", operands: "RUN", least: 1, most: 1, prepare: holdCommand(true), completes: anyRun, summary: "keep the bodies of a run, or of a chain, whatever their age"},
		{name: "lift", operands: "RUN", least: 1, most: 1, prepare: holdCommand(false), completes: anyRun, summary: "end such a hold"},
		{name: "erase", operands: "[SUBJECT]", most: 1, prepare: eraseCommand, summary: "make what the ledger holds about a person unreadable for ever"},
	}
}

func statusOfLogCommand(p *Program, _ *flag.FlagSet) action {
	return func(ctx context.Context, _ []string) error { return p.auditStatus(ctx, time.Now()) }
}

func checkpointCommand(p *Program, _ *flag.FlagSet) action {
	return func(ctx context.Context, _ []string) error { return p.auditCheckpoint(ctx) }
}

func proveCommand(p *Program, _ *flag.FlagSet) action {
	return func(ctx context.Context, operands []string) error { return p.auditProve(ctx, operands[0]) }
}

func exportCommand(p *Program, fs *flag.FlagSet) action {
	out := fs.String("out", "", "`DIR` to make")
	as := fs.String("as", "native", "`FORM` of the export: native, which verify reads, or cloudevents, for a SIEM")
	from := fs.Int64("from", 0, "`INDEX` of the first entry of an export as cloudevents")
	to := fs.Int64("to", -1, "`INDEX` before which an export as cloudevents ends; without it, at the latest checkpoint")
	return func(ctx context.Context, _ []string) error {
		switch {
		case *as != "native" && *as != "cloudevents":
			return misuse("--as is one of native, cloudevents")
		case *as == "native" && (*from != 0 || *to != -1):
			return misuse("--from and --to belong to --as cloudevents").withHint("A native export is verified from its first entry on; prove HASH proves a single one.")
		case *out == "":
			return misuse("chimera audit export needs --out DIR")
		case *as == "cloudevents":
			return p.auditEvents(ctx, *out, *from, *to)
		}
		return p.auditExport(ctx, *out)
	}
}

func verifyCommand(p *Program, fs *flag.FlagSet) action {
	trust := fs.String("trust", "", "`FILE` with the public keys to trust: from elsewhere, never from the export")
	against := fs.String("against", "", "`FILE` with an older checkpoint, which the log must extend")
	return func(_ context.Context, operands []string) error { return p.auditVerify(operands[0], *trust, *against) }
}

func cosignCommand(p *Program, fs *flag.FlagSet) action {
	var c cosigning
	fs.StringVar(&c.trust, "trust", "", "`FILE` with the log's public key: from elsewhere, never from the folder")
	fs.StringVar(&c.key, "key", "", "`FILE` with the witness's key")
	fs.StringVar(&c.name, "name", "", "`NAME` for a new key, if the file has none")
	fs.StringVar(&c.state, "state", "", "`FILE` that records what was signed last; nobody else may write it")
	return func(_ context.Context, operands []string) error { return p.auditCosign(operands[0], c) }
}

func pruneCommand(p *Program, fs *flag.FlagSet) action {
	reason := reasonFlag(fs)
	return func(ctx context.Context, _ []string) error {
		if len(*reason) > maxReason {
			return errReason
		}
		return p.auditPrune(ctx, *reason)
	}
}

func holdCommand(place bool) func(*Program, *flag.FlagSet) action {
	name := map[bool]string{true: "hold", false: "lift"}[place]
	return func(p *Program, fs *flag.FlagSet) action {
		reason := reasonFlag(fs)
		return func(ctx context.Context, operands []string) error {
			if err := reasoned(name, *reason); err != nil {
				return err
			}
			return p.auditHold(ctx, operands[0], *reason, place)
		}
	}
}

func eraseCommand(p *Program, fs *flag.FlagSet) action {
	reason := reasonFlag(fs)
	lost := fs.Bool("lost", false, "instead of SUBJECT: those whose keys do not open any more, as after an older copy of the database was restored")
	return func(ctx context.Context, operands []string) error {
		if *lost == (len(operands) == 1) {
			return misuse("chimera audit erase needs either SUBJECT or --lost")
		}
		if err := reasoned("erase", *reason); err != nil {
			return err
		}
		if *lost {
			return p.auditErase(ctx, erasure{
				erase:   func(ctx context.Context, store ledger.Retention) error { return store.EraseLost(ctx, *reason) },
				done:    "erased: all persons whose keys did not open any more; what the ledger holds about them cannot be read",
				nothing: negative("all keys of persons open, and nothing was erased"),
			})
		}
		return p.auditErase(ctx, erasure{
			erase: func(ctx context.Context, store ledger.Retention) error {
				return store.EraseSubject(ctx, operands[0], *reason)
			},
			done: "erased: what the ledger holds about that subject can no longer be read",
			nothing: negative("nobody called %q is known to the ledger, and nothing was erased", operands[0]).
				withHint("Names are compared exactly, and somebody already erased is not known any more. If the database is an older copy, see --lost."),
		})
	}
}

func reasonFlag(fs *flag.FlagSet) *string {
	return fs.String("reason", "", "`TEXT` that the log keeps forever; it must not name a person")
}

// reasoned refuses a command without a reason.
func reasoned(part, reason string) error {
	switch {
	case reason == "":
		return misuse("chimera audit %s needs --reason TEXT, which the log keeps", part)
	case len(reason) > maxReason:
		return errReason
	}
	return nil
}

var errReason = misuse("the reason has more than %d bytes", maxReason)

// maxReason bounds a reason, in bytes.
const maxReason = 1000

// signedCheckpoint is the JSON answer of audit checkpoint.
type signedCheckpoint struct {
	Origin     string `json:"origin"`
	Checkpoint string `json:"checkpoint"`
}

func (p *Program) auditCheckpoint(ctx context.Context) error {
	store, log, _, _, err := p.signedLog(ctx)
	if err != nil {
		return err
	}
	raw, err := latestCheckpoint(ctx, store.Origin(), log)
	if err != nil {
		return err
	}
	if p.json() {
		return p.document(signedCheckpoint{store.Origin(), string(raw)})
	}
	p.printf("%s", raw)
	return nil
}

// latestCheckpoint returns the latest checkpoint of a log.
func latestCheckpoint(ctx context.Context, origin string, log ledger.Log) ([]byte, error) {
	raw, err := log.Checkpoint(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, negative("the log of %s has no checkpoint yet", origin).withHint("A worker with role engine that has the log's key signs them.")
	}
	if err != nil {
		return nil, storeError(err)
	}
	return raw, nil
}

func (p *Program) auditProve(ctx context.Context, what string) error {
	origin := ""
	h, err := ledger.ParseHash(what)
	if err != nil {
		if origin, h, err = ledger.ParseReference(what); err != nil {
			return misuse("%s", err).withHint("An entry is named by its hash, or as ledger://ORIGIN/HASH.")
		}
	}
	store, log, _, _, err := p.signedLog(ctx)
	if err != nil {
		return err
	}
	if origin != "" && origin != store.Origin() {
		return negative("the entry is one of the log %s, and the ledger here is that of %s", printable(origin), store.Origin())
	}
	raw, err := p.prove(ctx, log, h)
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
	store, signed, _, _, err := p.signedLog(ctx)
	if err != nil {
		return err
	}
	if _, err := latestCheckpoint(ctx, store.Origin(), signed); err != nil {
		return err
	}
	log, keys, quorum, err := p.witnessed(signed)
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
	p.printf("%s: %s, %s\n", dir, plural(int(x.Entries), "entry"), plural(int(x.Bodies), "body"))
	if x.Lost > 0 {
		p.say("%s: somebody has taken %s out of those that wait for a place; see %s", areLost(x.Lost), agree(int(x.Lost), "it", "them"), audit.LostFile)
	}
	if x.Aside > 0 {
		p.say("%s, since %s: see %s", wereSetAside(x.Aside), agree(int(x.Aside), "it is no entry", "they are no entries"), audit.AsideFile)
	}
	if raw, err := wholefile.Read(filepath.Join(dir, audit.CheckpointFile), ledger.MaxCheckpointBytes); err == nil && quorum > 0 {
		switch have := audit.Cosigners(raw, keys); {
		case have < quorum:
			p.say("its checkpoint has %d of the %d cosignatures that ledger.quorum requires", have, quorum)
		case x.Pending > 0:
			p.say("up to the last checkpoint that enough witnesses have cosigned; %s %s in %s", plural(int(x.Pending), "later entry"), agree(int(x.Pending), "is", "are"), audit.PendingFile)
		}
	}
	p.say("verify it anywhere: %s", p.command("audit", "verify", dir, "--trust", "FILE"))
	return nil
}

// auditEvents exports entries for a SIEM.
func (p *Program) auditEvents(ctx context.Context, dir string, from, to int64) error {
	store, log, _, _, err := p.signedLog(ctx)
	if err != nil {
		return err
	}
	if _, err := latestCheckpoint(ctx, store.Origin(), log); err != nil {
		return err
	}
	x, err := audit.ExportEvents(ctx, log, dir, from, to)
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
	p.say("next export: %s", p.command("audit", "export", "--as", "cloudevents", "--from", fmt.Sprint(x.Next), "--out", "DIR"))
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
			withHint("The file has the public keys, and must not come with the export; chimera dev writes its own to .chimera/trust.json.")
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
		if against != "" {
			return misuse("--against is for an export; a proof has no other entries")
		}
		return p.auditProof(path, trust)
	}
	if !exported(path) {
		return unanswered("%s is no export: there is no %s", path, audit.CheckpointFile)
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
		p.printf("%s", printable(text.String())) // an export holds untrusted text
	}
	if !r.OK {
		return &failure{code: exitNegative}
	}
	return nil
}

// exported reports whether a folder has one of the files that every export has. An export that
// lacks some of them does not verify, and what has none is no export.
func exported(dir string) bool {
	for _, name := range []string{audit.CheckpointFile, audit.EntriesFile, audit.BodiesFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}

// auditProof verifies the proof of one entry.
func (p *Program) auditProof(file string, trust audit.Trust) error {
	raw, err := readProof(file)
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
	if errors.Is(err, audit.ErrNoProof) {
		return negative("%s is not the proof of an entry", file).withHint("To verify an export, give its folder.")
	}
	if err != nil {
		return negative("not verified: %s", err)
	}
	p.printf("verified: entry %d of %d of %s\n%s\n", x.Index, x.Checkpoint.Size, trust.Origin, printable(string(x.Bytes)))
	return nil
}

// readProof reads a file as far as a proof can go, and one byte more.
func readProof(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, audit.MaxProofBytes+1))
	return raw, errors.Join(err, f.Close())
}
