package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/client"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// runRef identifies a started run. Every JSON answer about a run begins with
// its fields.
type runRef struct {
	Run   string `json:"run"`
	RunID string `json:"run_id"`
	Plan  string `json:"plan,omitempty"`
	// Digest is that of the compiled plan, as published or as compiled here.
	Digest string `json:"plan_digest,omitempty"`
	// Granted reports whether the run was started with a start grant.
	Granted   bool   `json:"granted,omitempty"`
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	UI        string `json:"ui,omitempty"`
}

func startCommand(p *Program, fs *flag.FlagSet) action {
	input := fs.String("input", "{}", "`JSON` of the plan's input, @FILE, or - for standard input")
	id := fs.String("id", "", "`ID` of the run; without one, the plan's name and random letters")
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	grant := fs.String("grant", "", "`FILE` with a start grant made elsewhere; without one, trust.start_key signs it")
	subject := fs.String("subject", "", "`NAME` of the person the run is about, as chimera audit erase takes it; preferably a pseudonym")
	wait := fs.Bool("wait", false, "follow the run and print its output; Ctrl-C leaves the run alone")
	return func(ctx context.Context, operands []string) error {
		if !contract.IsSubject(*subject) {
			return misuse("--subject takes at most %d bytes without control characters", contract.MaxSubject)
		}
		o, err := p.order(ctx, operands[0], *input, *id, *catalogFile)
		if err != nil {
			return err
		}
		o.Start.Subject = *subject
		if *grant != "" {
			if o.Start.Grant, err = readGrant(*grant, *id); err != nil {
				return err
			}
		}
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		t, err := p.launch(ctx, conn, o)
		if err != nil {
			return err
		}
		if *wait {
			return p.follow(ctx, conn, t, p.finish)
		}
		if p.json() {
			return p.document(t)
		}
		p.printf("%s\n", t.Run)
		p.say("started %s", t.Plan)
		p.next(t)
		return nil
	}
}

// next shows what to do next with a run.
func (p *Program) next(t runRef) {
	if t.UI != "" {
		p.say("look at it: %s", t.UI)
	}
	p.say("%s", p.runCommands(t.Run))
}

// order is a run to start, checked before anything is sent to the server.
type order struct {
	client.Request
	// plan is the compiled plan of a file, or nil if ref names a published one.
	plan   *plan.Plan
	source compiler.Source
	ref    string
	digest string
	// catalog is the file that ref is compiled against, or "".
	catalog string
	// title is the plan's name@version, and agent is the agent it acts for.
	title, agent string
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	nameForm   = regexp.MustCompile(`^[a-z0-9-]{1,63}(@[0-9A-Za-z.+-]{1,64})?$`)
)

// order compiles the plan and reads the input.
func (p *Program) order(ctx context.Context, target, input, id, catalogFile string) (*order, error) {
	if !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return nil, misuse("--id takes text without control characters, such as line breaks")
	}
	if target != "-" && !exists(target) {
		switch {
		case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(target)) || strings.ContainsAny(target, `/\`):
			return nil, misuse("there is no file %s", target)
		case digestForm.MatchString(target), nameForm.MatchString(target):
			value, err := p.input(input)
			return &order{Request: client.Request{ID: id, Start: contract.Start{Input: value}}, ref: target, catalog: catalogFile}, err
		}
		return nil, misuse("%s is not a file, the name of a plan or a digest", target)
	}
	if target == "-" && input == "-" {
		return nil, misuse("standard input cannot be both the plan and its input")
	}
	value, err := p.input(input)
	if err != nil {
		return nil, err
	}
	env, err := p.environment(ctx, catalogFile, "")
	if err != nil {
		return nil, err
	}
	src, err := p.read(target)
	if err != nil {
		return nil, err
	}
	compiled, digest, err := p.compile(env, src)
	if err != nil {
		return nil, err
	}
	if err := fits(compiled, value); err != nil {
		return nil, err
	}
	return &order{
		Request: client.Request{ID: id, Start: contract.Start{Input: value}},
		plan:    compiled, source: src, digest: digest, title: compiled.Name + "@" + compiled.Version, agent: compiled.Agent,
	}, nil
}

// fits refuses an input that the plan does not accept, with which the run would fail.
func fits(compiled *plan.Plan, input json.RawMessage) error {
	raw := compiled.Schemas[compiled.Nodes[0].OutputSchema].Schema
	schema, err := schemas.Compile(raw)
	if err != nil {
		return negative("the plan's input schema: %s", err)
	}
	if _, err := schema.ValidateJSON(input); err != nil {
		var invalid *schemas.Invalid
		if errors.As(err, &invalid) {
			for i := range invalid.Causes {
				if uris := readable(compiled, raw, invalid.Causes[i].Keyword); uris != nil {
					invalid.Causes[i].Message = "matches none of the patterns " + strings.Join(uris, ", ")
				}
			}
		}
		return negative("the plan's input does not match its schema, and no run was started: %s", err)
	}
	return nil
}

// readable returns the patterns of URIs of the plan's operation on resources whose expression stands at a JSON
// pointer in a schema, or nil.
func readable(compiled *plan.Plan, schema json.RawMessage, keyword string) []string {
	at, err := schemas.Decode(schema)
	if err != nil {
		return nil
	}
	for _, key := range strings.Split(keyword, "/")[1:] {
		in, _ := at.(map[string]any)
		at = in[schemas.Unescape(key)]
	}
	for i := range compiled.Nodes {
		if r := compiled.Nodes[i].Resource; r != nil && at == any(r.Pattern()) {
			return r.URIs
		}
	}
	return nil
}

// publishedFits is like fits for a published plan, if the plan compiles here to the
// published digest. Otherwise the workers, which have the catalog, check the input.
func (p *Program) publishedFits(ctx context.Context, at *place, o *order, published ledger.Plan) error {
	store, err := at.ledger(ctx, p)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := store.GetBlob(bounded, published.SourceDigest)
	if err != nil {
		return storeError(err)
	}
	env, err := p.environment(ctx, o.catalog, "")
	if err != nil {
		return err
	}
	if at.local != nil && env.findings.HasErrors() { // dev mode's worker reads the same files
		return &failure{code: exitNegative, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
	}
	compiled, _, err := env.compile(compiler.Source{Name: o.ref, Text: text})
	if err != nil || compiled == nil {
		return err
	}
	if encoded, err := compiled.Encode(); err != nil || plan.DigestOf(encoded) != published.Digest {
		return nil
	}
	return fits(compiled, o.Start.Input)
}

// resolvePlan makes an order name a published plan, publishing a file first. It sends the
// file itself only if the workers' store is not known, or if dev mode has other
// content under the same version.
func (p *Program) resolvePlan(ctx context.Context, at *place, o *order) error {
	if o.ref != "" {
		published, err := p.published(ctx, at, o.ref)
		if err != nil {
			return err
		}
		if err := p.publishedFits(ctx, at, o, published); err != nil {
			return err
		}
		o.title, o.digest, o.agent = published.Name+"@"+published.Version, published.Digest, published.Agent
		o.Start.Plan = o.title
		if strings.HasPrefix(o.ref, "sha256:") {
			o.Start.Plan = o.ref
		}
		o.ID = cmp.Or(o.ID, published.Name+"-"+strings.ToLower(rand.Text()[:10]))
		return nil
	}
	o.ID = cmp.Or(o.ID, o.plan.Name+"-"+strings.ToLower(rand.Text()[:10]))
	if !at.known {
		o.Start.Source = string(o.source.Text)
		return nil
	}
	_, err := p.publish(ctx, at, o.source, o.plan, o.digest)
	var f *failure
	if at.local != nil && errors.As(err, &f) && f.code == exitNegative {
		if slices.ContainsFunc(o.plan.Nodes, func(n plan.Node) bool { return n.Guarded() }) {
			return f.withHint("A file that is not published may only look. Raise its version, publish it anew with %s if only the catalog or the policy has changed, or start what is published: %s.",
				p.command("publish", "--again", o.plan.Name), p.command("start", o.plan.Name))
		}
		p.say("%s; dev mode runs the file anyway", f.message)
		o.Start.Source = string(o.source.Text)
		return nil
	}
	o.Start.Plan = o.title
	return err
}

// input reads the JSON of a plan's input.
func (p *Program) input(given string) (json.RawMessage, error) {
	return p.jsonOf("--input", given)
}

// jsonOf reads JSON from the command line, a file or standard input.
func (p *Program) jsonOf(name, given string) (json.RawMessage, error) {
	text, from := []byte(given), name
	if file, ok := strings.CutPrefix(given, "@"); ok || given == "-" {
		if !ok {
			file = "-"
		}
		src, err := p.read(file)
		if err != nil {
			return nil, err
		}
		text, from = src.Text, src.Name
	}
	if _, err := schemas.Decode(text); err != nil {
		f := misuse("the input (%s) is not JSON: %s", from, err)
		if name != "--input" {
			f = misuse("what %s gives (%s) is not JSON: %s", name, from, err)
		}
		if from == name && exists(given) {
			return nil, f.withHint("Did you mean %s @%s?", name, given)
		}
		return nil, f
	}
	return text, nil
}

// idInUse returns the failure of a start whose id is or was in use: an id is used once,
// and nothing was started.
func (p *Program) idInUse(e *client.ExistsError) error {
	shows := p.command("status", e.Run) + " shows it."
	switch {
	case e.Type == "":
		return negative("there is a run %s already, and no other was started", e.Run).withHint("%s", shows)
	case e.Type != contract.WorkflowType:
		return negative("%s is a workflow of type %s already, and no run was started", e.Run, e.Type).withHint("Choose another id with --id.")
	case e.State == contract.RunRunning:
		return negative("the run %s is running already, and no other was started: its plan and input are those of its own start", e.Run).
			withHint("%s", shows)
	}
	return negative("the run %s %s already, and no other was started: an id is given once", e.Run, verb(e.State)).
		withHint("%s Choose another id with --id.", shows)
}

// launch starts a run. It refuses an id that a run has or had.
func (p *Program) launch(ctx context.Context, conn *connection, o *order) (runRef, error) {
	if err := p.resolvePlan(ctx, conn.place, o); err != nil {
		return runRef{}, err
	}
	if len(o.Start.Grant) == 0 {
		if err := p.grant(ctx, conn, o); err != nil {
			return runRef{}, err
		}
	}
	if host.ClientSealing(conn.place.settings).Keys == nil {
		o.Summary = o.title // with keys it would be sealed, and a start needs no keys
	}
	run, err := conn.runs.Start(ctx, o.Request)
	var exists *client.ExistsError
	var call *client.CallError
	switch {
	case errors.As(err, &exists):
		return runRef{}, p.idInUse(exists)
	case errors.As(err, &call):
		f := conn.refused(call.What, call.Err)
		if isLate(err) {
			f.withHint("It is not known whether the run was started: %s tells, once Temporal answers.", p.command("status", o.ID))
		}
		return runRef{}, f
	case err != nil:
		return runRef{}, err
	}
	return runRef{
		Run: run.ID, RunID: run.RunID, Plan: o.title, Digest: o.digest,
		Granted: len(o.Start.Grant) > 0, Address: conn.address, Namespace: conn.namespace, UI: conn.page(run.ID, run.RunID),
	}, nil
}
