package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/ledger"
)

// find reads one entity.
func find[T any](ctx context.Context, s *Store, what, query string, args ...any) (T, error) {
	var raw string
	var v T
	if err := s.one(ctx, what, query, args, &raw); err != nil {
		return v, err
	}
	v, err := decode[T](ctx, s.opener(), raw)
	return v, s.explain(what, err)
}

// locked reads one entity in the transaction.
func locked[T any](ctx context.Context, t *tx, query string, args ...any) (T, error) {
	var v T
	var raw string
	if err := t.row(ctx, query, args...).Scan(&raw); err != nil {
		return v, err
	}
	return decode[T](ctx, t.opener(), raw)
}

// PublishPlan implements [ledger.Plans].
func (s *Store) PublishPlan(ctx context.Context, p ledger.Plan) (out ledger.Plan, err error) {
	err = s.do(ctx, "publish plan "+p.Name+"@"+p.Version, func(t *tx) error {
		if err := t.lock(ctx, ledger.PlansChain); err != nil {
			return err
		}
		out, err = locked[ledger.Plan](ctx, t, "SELECT doc FROM plans WHERE name = $1 AND version = $2", p.Name, p.Version)
		switch {
		case err == nil:
			if out.Digest != p.Digest || out.SourceDigest != p.SourceDigest {
				return fmt.Errorf("%w: it is published with other content, digest %s", ledger.ErrConflict, out.Digest)
			}
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		out = p
		out.PublishedAt = t.now
		doc, err := text(out)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO plans (name, version, digest, published_at, doc) VALUES ($1, $2, $3, $4, $5)",
			out.Name, out.Version, out.Digest, millis(out.PublishedAt), doc); err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{
			Chain: ledger.PlansChain, Key: key(ledger.PlanPublished, out.Name+"@"+out.Version), Kind: ledger.PlanPublished, Agent: out.Agent, Plan: out.Digest,
			Refs: refs("source", out.SourceDigest),
		}, out)
		return err
	})
	return out, err
}

// refs returns references from names and digests, without empty ones.
func refs(pairs ...string) (out []ledger.Ref) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, ledger.Ref{Name: pairs[i], Digest: pairs[i+1]})
		}
	}
	return out
}

// Plan implements [ledger.Plans].
func (s *Store) Plan(ctx context.Context, ref string) (ledger.Plan, error) {
	what := fmt.Sprintf("find plan %.120q", ref)
	if strings.HasPrefix(ref, "sha256:") {
		return find[ledger.Plan](ctx, s, what, "SELECT doc FROM plans WHERE digest = $1 ORDER BY serial LIMIT 1", ref)
	}
	if name, version, ok := strings.Cut(ref, "@"); ok {
		return find[ledger.Plan](ctx, s, what, "SELECT doc FROM plans WHERE name = $1 AND version = $2", name, version)
	}
	return find[ledger.Plan](ctx, s, what, "SELECT doc FROM plans WHERE name = $1 ORDER BY serial DESC LIMIT 1", ref)
}

// ListPlans implements [ledger.Plans].
func (s *Store) ListPlans(ctx context.Context, page ledger.Page) ([]ledger.Plan, error) {
	limit, offset := limits(page)
	rows, err := list(ctx, s, "list plans", "SELECT doc FROM plans ORDER BY serial DESC LIMIT $1 OFFSET $2", []any{limit, offset}, scanText)
	var out []ledger.Plan
	for _, raw := range rows {
		if p, err := decode[ledger.Plan](ctx, s.opener(), raw); err == nil {
			out = append(out, p)
		}
	}
	return out, err
}
