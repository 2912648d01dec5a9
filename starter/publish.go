package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/user"
	"strings"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// publication is the JSON answer about a published plan.
type publication struct {
	Name         string      `json:"name"`
	Version      string      `json:"version"`
	Digest       string      `json:"plan_digest"`
	SourceDigest string      `json:"source_digest"`
	Author       string      `json:"author"`
	PublishedAt  ledger.Time `json:"published_at"`
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
			return p.document(publication{kept.Name, kept.Version, kept.Digest, kept.SourceDigest, kept.Author, kept.PublishedAt})
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

// publish keeps the source of a plan. Other content under its name and version
// is a no.
func (p *Program) publish(ctx context.Context, place *place, src compiler.Source, compiled *plan.Plan, digest string) (ledger.Plan, error) {
	author, err := p.author()
	if err != nil {
		return ledger.Plan{}, err
	}
	books, err := place.ledger(ctx, p)
	if err != nil {
		return ledger.Plan{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	source, err := books.PutBlob(bounded, src.Text)
	if err != nil {
		return ledger.Plan{}, storeError(err)
	}
	kept, err := books.PublishPlan(bounded, ledger.Plan{
		Name: compiled.Name, Version: compiled.Version, Digest: digest, SourceDigest: source, Author: author, Agent: compiled.Agent,
	})
	if errors.Is(err, ledger.ErrConflict) {
		return ledger.Plan{}, negative("%s@%s is published already, with other content (%s)", compiled.Name, compiled.Version, kept.Digest).
			withHint("What is published stays. Raise the version of the plan.")
	}
	if err != nil {
		return ledger.Plan{}, storeError(err)
	}
	return kept, nil
}

// author is who publishes: whom the configuration names, or the machine's user.
func (p *Program) author() (string, error) {
	settings, err := p.settings()
	if err != nil {
		return "", err
	}
	if settings.Author != "" {
		return settings.Author, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", misuse("nobody knows who publishes: %s", err).withHint("Set author (CHIMERA_AUTHOR).")
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
	return kept, nil
}
