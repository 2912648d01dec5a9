package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/user"
	"strings"
	"time"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
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
	// Signed: its author has signed it.
	Signed bool `json:"signed"`
}

func publishCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	return func(ctx context.Context, operands []string) error {
		shelf, err := p.shelf(*catalogFile, "")
		if err != nil {
			return err
		}
		src, err := p.read(operands[0])
		if err != nil {
			return err
		}
		compiled, digest, err := p.sound(shelf, src)
		if err != nil {
			return err
		}
		place, err := p.place()
		if err != nil {
			return err
		}
		kept, err := p.publish(ctx, place, src, compiled, digest)
		if err != nil {
			return err
		}
		if p.json() {
			return p.document(publication{kept.Name, kept.Version, kept.Digest, kept.SourceDigest, kept.Author, kept.PublishedAt, len(kept.Signature) > 0})
		}
		p.printf("%s@%s  %s\n", kept.Name, kept.Version, kept.Digest)
		p.say("run it: %s", p.command("start", kept.Name+"@"+kept.Version, "--wait"))
		return nil
	}
}

// sound compiles a plan, shows what was found, and gives its digest.
func (p *Program) sound(shelf *shelf, src compiler.Source) (*plan.Plan, string, error) {
	compiled, ds, err := shelf.compile(src)
	if err != nil {
		return nil, "", err
	}
	if compiled == nil {
		return nil, "", &failure{code: exitNegative, message: "the plan does not compile", diagnostics: ds, sources: shelf.texts(src)}
	}
	if len(ds) > 0 && !p.json() {
		p.diagnose(ds, shelf.texts(src))
	}
	encoded, err := compiled.Encode()
	if err != nil {
		return nil, "", negative("encoding %s: %s", src.Name, err)
	}
	return compiled, plan.DigestOf(encoded), nil
}

// publish keeps the source of a plan, signed by its author. Other content under
// its name and version is a no. Where nothing says whom to trust, nobody signs.
func (p *Program) publish(ctx context.Context, place *place, src compiler.Source, compiled *plan.Plan, digest string) (ledger.Plan, error) {
	author, err := person("author", place.settings.Author)
	if err != nil {
		return ledger.Plan{}, err
	}
	books, err := place.ledger(ctx, p)
	if err != nil {
		return ledger.Plan{}, err
	}
	root, err := place.rooted(ctx, p)
	if err != nil {
		return ledger.Plan{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	row := ledger.Plan{
		Name: compiled.Name, Version: compiled.Version, Digest: digest, SourceDigest: plan.DigestOf(src.Text), Author: author, Agent: compiled.Agent,
	}
	ref := row.Name + "@" + row.Version
	var stated trust.State
	if root.bootstrap == nil {
		p.say("%s is published unsigned: nothing says whom to trust (trust.bootstrap)", ref)
	} else if stated, err = p.sign(bounded, place, books, root, &row); err != nil {
		return ledger.Plan{}, err
	}
	if _, err := books.PutBlob(bounded, src.Text); err != nil {
		return ledger.Plan{}, storeError(err)
	}
	kept, err := books.PublishPlan(bounded, row)
	if errors.Is(err, ledger.ErrConflict) {
		return ledger.Plan{}, negative("%s is published already, with other content (%s)", ref, kept.Digest).
			withHint("What is published stays. Raise the version of the plan.")
	}
	if err != nil {
		return ledger.Plan{}, storeError(err)
	}
	if root.bootstrap != nil {
		if err := trust.Authored(stated, ref, kept); err != nil {
			return ledger.Plan{}, negative("%s is there already: %s", ref, err).withHint("What is published stays. Raise the version of the plan.")
		}
	}
	return kept, nil
}

// sign has the author sign a plan that is to be published, if the admins have
// stated that the author may, and gives what they have stated.
func (p *Program) sign(ctx context.Context, place *place, books ledger.Store, root *rooted, row *ledger.Plan) (trust.State, error) {
	var key *trust.Key
	if root.dev != nil {
		key = root.dev.Key
	} else {
		secret, err := place.settings.AuthorKey()
		if err != nil {
			return trust.State{}, misuse("%s", err)
		}
		if secret == "" {
			return trust.State{}, misuse("nobody can sign the plan: trust.author_key is not set").
				withHint("Where there is a root of trust, its author signs what is published.")
		}
		if key, err = trust.ParseKey([]byte(secret)); err != nil {
			return trust.State{}, misuse("trust.author_key: %s", err)
		}
	}
	s, err := root.state(ctx, books, func(s trust.State) []trust.Act {
		if _, ok := s.Publishers[row.Author]; ok {
			return nil
		}
		return []trust.Act{&trust.AddPublisher{ID: row.Author, Person: s.Admins[0].Person, Key: key.Public(), Uses: []string{trust.UsePlans}}}
	})
	if err != nil {
		return s, untrusted(err)
	}
	row.Signature, err = trust.SignPlan(key, trust.Plan{
		Deployment: s.Deployment, Audience: s.Audience, Author: row.Author, Name: row.Name, Version: row.Version,
		SourceDigest: row.SourceDigest, Digest: row.Digest, Issued: ledger.At(time.Now()),
	})
	if err == nil {
		err = trust.Authored(s, row.Name+"@"+row.Version, *row)
	}
	if err != nil {
		return s, untrusted(err)
	}
	return s, nil
}

// untrusted is the failure of something that is not signed as it must be, or
// cannot be read.
func untrusted(err error) error {
	if errors.Is(err, trust.ErrInvalid) {
		return negative("%s", err)
	}
	return storeError(err)
}

// person is whom the configuration names under a key, or the machine's user.
func person(key, configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", misuse("nobody knows who asks for this: %s", err).withHint("Set %s (CHIMERA_%s).", key, strings.ToUpper(key))
	}
	return u.Username, nil
}

// published finds a plan by name, name@version or digest.
func (p *Program) published(ctx context.Context, place *place, ref string) (ledger.Plan, error) {
	books, err := place.ledger(ctx, p)
	if err != nil {
		return ledger.Plan{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kept, err := books.Plan(bounded, ref)
	if errors.Is(err, ledger.ErrNotFound) {
		f := negative("no plan is published as %s", ref)
		if !strings.HasPrefix(ref, "sha256:") {
			return kept, f.withHint("There is no file of this name either. %s publishes one.", p.command("publish", "FILE"))
		}
		return kept, f
	}
	if err != nil {
		return kept, storeError(fmt.Errorf("finding the plan %s: %w", ref, err))
	}
	root, err := place.rooted(ctx, p)
	if err != nil || root.bootstrap == nil {
		return kept, err
	}
	s, err := trust.Read(bounded, books, root.bootstrap)
	if err != nil {
		return kept, untrusted(err)
	}
	if ref == kept.Name { // the version that was published last
		ref += "@" + kept.Version
	}
	if err := trust.Authored(s, ref, kept); err != nil {
		return kept, untrusted(err)
	}
	return kept, nil
}
