package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// texts is a flag that may be given several times.
type texts []string

// String implements [pflag.Value].
func (t *texts) String() string { return strings.Join(*t, ", ") }

// Set implements [pflag.Value].
func (t *texts) Set(s string) error {
	*t = append(*t, s)
	return nil
}

// Type implements [pflag.Value].
func (t *texts) Type() string { return "texts" }

// statement is the JSON answer about a statement of admins.
type statement struct {
	// Statement is its number in the chain, and Digest that of the signed content.
	Statement int    `json:"statement"`
	Digest    string `json:"digest"`
	// Applied reports whether it is in effect. Otherwise File holds it until Missing
	// more persons have signed.
	Applied  bool       `json:"applied"`
	File     string     `json:"file,omitempty"`
	SignedBy []string   `json:"signed_by"`
	Missing  int        `json:"missing"`
	Acts     trust.Acts `json:"acts"`
}

// maxSecretKey bounds a private key's file, in bytes.
const maxSecretKey = 4 << 10

// publicKey reads a public key: its text, or a file with the text or with PEM.
func publicKey(what, given string) (trust.Public, error) {
	if k, err := trust.ParsePublic(given); err == nil {
		return k, nil
	}
	raw, err := wholefile.Read(given, maxSecretKey)
	if err != nil {
		return trust.Public{}, misuse("%s: %s is neither the text of a public key nor a file with one", what, printable(given))
	}
	if k, err := trust.ParsePublic(strings.TrimSpace(string(raw))); err == nil {
		return k, nil
	}
	k, err := trust.ParsePublicPEM(raw)
	if err != nil {
		return k, misuse("%s: %s: %s", what, given, err)
	}
	return k, nil
}

// authority returns the authority over the deployment and the root of trust, which
// must be configured.
func (p *Program) authority(ctx context.Context) (*authority.Authority, *trustRoot, error) {
	at, err := p.place()
	if err != nil {
		return nil, nil, err
	}
	root, err := at.trustRoot(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	if root.bootstrap == nil {
		return nil, nil, unanswered("no root of trust is configured").withHint("Set trust.bootstrap and trust.pin; %s makes a bootstrap.", p.command("trust", "init"))
	}
	opened, err := at.ledger(ctx, p)
	return &authority.Authority{Bootstrap: root.bootstrap, Ledger: opened}, root, err
}

// propose makes the next statement of the admins, as [Program.proposed] does, and prints the answer.
func (p *Program) propose(ctx context.Context, acts trust.Acts, refs []string, out string) error {
	a, err := p.proposed(ctx, acts, refs, out)
	if err != nil {
		return err
	}
	return p.answer(a)
}

// proposed makes the next statement of the admins, signed with the keys that refs
// name, or with dev mode's. Without out, the statement takes effect at once, and
// enough persons must have signed it; otherwise it is written to out for others to
// sign.
func (p *Program) proposed(ctx context.Context, acts trust.Acts, refs []string, out string) (a statement, err error) {
	over, root, err := p.authority(ctx)
	if err != nil {
		return a, err
	}
	var keys []*trust.Key
	for _, ref := range refs {
		key, err := p.secretKey(ctx, ref)
		if err != nil {
			return a, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 && root.dev != nil {
		keys = append(keys, root.dev.Key)
	}
	if len(keys) == 0 && out == "" {
		return a, misuse("nobody signs: give --key, or --out for others to sign")
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	proposed, err := over.Propose(bounded, acts, keys...)
	if err != nil {
		return a, untrusted(err)
	}
	switch {
	case out == "" && proposed.Missing() > 0:
		return a, negative("%d of the admins' persons have signed, %d must", proposed.Persons, proposed.Quorum).
			withHint("Write the statement to a file with --out FILE; others sign it with %s.", p.command("trust", "sign", "FILE", "--key", "KEY"))
	case out == "":
		if _, err := over.Apply(bounded, proposed.Envelope); err != nil {
			return a, unapplied(err)
		}
		return stated(proposed, ""), nil
	}
	// The envelope of an unsigned draft has no signatures, so no reader takes it for a
	// signed statement.
	if err := wholefile.Create(out, append(proposed.Envelope, '\n')); err != nil {
		return a, misuse("%s", err)
	}
	return stated(proposed, out), nil
}

// unapplied is the failure of a statement that was to be applied.
func unapplied(err error) error {
	if errors.Is(err, ledger.ErrDenied) {
		return denied(err, "to apply statements", store.Roles.Applier)
	}
	return untrusted(err)
}

// stated returns the answer about a statement, which waits in a file or, without one,
// has been applied.
func stated(s *authority.Statement, file string) statement {
	a := statement{Statement: s.N, Digest: s.Digest, Applied: file == "", File: file, SignedBy: s.SignedBy, Acts: s.Acts}
	if !a.Applied {
		a.Missing = s.Missing()
	}
	return a
}

// answer prints the answer about a statement.
func (p *Program) answer(a statement) error {
	if p.json() {
		return p.document(a)
	}
	for _, act := range a.Acts {
		// Who signs sees the whole.
		if tool, ok := act.(*trust.TrustTool); ok && a.Applied {
			p.printf("%s\n", foreign(summary(tool)))
			continue
		}
		raw, err := json.Marshal(act)
		if err != nil {
			return unanswered("showing an act: %s", err)
		}
		p.printf("%s %s\n", act.Kind(), printable(string(raw)))
	}
	switch {
	case a.Applied:
		p.printf("statement %d counts: %s\n", a.Statement, a.Digest)
	case a.Missing > 0:
		p.printf("statement %d waits in %s for %s more: %s\n", a.Statement, a.File, plural(a.Missing, "person"), a.Digest)
		p.say("another admin signs it: %s", p.command("trust", "sign", a.File, "--key", "KEY"))
	default:
		p.printf("statement %d is signed, in %s: %s\n", a.Statement, a.File, a.Digest)
		p.say("it counts after: %s", p.command("trust", "apply", a.File))
	}
	return nil
}
