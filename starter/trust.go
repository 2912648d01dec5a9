package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// trustParts are the parts of chimera trust.
func trustParts() []command {
	return []command{
		{name: "key", operands: "FILE|URI", least: 1, most: 1, completes: files, prepare: keyCommand,
			summary: "print the public half of a private key, or of a log key; where there is no file, create a private key in it; a key on a token, pkcs11:…, is not created"},
		{name: "init", prepare: trustInitCommand, summary: "make a bootstrap"},
		{name: "draft", operands: "ACTS", least: 1, most: 1, prepare: draftCommand, completes: files, summary: "make the next statement, from a file of acts"},
		{name: "sign", operands: "FILE", least: 1, most: 1, prepare: signCommand, completes: files, summary: "sign a statement, and show what it says"},
		{name: "apply", operands: "FILE", least: 1, most: 1, completes: files, summary: "apply a statement that enough admins have signed",
			prepare: func(p *Program, _ *flag.FlagSet) action {
				return func(ctx context.Context, operands []string) error { return p.trustApply(ctx, operands[0]) }
			}},
		{name: "list", summary: "show what the admins have stated",
			prepare: func(p *Program, _ *flag.FlagSet) action {
				return func(ctx context.Context, _ []string) error { return p.trustList(ctx) }
			}},
	}
}

// foundation holds the flags of trust init.
type foundation struct {
	deployment string
	admins     texts
	quorum     int
	log        string
	witnesses  texts
	cosigning  int
	auditors   string
	namespaces texts
}

func trustInitCommand(p *Program, fs *flag.FlagSet) action {
	var b foundation
	fs.StringVar(&b.deployment, "deployment", "", "`NAME` of the deployment")
	fs.Var(&b.admins, "admin", "`ID,PERSON,KEY` of an admin, KEY the public key's text or a PEM file; repeat it for each admin")
	fs.IntVar(&b.quorum, "quorum", 2, "`N` people must sign a statement; at least 2")
	fs.StringVar(&b.log, "log", "", "the audit log's public `KEY`, NAME+HASH+…; without it, that of ledger.key")
	fs.Var(&b.witnesses, "witness", "public `KEY` of a witness, NAME+HASH+…; may be repeated")
	fs.IntVar(&b.cosigning, "witness-quorum", 0, "`N` witnesses must cosign a checkpoint")
	fs.StringVar(&b.auditors, "auditors", "", "`FILE` for auditors, which audit verify takes as --trust")
	fs.Var(&b.namespaces, "namespace", "`NAME` of a namespace whose runs count, for the file of --auditors; without it, temporal.namespace; may be repeated")
	out := fs.String("out", "", "`FILE` to write")
	return func(ctx context.Context, _ []string) error { return p.trustInit(ctx, b, *out) }
}

func draftCommand(p *Program, fs *flag.FlagSet) action {
	keys := keysFlag(fs)
	out := fs.String("out", "", "`FILE` to write")
	return func(ctx context.Context, operands []string) error { return p.trustDraft(ctx, operands[0], *keys, *out) }
}

func signCommand(p *Program, fs *flag.FlagSet) action {
	keys := keysFlag(fs)
	return func(ctx context.Context, operands []string) error { return p.trustSign(ctx, operands[0], *keys) }
}

func keysFlag(fs *flag.FlagSet) *texts {
	var keys texts
	fs.Var(&keys, "key", "admin's private `KEY`: a PEM file, a reference such as ${env:NAME}, or the URI of a key on a token, pkcs11:…; may be repeated")
	return &keys
}

// trustInit writes a bootstrap for production.
func (p *Program) trustInit(ctx context.Context, f foundation, out string) error {
	if out == "" || f.deployment == "" || len(f.admins) == 0 {
		return misuse("chimera trust init needs --deployment NAME, --admin ID,PERSON,KEY for each admin, and --out FILE")
	}
	b := &trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: f.deployment, Audience: trust.Prod, Quorum: f.quorum, Issued: ledger.At(time.Now()),
		Witnesses: trust.Witnesses{Keys: append([]string{}, f.witnesses...), Quorum: f.cosigning},
	}
	for _, given := range f.admins {
		parts := strings.SplitN(given, ",", 3)
		if len(parts) != 3 {
			return misuse("--admin %s is not ID,PERSON,KEY", printable(given))
		}
		k, err := publicKey("--admin", parts[2])
		if err != nil {
			return err
		}
		b.Admins = append(b.Admins, trust.Admin{ID: parts[0], Person: parts[1], Key: k.String()})
	}
	log, err := p.logKey(ctx, f.log)
	if err != nil {
		return err
	}
	origin, _, _ := strings.Cut(log, "+")
	b.Log = trust.LogKey{Origin: origin, Key: log}
	if err := b.Check(); err != nil {
		return misuse("%s", err)
	}
	raw, err := indented(b)
	if err == nil {
		err = wholefile.Create(out, raw)
	}
	if err == nil && f.auditors != "" {
		if len(f.namespaces) == 0 {
			settings, err := p.settings()
			if err != nil {
				return err
			}
			f.namespaces = texts{settings.Temporal.Namespace}
		}
		t := audit.Trust{
			Format: audit.TrustFormat, Origin: origin, Log: log, Audience: string(b.Audience), Bootstrap: b,
			Witnesses: f.witnesses, Quorum: f.cosigning, Namespaces: f.namespaces,
		}
		if raw, err = indented(t); err == nil {
			err = wholefile.Create(f.auditors, raw)
		}
	}
	if err != nil {
		return misuse("%s", err)
	}
	if p.json() {
		return p.document(struct {
			File       string `json:"file"`
			Deployment string `json:"deployment"`
			Digest     string `json:"digest"`
		}{out, b.Deployment, b.Digest()})
	}
	p.printf("%s\n", b.Digest())
	p.say("each worker and each person pins it: trust.bootstrap is the file, trust.pin this digest")
	return nil
}

// logKey returns the public half of the log's key: the one given, or the configured
// one.
func (p *Program) logKey(ctx context.Context, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	settings, err := p.settings()
	if err != nil {
		return "", err
	}
	if settings.Ledger.Key.OnToken() {
		key, err := p.openLogKey(ctx, settings, "ledger.key", settings.Ledger.Key, settings.Store.Origin)
		if err != nil {
			return "", err
		}
		return key.Public(), nil
	}
	options, err := host.Store(settings)
	if err != nil {
		return "", misuse("%s", err)
	}
	if options.Key == "" && options.Driver == store.Postgres {
		return "", misuse("the log's key is not known: give --log, or set ledger.key")
	}
	if options.Key != "" {
		key, err := ledger.ParseKey(options.Key)
		if err != nil {
			return "", misuse("ledger.key: %s", err)
		}
		return key.Public(), nil
	}
	at, err := p.placeOf(settings)
	if err != nil {
		return "", err
	}
	if _, err := at.ledger(ctx, p); err != nil {
		return "", err
	}
	return at.opened.Key.Public(), nil
}

// trustDraft makes the next statement from a file of acts.
func (p *Program) trustDraft(ctx context.Context, file string, keys []string, out string) error {
	raw, err := wholefile.Read(file, trust.MaxEnvelope)
	if err != nil {
		return misuse("%s", err)
	}
	acts, err := trust.ParseActs(raw)
	if err != nil {
		return misuse("%s: %s", file, err)
	}
	_, root, err := p.authority(ctx)
	if err != nil {
		return err
	}
	for _, a := range acts {
		if s, ok := a.(*trust.EnrollSigner); ok && s.SigType == trust.SigSSHHardware && root.bootstrap.Audience != trust.Dev {
			return negative("nothing proves that a device holds the key of the signer %s", printable(s.ID)).
				withHint("%s verifies the device's attestation before it makes such a statement.", p.command("signers", "enroll"))
		}
	}
	return p.propose(ctx, acts, keys, out)
}

// trustSign adds signatures to a statement, and shows it. It needs only the file and
// the keys.
func (p *Program) trustSign(ctx context.Context, file string, refs []string) error {
	if len(refs) == 0 {
		return misuse("chimera trust sign needs --key")
	}
	raw, err := wholefile.Read(file, trust.MaxEnvelope)
	if err != nil {
		return misuse("%s", err)
	}
	st, e, err := trust.ParseDraft(raw)
	if err != nil {
		return negative("%s: %s", file, err)
	}
	for _, ref := range refs {
		k, err := p.secretKey(ctx, ref)
		if err == nil {
			err = e.Sign(k)
		}
		if err != nil {
			return err
		}
	}
	if raw, err = e.Encode(); err == nil {
		err = wholefile.Replace(file, append(raw, '\n'))
	}
	if err != nil {
		return misuse("%s", err)
	}
	if p.json() {
		return p.document(struct {
			File       string     `json:"file"`
			Statement  int        `json:"statement"`
			Deployment string     `json:"deployment"`
			Digest     string     `json:"digest"`
			Signatures int        `json:"signatures"`
			Acts       trust.Acts `json:"acts"`
		}{file, st.N, st.Deployment, e.Digest(), len(e.Signatures), st.Acts})
	}
	p.printf("signed: statement %d of %s (%s), %s in all\n", st.N, printable(st.Deployment), st.Audience, plural(len(e.Signatures), "signature"))
	for _, act := range st.Acts {
		raw, err := indented(act)
		if err != nil {
			return unanswered("showing an act: %s", err)
		}
		p.printf("%s %s", act.Kind(), printable(string(raw)))
	}
	return nil
}

// trustApply applies a statement that enough admins have signed.
func (p *Program) trustApply(ctx context.Context, file string) error {
	raw, err := wholefile.Read(file, trust.MaxEnvelope)
	if err != nil {
		return misuse("%s", err)
	}
	if _, _, err := trust.ParseStatement(raw); err != nil {
		return negative("%s: %s", file, err)
	}
	over, _, err := p.authority(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	applied, err := over.Apply(bounded, raw)
	if err != nil {
		return unapplied(err)
	}
	return p.answer(stated(applied, ""))
}

// trustList shows what the admins have stated, from the bootstrap on.
func (p *Program) trustList(ctx context.Context) error {
	over, root, err := p.authority(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := over.State(bounded)
	if err != nil {
		return untrusted(err)
	}
	if p.json() {
		return p.document(stateDocument(root.bootstrap, s))
	}
	p.printf("%s (%s): %s on the bootstrap %s\n", printable(s.Deployment), s.Audience, plural(s.N, "statement"), root.bootstrap.Digest())
	p.printf("admins      %d must sign\n", s.Quorum)
	for _, a := range s.Admins {
		p.printf("  %s, %s\n", printable(a.ID), printable(a.Person))
	}
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			p.printf("%s\n  %s\n", title, printable(strings.Join(lines, "\n  ")))
		}
	}
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(s.Publishers)) {
		v := s.Publishers[id]
		lines = append(lines, fmt.Sprintf("%s, %s: signs %s%s", id, v.Person, strings.Join(v.Uses, " and "), since(v.Revoked)))
	}
	section("publishers", lines)
	lines = nil
	for _, id := range slices.Sorted(maps.Keys(s.Agents)) {
		v := s.Agents[id]
		lines = append(lines, fmt.Sprintf("%s, owned by %s: %s", id, v.Owner, plural(len(v.Keys), "key")))
	}
	section("agents", lines)
	lines = nil
	for _, id := range slices.Sorted(maps.Keys(s.Signers)) {
		v := s.Signers[id]
		lines = append(lines, fmt.Sprintf("%s, %s: %s%s", id, v.Person, strings.Join(v.Now, ", "), since(v.Revoked)))
	}
	section("signers", lines)
	lines = nil
	for _, id := range slices.Sorted(maps.Keys(s.Tools)) {
		lines = append(lines, fmt.Sprintf("%s: %s", id, s.Tools[id].Status))
	}
	section("tools", lines)
	lines = nil
	for _, name := range slices.Sorted(maps.Keys(s.Manifests)) {
		lines = append(lines, fmt.Sprintf("%s: %s, %s", name, s.Manifests[name].Version, s.Manifests[name].Digest))
	}
	section("manifests", lines)
	lines = nil
	for _, name := range slices.Sorted(maps.Keys(s.Waivers)) {
		lines = append(lines, fmt.Sprintf("%s: %s", name, s.Waivers[name].Reason))
	}
	section("waivers of manifests", lines)
	lines = nil
	for _, id := range slices.Sorted(maps.Keys(s.Guardians)) {
		v := s.Guardians[id]
		lines = append(lines, fmt.Sprintf("%s: %s%s", id, v.Key, since(v.Revoked)))
	}
	section("guardians", lines)
	if s.Bundle != "" {
		section("policy", []string{s.Bundle})
	}
	section("log", []string{s.Log().Key})
	return nil
}

func since(revoked *ledger.Time) string {
	if revoked == nil {
		return ""
	}
	return ", revoked since " + revoked.String()
}

// stateDocument is the JSON answer of trust list.
func stateDocument(b *trust.Bootstrap, s trust.State) any {
	type publisher struct {
		trust.AddPublisher
		Revoked *ledger.Time `json:"revoked_at,omitempty"`
	}
	type signer struct {
		trust.EnrollSigner
		Now     []string     `json:"roles_now"`
		Revoked *ledger.Time `json:"revoked_at,omitempty"`
	}
	type guardian struct {
		trust.AddGuardian
		Revoked *ledger.Time `json:"revoked_at,omitempty"`
	}
	doc := struct {
		Deployment string                 `json:"deployment"`
		Audience   trust.Audience         `json:"audience"`
		Bootstrap  string                 `json:"bootstrap"`
		Statements int                    `json:"statements"`
		Head       string                 `json:"head"`
		Issued     ledger.Time            `json:"issued"`
		Quorum     int                    `json:"quorum"`
		Admins     []trust.Admin          `json:"admins"`
		Publishers []publisher            `json:"publishers"`
		Agents     []trust.AddAgent       `json:"agents"`
		Signers    []signer               `json:"signers"`
		Tools      []trust.TrustTool      `json:"tools"`
		Manifests  []trust.AcceptManifest `json:"manifests"`
		Waivers    []trust.WaiveManifest  `json:"waivers"`
		Budgets    []trust.SetBudget      `json:"budgets"`
		Guardians  []guardian             `json:"guardians"`
		Bundle     string                 `json:"bundle,omitempty"`
		LogKeys    []trust.LogKey         `json:"log_keys"`
		Witnesses  trust.Witnesses        `json:"witnesses"`
	}{
		Deployment: s.Deployment, Audience: s.Audience, Bootstrap: b.Digest(), Statements: s.N, Head: s.Head, Issued: s.Issued,
		Quorum: s.Quorum, Admins: s.Admins, Publishers: []publisher{}, Agents: []trust.AddAgent{}, Signers: []signer{},
		Tools: []trust.TrustTool{}, Manifests: []trust.AcceptManifest{}, Waivers: []trust.WaiveManifest{}, Budgets: []trust.SetBudget{},
		Guardians: []guardian{}, Bundle: s.Bundle, LogKeys: s.LogKeys, Witnesses: s.Witnesses,
	}
	for _, name := range slices.Sorted(maps.Keys(s.Manifests)) {
		doc.Manifests = append(doc.Manifests, s.Manifests[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Waivers)) {
		doc.Waivers = append(doc.Waivers, s.Waivers[name])
	}
	for _, id := range slices.Sorted(maps.Keys(s.Publishers)) {
		doc.Publishers = append(doc.Publishers, publisher{s.Publishers[id].AddPublisher, s.Publishers[id].Revoked})
	}
	for _, id := range slices.Sorted(maps.Keys(s.Agents)) {
		doc.Agents = append(doc.Agents, s.Agents[id])
	}
	for _, id := range slices.Sorted(maps.Keys(s.Signers)) {
		v := s.Signers[id]
		doc.Signers = append(doc.Signers, signer{v.EnrollSigner, v.Now, v.Revoked})
	}
	for _, id := range slices.Sorted(maps.Keys(s.Tools)) {
		doc.Tools = append(doc.Tools, s.Tools[id])
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.Budgets), func(a, b trust.BudgetKey) int {
		return strings.Compare(a.Agent+"\x00"+string(a.Currency), b.Agent+"\x00"+string(b.Currency))
	}) {
		doc.Budgets = append(doc.Budgets, s.Budgets[k])
	}
	for _, id := range slices.Sorted(maps.Keys(s.Guardians)) {
		doc.Guardians = append(doc.Guardians, guardian{s.Guardians[id].AddGuardian, s.Guardians[id].Revoked})
	}
	return doc
}
