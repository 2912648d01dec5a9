package main

import (
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// hold holds what catalog files say against the statements of the admins that one of them carries.
// Without a root of trust there is nothing by which to verify them. given is the file of --catalog,
// or "".
func (p *Program) hold(s *environment, given string) error {
	if s.own == nil || given == "" && !s.own.StatementsAt.IsValid() {
		return nil
	}
	carried := s.own.StatementsAt
	c, err := p.settings()
	var b *trust.Bootstrap
	if err == nil {
		if b, err = host.Bootstrap(c); err != nil {
			err = misuse("%s", err)
		}
	}
	switch {
	case !carried.IsValid():
		if b != nil && b.Audience == trust.Prod {
			s.unstated()
		}
		return nil // nothing is verified, so the root of trust is not needed
	case err != nil:
		return err
	case b == nil:
		p.say("the statements in %s are not verified: no root of trust is configured (trust.bootstrap)", carried.File)
		return nil
	}
	said, differ, err := registry.Believe(s.own, b)
	if err != nil {
		s.findings.Add(diag.Diagnostic{
			Code: diag.ConfigUnstated, Summary: "the statements that the catalog carries do not verify: " + err.Error(),
			Detail: "Nothing of it is believed. chimera tools export writes them as they are in the store.", Subject: carried,
		})
		return nil
	}
	for _, d := range differ {
		at := d.Template.FieldAt(s.sources[d.Template.Range.File], d.Field)
		s.findings.Add(diag.Diagnostic{
			Code: diag.ConfigUnstated, Summary: d.Err.Error(),
			Detail:  fmt.Sprintf("The catalog carries the statements of the admins up to number %d, of %s, and is believed only as they say.", said.N, said.Issued),
			Subject: at, Context: carried,
		})
	}
	if len(differ) == 0 {
		p.say("%s is as the admins had stated it by %s (statement %d)", carried.File, said.Issued, said.N)
	}
	return nil
}

// unstated warns that files carry no statements about operations that production calls only as the
// admins have stated them.
func (s *environment) unstated() {
	var first *catalog.Template
	more := 0
	for i := range s.own.Templates {
		if t := &s.own.Templates[i]; t.Stated() && first == nil {
			first = t
		} else if t.Stated() {
			more++
		}
	}
	if first == nil {
		return
	}
	what := fields.Quote(first.Name())
	if more > 0 {
		what += fmt.Sprintf(" and %s more", plural(more, "operation"))
	}
	s.findings.Add(diag.Diagnostic{
		Severity: diag.Warning, Code: diag.ConfigUnstated, Summary: "the catalog carries no statement of the admins about " + what,
		Detail: "A worker calls it only if the admins have stated just what the catalog says of it. chimera tools export writes a catalog with their statements.", Subject: first.Range,
	})
}
