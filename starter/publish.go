package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// publication is the JSON answer about a published plan.
type publication struct {
	Name         string      `json:"name"`
	Version      string      `json:"version"`
	Digest       string      `json:"plan_digest"`
	SourceDigest string      `json:"source_digest"`
	Author       string      `json:"author"`
	PublishedAt  ledger.Time `json:"published_at"`
	// Signed reports whether its author has signed it.
	Signed bool `json:"signed"`
}

func publishCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	again := fs.Bool("again", false, "compile published plans with the catalog as it is now, and publish those that it has changed: the plans that are named, or all")
	return func(ctx context.Context, operands []string) error {
		if !*again && len(operands) == 0 {
			return misuse("chimera publish needs a PLAN, or --again")
		}
		if countOf(operands, "-") > 1 {
			return misuse("standard input can be read once")
		}
		env, err := p.environment(ctx, *catalogFile, "")
		if err != nil {
			return err
		}
		if *again {
			return p.again(ctx, env, operands)
		}
		sources := make([]compiler.Source, len(operands))
		for i, name := range operands {
			if sources[i], err = p.read(name); err != nil {
				return err
			}
		}
		all, err := p.compileAll(ctx, env, sources)
		if err != nil {
			return err
		}
		return p.publishAll(ctx, all)
	}
}

// compilation is a plan that compiles.
type compilation struct {
	source compiler.Source
	plan   *plan.Plan
	digest string
}

// compileAll compiles plans, and shows the findings. It fails if one of them does not compile, or is
// another one than one before it with its name and version.
func (p *Program) compileAll(ctx context.Context, env *environment, sources []compiler.Source) ([]compilation, error) {
	if len(sources) == 1 {
		compiled, digest, err := p.compile(env, sources[0])
		return []compilation{{sources[0], compiled, digest}}, err
	}
	var all []compilation
	bad := 0
	found, texts := slices.Clone(env.findings), map[string][]byte{}
	for _, src := range sources {
		if ctx.Err() != nil {
			return nil, unanswered("interrupted")
		}
		compiled, ds, digest, err := env.digest(src)
		if err != nil {
			return nil, err
		}
		if compiled == nil {
			bad++
		}
		found = append(found, ds[len(env.findings):]...)
		maps.Copy(texts, env.texts(src))
		all = append(all, compilation{src, compiled, digest})
	}
	if bad > 0 {
		return nil, &failure{code: exitNegative, message: fmt.Sprintf("%d of %s %s not compile: nothing is published", bad, plural(len(all), "plan"), agree(bad, "does", "do")), diagnostics: found, sources: texts}
	}
	if len(found) > 0 && !p.json() {
		p.diagnose(found, texts)
	}
	known := map[string]compilation{}
	for _, c := range all {
		name := c.plan.Name + "@" + c.plan.Version
		if other, ok := known[name]; ok && other.digest != c.digest {
			return nil, negative("%s and %s are two plans with the name and version %s: nothing is published", other.source.Name, c.source.Name, name)
		}
		known[name] = c
	}
	return all, nil
}

// publishAll publishes plans in their order, until one is refused, and prints what was published.
func (p *Program) publishAll(ctx context.Context, all []compilation) error {
	place, err := p.place()
	if err != nil {
		return err
	}
	answers := []*publication{}
	for _, c := range all {
		kept, err := p.publish(ctx, place, c.source, c.plan, c.digest)
		if err != nil {
			if len(answers) > 0 {
				p.say("of %s, %s published", plural(len(all), "plan"), agree(len(answers), "the first was", fmt.Sprintf("the first %d were", len(answers))))
			}
			return err
		}
		answers = append(answers, published(kept))
		if !p.json() {
			p.printf("%s@%s  %s\n", kept.Name, kept.Version, kept.Digest)
			p.say("run it: %s", p.command("start", kept.Name+"@"+kept.Version, "--wait"))
		}
	}
	switch {
	case !p.json():
		return nil
	case len(answers) == 1:
		return p.document(answers[0])
	default:
		return p.document(answers)
	}
}

// published is the answer about a published plan.
func published(kept ledger.Plan) *publication {
	return &publication{kept.Name, kept.Version, kept.Digest, kept.SourceDigest, kept.Author, kept.PublishedAt, len(kept.Signature) > 0}
}

// compile compiles a plan, shows the findings, and returns its digest. It fails if the
// plan does not compile.
func (p *Program) compile(env *environment, src compiler.Source) (*plan.Plan, string, error) {
	compiled, ds, digest, err := env.digest(src)
	if err != nil {
		return nil, "", err
	}
	if compiled == nil {
		return nil, "", &failure{code: exitNegative, message: "the plan does not compile", diagnostics: ds, sources: env.texts(src)}
	}
	if len(ds) > 0 && !p.json() {
		p.diagnose(ds, env.texts(src))
	}
	return compiled, digest, nil
}

// publish stores the source of a plan, signed by its author. It refuses other
// content under the same name and version. Without a root of trust, the plan is
// published unsigned, unless the ledger has statements of admins: there, an auditor
// counts a plan that nobody has signed as a problem for ever.
func (p *Program) publish(ctx context.Context, place *place, src compiler.Source, compiled *plan.Plan, digest string) (ledger.Plan, error) {
	author, err := person("author", place.settings.Author)
	if err != nil {
		return ledger.Plan{}, err
	}
	at, err := place.ledger(ctx, p)
	if err != nil {
		return ledger.Plan{}, err
	}
	root, err := place.trustRoot(ctx, p)
	if err != nil {
		return ledger.Plan{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var key *trust.Key
	if root.bootstrap == nil {
		stated, err := at.Authority(bounded)
		if err != nil {
			return ledger.Plan{}, storeError(err)
		}
		if len(stated) > 0 {
			return ledger.Plan{}, misuse("%s@%s is not published: the ledger has statements of admins, and no root of trust is configured here", compiled.Name, compiled.Version).
				withHint("Set trust.bootstrap, trust.pin and trust.author_key. A plan that nobody has signed would make each later audit verify fail.")
		}
	} else if key, err = root.author(bounded, p, place, at, author); err != nil {
		return ledger.Plan{}, err
	}
	over := authority.Authority{Bootstrap: root.bootstrap, Ledger: at}
	published, err := over.Publish(bounded, authority.Plan{
		Source: src.Text, Digest: digest, Name: compiled.Name, Version: compiled.Version, Agent: compiled.Agent, Author: author,
	}, key)
	var exists *authority.ExistsError
	switch {
	case errors.As(err, &exists):
		return ledger.Plan{}, negative("%s", exists).withHint("Published plans cannot change. Raise the version of the plan.")
	case errors.Is(err, ledger.ErrDenied):
		return ledger.Plan{}, denied(err, "to publish plans", store.Roles.Publisher)
	case err != nil:
		return ledger.Plan{}, untrusted(err)
	}
	if len(published.Signature) == 0 {
		p.say("%s@%s is published unsigned: no root of trust is configured (trust.bootstrap)", compiled.Name, compiled.Version)
	}
	return published, nil
}

// author returns the key that signs plans: the configured one, or dev mode's, after
// stating that the author may publish.
func (r *trustRoot) author(ctx context.Context, p *Program, place *place, store ledger.Store, author string) (*trust.Key, error) {
	if r.dev != nil {
		_, err := r.dev.State(ctx, store, func(s trust.State) []trust.Act {
			if _, ok := s.Publishers[author]; ok {
				return nil
			}
			return []trust.Act{&trust.AddPublisher{ID: author, Person: s.Admins[0].Person, Key: r.dev.Key.Public(), Uses: []string{trust.UsePlans}}}
		})
		if err != nil {
			return nil, untrusted(err)
		}
		return r.dev.Key, nil
	}
	key, err := p.openKey(ctx, place.settings, "trust.author_key", place.settings.Trust.AuthorKey)
	if err != nil {
		return nil, err
	}
	if key == nil {
		return nil, misuse("nobody can sign the plan: trust.author_key is not set").
			withHint("With a root of trust, a plan must be signed by its author.")
	}
	return key, nil
}

// untrusted converts the error of something that is not signed as it must be, or
// cannot be read.
func untrusted(err error) error {
	var key *authority.KeyError
	if errors.Is(err, trust.ErrInvalid) || errors.As(err, &key) {
		return negative("%s", err)
	}
	return storeError(err)
}

// person returns the person configured under a key, or else the machine's user.
func person(key, configured string) (string, error) {
	if configured != "" {
		if key == "requester" && !plan.IsPerson(configured) {
			return "", misuse("%s: %s is not the id of a person", key, printable(configured)).withHint("It has 1 to 256 small letters, digits and . _ @ -.")
		}
		return configured, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", misuse("the user is not known: %s", err).withHint("Set %s (CHIMERA_%s).", key, strings.ToUpper(key))
	}
	return trust.PersonOf(u.Username), nil
}

// published finds a plan by name, name@version or digest.
func (p *Program) published(ctx context.Context, place *place, ref string) (ledger.Plan, error) {
	store, err := place.ledger(ctx, p)
	if err != nil {
		return ledger.Plan{}, err
	}
	root, err := place.trustRoot(ctx, p)
	if err != nil {
		return ledger.Plan{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	over := authority.Authority{Bootstrap: root.bootstrap, Ledger: store}
	published, err := over.Published(bounded, ref)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		f := negative("no plan is published as %s", ref)
		if !strings.HasPrefix(ref, "sha256:") {
			return published, f.withHint("There is no file of this name either. %s publishes one.", p.command("publish", "FILE"))
		}
		return published, f
	case err != nil:
		return published, untrusted(err)
	}
	return published, nil
}
