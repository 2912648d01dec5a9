package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/ledger"
)

// What became of a plan that was to be published again.
const (
	againPublished = "published"
	againUnchanged = "unchanged"
	againBroken    = "does not compile"
	againRefused   = "refused"
)

// republished is the JSON answer about one plan that was to be published again.
type republished struct {
	Name string `json:"name"`
	// Version and Digest are those that it had.
	Version string `json:"version"`
	Digest  string `json:"plan_digest"`
	// State is one of the words above.
	State string `json:"state"`
	// Next is what was published instead, nil if nothing was.
	Next *publication `json:"next,omitempty"`
	// Problem says why it is refused, and Diagnostics why it does not compile.
	Problem     string           `json:"problem,omitempty"`
	Diagnostics diag.Diagnostics `json:"diagnostics,omitempty"`
}

// again compiles published plans with the catalog and the policy as they are now, each in the version
// that was published last, or in the one that a reference names. It publishes those that have become
// other plans, under versions with the next build number. Only plans whose authors may still publish
// are published again: whoever calls this signs them.
func (p *Program) again(ctx context.Context, env *environment, refs []string) error {
	if env.findings.HasErrors() {
		return &failure{code: exitNegative, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
	}
	at, err := p.place()
	if err != nil {
		return err
	}
	store, err := at.ledger(ctx, p)
	if err != nil {
		return err
	}
	if len(refs) == 0 {
		if refs, err = latest(ctx, store); err != nil {
			return err
		}
	}
	all := []republished{}
	counts := map[string]int{}
	for _, ref := range refs {
		if ctx.Err() != nil {
			return unanswered("interrupted")
		}
		one, err := p.anew(ctx, env, at, store, ref)
		if err != nil {
			return err
		}
		all = append(all, one)
		counts[one.State]++
		if !p.json() {
			p.printf("%s\n", one)
		}
	}
	if p.json() {
		if err := p.document(struct {
			Plans []republished `json:"plans"`
		}{all}); err != nil {
			return err
		}
	}
	if n := counts[againBroken] + counts[againRefused]; n > 0 {
		return negative("%d of %s %s not what can be published now", n, plural(len(all), "plan"), agree(n, "is", "are"))
	}
	return nil
}

// String is the line about a plan.
func (r republished) String() string {
	line := fmt.Sprintf("%-17s %s@%s", r.State, r.Name, r.Version)
	switch {
	case r.Next != nil:
		line += " as " + r.Next.Version + " " + r.Next.Digest
	case r.Problem != "":
		line += ": " + r.Problem
	}
	for _, d := range r.Diagnostics {
		if d.Severity == diag.Error {
			return printable(fmt.Sprintf("%s: line %d: %s: %s", line, d.Subject.Start.Line, d.Code, d.Summary))
		}
	}
	return printable(line)
}

// anew compiles a published plan, and publishes what it has become.
func (p *Program) anew(ctx context.Context, env *environment, at *place, store ledger.Store, ref string) (republished, error) {
	was, err := p.published(ctx, at, ref)
	out := republished{Name: was.Name, Version: was.Version, Digest: was.Digest}
	if f := (*failure)(nil); errors.As(err, &f) && f.code == exitNegative && was.Name != "" {
		out.State, out.Problem = againRefused, f.message
		return out, nil
	}
	if err != nil {
		return out, err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	src := compiler.Source{Name: was.Name + "@" + was.Version}
	if src.Text, err = store.GetBlob(bounded, was.SourceDigest); err != nil {
		return out, storeError(err)
	}
	compiled, ds, digest, err := env.digest(src)
	switch {
	case err != nil:
		return out, err
	case compiled == nil:
		out.State, out.Diagnostics = againBroken, ds
		return out, nil
	case digest == was.Digest:
		out.State = againUnchanged
		return out, nil
	}
	version, same, err := p.freeVersion(bounded, env, at, store, was, src)
	switch {
	case err != nil:
		return out, err
	case same:
		out.State = againUnchanged
		return out, nil
	case version == "":
		out.State, out.Problem = againRefused, "its version has no room for a build number: raise it in the file, and publish that"
		return out, nil
	}
	if src.Text, err = reversioned(src, version); err != nil {
		return out, err
	}
	compiled, ds, digest, err = env.digest(src)
	switch {
	case err != nil:
		return out, err
	case compiled == nil:
		out.State, out.Diagnostics = againBroken, ds
		return out, nil
	}
	next, err := p.publish(ctx, at, src, compiled, digest)
	if err != nil {
		return out, err
	}
	out.State, out.Next = againPublished, published(next)
	return out, nil
}

// freeVersion returns the first version after that of a plan that is not published, or the one under which
// the plan is published as it compiles now, if its author may still publish; then same is true. It is ""
// if a version has no room for a build number.
func (p *Program) freeVersion(ctx context.Context, env *environment, at *place, store ledger.Store, was ledger.Plan, src compiler.Source) (version string, same bool, err error) {
	for version = nextBuild(was.Version); fields.Versions.Re.MatchString(version); version = nextBuild(version) {
		row, err := store.Plan(ctx, was.Name+"@"+version)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			return version, false, nil
		case err != nil:
			return "", false, storeError(err)
		}
		next := compiler.Source{Name: src.Name}
		if next.Text, err = reversioned(src, version); err != nil {
			return "", false, err
		}
		_, _, digest, err := env.digest(next)
		if err != nil {
			return "", false, err
		}
		if digest != row.Digest {
			continue
		}
		_, err = p.published(ctx, at, digest)
		if f := (*failure)(nil); errors.As(err, &f) && f.code == exitNegative {
			continue // its author may not publish any longer
		}
		return version, true, err
	}
	return "", false, nil
}

// nextBuild is a version with the next build number: 1.0+1 after 1.0, and 1.0+2 after that.
func nextBuild(version string) string {
	base, build, ok := strings.Cut(version, "+")
	if !ok {
		return base + "+1"
	}
	parts := strings.Split(build, ".")
	if n, err := strconv.ParseUint(parts[len(parts)-1], 10, 32); err == nil {
		parts[len(parts)-1] = strconv.FormatUint(n+1, 10)
	} else {
		parts = append(parts, "1")
	}
	return base + "+" + strings.Join(parts, ".")
}

// reversioned is the source of a plan with another version, and all else as it was.
func reversioned(src compiler.Source, version string) ([]byte, error) {
	docs, ds := syntax.Parse(src.Name, src.Text, fields.Limits)
	if ds.HasErrors() || len(docs) == 0 || docs[0].Root.Get("version") == nil {
		return nil, negative("%s has no version that can be raised", printable(src.Name))
	}
	at := docs[0].Root.Get("version").Range()
	return slices.Concat(src.Text[:at.Start.Byte], []byte(fields.Quoted(version)), src.Text[at.End.Byte:]), nil
}

// maxPlans bounds how many versions of published plans are looked at.
const maxPlans = 100_000

// latest returns the names of all published plans, sorted. More than maxPlans versions of plans are an
// error.
func latest(ctx context.Context, store ledger.Plans) ([]string, error) {
	const page = 1000
	names := map[string]bool{}
	for offset := 0; offset <= maxPlans; offset += page {
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		plans, err := store.ListPlans(bounded, ledger.Page{Limit: page, Offset: offset})
		cancel()
		if err != nil {
			return nil, storeError(err)
		}
		for _, x := range plans {
			names[x.Name] = true
		}
		if len(plans) == 0 {
			return slices.Sorted(maps.Keys(names)), nil
		}
	}
	return nil, negative("more than %d versions of plans are published", maxPlans).withHint("Name the plans.")
}
