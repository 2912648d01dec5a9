package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/config"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/trust/sshsig"
)

const (
	// validity is how long a signer is valid unless it is said.
	validity = "365d"
	// maxRootFile bounds a file of certificates, in bytes.
	maxRootFile = 1 << 20
)

// sigTypes are the types of signatures by which people approve.
var sigTypes = []string{trust.SigSSHHardware, trust.SigToken, trust.SigSSH, trust.SigDev}

// signerParts are the sub-commands of chimera signers.
func signerParts() []command {
	return []command{
		{name: "enroll", operands: "ID", least: 1, most: 1, prepare: enrollSignerCommand, summary: "let a person's key approve, by a statement of the admins"},
		{name: "list", summary: "list the signers, and where the store and the admins differ",
			prepare: func(p *Program, _ *flag.FlagSet) action {
				return func(ctx context.Context, _ []string) error { return p.listSigners(ctx) }
			}},
		{name: "revoke", operands: "ID", least: 1, most: 1, prepare: revokeSignerCommand, summary: "end a signer for ever, by a statement of the admins"},
	}
}

func enrollSignerCommand(p *Program, fs *flag.FlagSet) action {
	var roles texts
	var given proof
	person := fs.String("person", "", "`NAME` of the person whose key it is; all keys of a person count as one person")
	fs.Var(&roles, "role", "`ROLE` in which the person approves; may be repeated")
	public := fs.String("public", "", "`FILE` with the public key, or its text: a line of OpenSSH (.pub), PEM, or base64")
	kind := fs.String("type", "", "`TYPE` of the signatures, unless the key says it: "+either(sigTypes))
	valid := fs.String("valid", "", "`TIME` for which the signer is valid from now on, such as 90d, 12w or 2y ("+validity+")")
	until := fs.String("until", "", "last `DATE`, in UTC, on which the signer is valid, or a time in RFC 3339 until which it is; instead of --valid")
	fs.StringVar(&given.attestation, "attestation", "", "`FILE` that ssh-keygen -O write-attestation has made, which proves that a device holds the key; needed in production")
	fs.StringVar(&given.challenge, "challenge", "", "`FILE` that ssh-keygen -O challenge was given, with a challenge that you have chosen for this key")
	fs.Var(&given.roots, "attestation-root", "`FILE` with certificates, in PEM, of makers of devices that you trust; may be repeated (trust.attestation_roots)")
	keys, out := statementFlags(fs)
	return func(ctx context.Context, operands []string) error {
		switch {
		case *person == "":
			return misuse("chimera signers enroll needs --person NAME")
		case len(roles) == 0:
			return misuse("chimera signers enroll needs --role ROLE")
		case *public == "":
			return misuse("chimera signers enroll needs --public FILE")
		case *kind == trust.SigWeb:
			return unsupported("signatures of type %s", trust.SigWeb)
		case *kind != "" && !slices.Contains(sigTypes, *kind):
			return misuse("--type is %s, not %q", either(sigTypes), *kind).meant("--type ", *kind, sigTypes, "")
		}
		k, err := p.signerKeyOf(*public)
		if err != nil {
			return err
		}
		from := time.Now()
		to, err := lastOf(*valid, *until, from)
		if err != nil {
			return err
		}
		_, root, err := p.authority(ctx)
		if err != nil {
			return err
		}
		production := root.bootstrap.Audience != trust.Dev
		act := &trust.EnrollSigner{
			ID: operands[0], Person: *person, Roles: slices.Compact(slices.Sorted(slices.Values(roles))),
			SigType: *kind, PublicKey: k.text, NotBefore: ledger.At(from), NotAfter: ledger.At(to),
		}
		if act.SigType == "" {
			act.SigType = k.kind(production)
		}
		if err := p.attested(k.ssh, given, production, from); err != nil {
			return err
		}
		err = p.propose(ctx, trust.Acts{act}, *keys, *out)
		var refused *failure
		if production && (act.SigType == trust.SigSSH || act.SigType == trust.SigDev) && errors.As(err, &refused) && refused.code == exitNegative {
			return refused.withHint("In production keys are on devices: ssh-keygen -t ed25519-sk makes one on a FIDO device; --type pkcs11 is for one on a PKCS #11 token.")
		}
		return err
	}
}

func revokeSignerCommand(p *Program, fs *flag.FlagSet) action {
	keys, out := statementFlags(fs)
	return func(ctx context.Context, operands []string) error {
		return p.propose(ctx, trust.Acts{&trust.RevokeSigner{ID: operands[0]}}, *keys, *out)
	}
}

// statementFlags adds the flags that say who signs a statement, and where it is written.
func statementFlags(fs *flag.FlagSet) (keys *texts, out *string) {
	keys = new(texts)
	fs.Var(keys, "key", "admin's private `KEY`: a PEM file, a reference such as ${env:NAME}, or the URI of a key on a token, pkcs11:…; may be repeated (in dev mode, dev mode's)")
	return keys, fs.String("out", "", "`FILE` for the statement, if other admins must sign it")
}

// lastOf returns when a signer ends who begins at an instant.
func lastOf(valid, until string, from time.Time) (time.Time, error) {
	if until == "" {
		if valid == "" {
			valid = validity
		}
		d, err := config.Period(valid)
		if err != nil {
			return time.Time{}, misuse("--valid %s", err)
		}
		return from.Add(d), nil
	}
	if valid != "" {
		return time.Time{}, misuse("--valid and --until exclude each other")
	}
	to, err := time.Parse(time.RFC3339, until)
	if err != nil {
		if to, err = time.Parse(time.DateOnly, until); err != nil {
			return to, misuse("--until is a date such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z, not %q", until)
		}
		to = to.AddDate(0, 0, 1)
	}
	if !to.After(from) {
		return to, misuse("--until is in the past: %s", until)
	}
	return to, nil
}

// signerKey is the public key of a person who approves.
type signerKey struct {
	// text is the key in its one form.
	text string
	// ssh is the key if it is one of OpenSSH.
	ssh sshsig.Key
}

// kind returns the type of the signatures that such a key makes.
func (k signerKey) kind(production bool) string {
	switch {
	case k.ssh.Hardware():
		return trust.SigSSHHardware
	case k.ssh != sshsig.Key{}:
		return trust.SigSSH
	case production:
		return trust.SigToken
	}
	return trust.SigDev
}

// signerKeyOf reads the key of --public: its text, or that in a file.
func (p *Program) signerKeyOf(given string) (signerKey, error) {
	k, wrong := parseSignerKey(given)
	if wrong == nil {
		return k, nil
	}
	raw, err := wholefile.Read(given, sshsig.MaxKey)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, misuse("--public: %s is neither a file nor the text of a public key: %s", printable(given), wrong)
	case err != nil:
		return k, misuse("--public: %s", err)
	case strings.Contains(string(raw), "PRIVATE KEY-----"):
		return k, misuse("--public: %s has a private key", given).
			withHint("Give its public half: the .pub file that ssh-keygen has made beside it, or what %s prints.", p.command("trust", "key", "FILE"))
	}
	if k, err = parseSignerKey(string(raw)); err != nil {
		return k, misuse("--public: %s: %s", given, err)
	}
	return k, nil
}

func parseSignerKey(text string) (signerKey, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(trimmed, "-----BEGIN "):
		k, err := trust.ParsePublicPEM([]byte(text))
		return signerKey{text: k.String()}, err
	case len(strings.Fields(trimmed)) > 1:
		k, err := sshsig.ParseKey(text)
		return signerKey{text: k.String(), ssh: k}, err
	}
	k, err := trust.ParsePublic(trimmed)
	return signerKey{text: k.String()}, err
}

// proof names the files that prove that a device holds a key.
type proof struct {
	attestation, challenge string
	roots                  texts
}

// attested verifies the proof that a FIDO device holds a key at an instant. Without a proof
// it fails in production.
func (p *Program) attested(k sshsig.Key, given proof, production bool, at time.Time) error {
	switch {
	case !k.Hardware():
		if given.attestation != "" || given.challenge != "" || len(given.roots) > 0 {
			return misuse("--attestation, --challenge and --attestation-root are for keys on FIDO devices, such as those of ssh-keygen -t ed25519-sk")
		}
		return nil
	case given.attestation == "" && given.challenge == "" && len(given.roots) == 0 && !production:
		return nil
	case given.attestation == "" || given.challenge == "":
		return misuse("a key on a FIDO device needs --attestation and --challenge, which prove that it is there").
			withHint("ssh-keygen -t ed25519-sk -O challenge=FILE -O write-attestation=FILE makes a key with an attestation.")
	}
	settings, err := p.settings()
	if err != nil {
		return err
	}
	what, files := "--attestation-root", []string(given.roots)
	if len(files) == 0 {
		what, files = "trust.attestation_roots", settings.Trust.AttestationRoots
	}
	if len(files) == 0 {
		return misuse("nothing says which makers of devices are trusted: give --attestation-root, or set trust.attestation_roots")
	}
	var roots []*x509.Certificate
	for _, file := range files {
		some, err := certificates(file)
		if err != nil {
			return misuse("%s: %s", what, err)
		}
		roots = append(roots, some...)
	}
	attestation, err := wholefile.Read(given.attestation, sshsig.MaxAttestation)
	if err != nil {
		return misuse("--attestation: %s", err)
	}
	challenge, err := wholefile.Read(given.challenge, sshsig.MaxChallenge)
	if err != nil {
		return misuse("--challenge: %s", err)
	}
	if err := k.Attested(attestation, challenge, roots, at); err != nil {
		return negative("nothing proves that a device holds the key %s: %s", k.ID(), err)
	}
	return nil
}

// certificates reads a file of certificates in PEM.
func certificates(file string) ([]*x509.Certificate, error) {
	raw, err := wholefile.Read(file, maxRootFile)
	if err != nil {
		return nil, err
	}
	var list []*x509.Certificate
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s has something else than certificates: %.40q", file, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", file, len(list)+1, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no certificate in PEM (CERTIFICATE)", file)
	}
	return list, nil
}

// listSigners lists the signers of the store and of the admins' statements. It fails if
// they differ.
func (p *Program) listSigners(ctx context.Context) error {
	over, _, err := p.authority(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, s, err := over.Signers(bounded)
	if err != nil {
		return untrusted(err)
	}
	bad := 0
	for _, v := range list {
		if v.State != authority.Stated && v.State != authority.Revoked {
			bad++
		}
	}
	if p.json() {
		err = p.document(struct {
			OK         bool               `json:"ok"`
			Deployment string             `json:"deployment"`
			Statements int                `json:"statements"`
			Signers    []authority.Signer `json:"signers"`
		}{bad == 0, s.Deployment, s.N, list})
	} else {
		table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "SIGNER\tPERSON\tROLES\tTYPE\tFROM\tUNTIL\tSTATE")
		for _, v := range list {
			roles := strings.Join(v.Roles, ", ")
			if roles == "" {
				roles = "none"
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(v.ID), printable(v.Person), printable(roles), printable(v.SigType), localTime(v.NotBefore), localTime(v.NotAfter), v.State)
		}
		err = table.Flush()
	}
	if err != nil {
		return err
	}
	if bad > 0 {
		p.say("%s not in the store as the admins have stated it", plural(bad, "signer"))
		return &failure{code: exitNegative}
	}
	return nil
}

// localTime writes an instant in local time.
func localTime(t ledger.Time) string { return t.Time().Local().Format(time.DateTime) }
