package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/store"
)

// serverPart is the part of a change of what a server says of itself.
const serverPart fingerprint.Part = "server"

// templatesPart is that of a change of the templates of its resources.
const templatesPart fingerprint.Part = "resource templates"

// serverNow is what a server said when it was imported, nil if nobody knows, and what it says now.
type serverNow struct {
	Server string      `json:"server"`
	Was    *serverSaid `json:"was"`
	Is     *serverSaid `json:"is"`
	// Changes are those of what it says of itself. Tools count for the fingerprint alone.
	Changes []fingerprint.Change `json:"changes"`
	// Moved says in words how where it is differs.
	Moved []string `json:"moved,omitempty"`

	templates []mcp.ResourceTemplate
	unlisted  error
}

// serverSaid is what a server says of itself, and where it is, by the digest of that and without what looks
// like a secret. Of one that was imported earlier only the first two may be known.
type serverSaid struct {
	Fingerprint string          `json:"server_fingerprint"`
	Initialize  json.RawMessage `json:"initialize"`
	Endpoint    string          `json:"endpoint,omitempty"`
	Place       json.RawMessage `json:"place,omitempty"`
	Templates   json.RawMessage `json:"resource_templates,omitempty"`
}

// serverNow asks a server what it says of itself, and compares.
func (p *Program) serverNow(ctx context.Context, catalogFile, server string) (out serverNow, err error) {
	env, err := p.environment(ctx, catalogFile, "")
	if err != nil {
		return out, err
	}
	if env.findings.HasErrors() {
		return out, &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
	}
	offered, err := askOne(ctx, p, server, introduce)
	if err != nil {
		return out, err
	}
	is, err := offered.said()
	if err != nil {
		return out, negative("the server %s: %s", foreign(server), err)
	}
	out = serverNow{Server: server, Is: is, Changes: []fingerprint.Change{}, templates: offered.Templates, unlisted: offered.Unlisted}
	was := p.snapshot(ctx, env, server)
	if was == nil {
		return out, nil
	}
	out.Was = &serverSaid{was.Fingerprint, was.Initialize, was.Endpoint, was.Place, was.Templates}
	changes, err := fingerprint.Compare(was.Initialize, out.Is.Initialize)
	for i := range changes {
		changes[i].Part = serverPart
	}
	if err == nil && was.Templates != nil && is.Templates != nil {
		var more []fingerprint.Change
		more, err = compareTemplates(was.Templates, is.Templates)
		changes = append(changes, more...)
	}
	if err != nil {
		return out, negative("what the server %s says of itself: %s", foreign(server), err)
	}
	out.Changes = append(out.Changes, changes...)
	if was.Endpoint != "" && was.Endpoint != is.Endpoint {
		out.Moved = movedFrom(was, nil, offered.place)
	}
	return out, nil
}

// compareTemplates compares the templates of a server, by their URI templates.
func compareTemplates(was, is json.RawMessage) ([]fingerprint.Change, error) {
	a, err := byTemplate(was)
	if err != nil {
		return nil, err
	}
	b, err := byTemplate(is)
	if err != nil {
		return nil, err
	}
	changes, err := fingerprint.Compare(a, b)
	for i := range changes {
		changes[i].Part = templatesPart
	}
	return changes, err
}

// snapshot is what a server said when it was imported: by the catalog, or by the registry if there is one
// to ask. It is nil if neither has it.
func (p *Program) snapshot(ctx context.Context, env *environment, server string) *catalog.Server {
	if s := env.catalog.Server(server); s != nil {
		return s
	}
	at := p.there()
	if at == nil {
		return nil
	}
	s, err := at.snapshot(ctx, server)
	if err != nil {
		p.say("what the server %s said when it was imported is not known: %s", foreign(server), err)
	}
	return s
}

// snapshot opens the store for itself, as [place.registered] does.
func (at *place) snapshot(ctx context.Context, server string) (s *catalog.Server, err error) {
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	opened, err := store.Open(bounded, at.store)
	if err != nil {
		return nil, storeError(err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	all, err := registry.Servers(bounded, opened.Ledger, server)
	if err != nil {
		return nil, storeError(err)
	}
	if len(all) > 0 {
		s = &all[0]
	}
	return s, nil
}

// showServer prints what a server says of itself, and what it said when it was imported, if that differs.
func (p *Program) showServer(ctx context.Context, catalogFile, server string) error {
	now, err := p.serverNow(ctx, catalogFile, server)
	if err != nil {
		return err
	}
	if p.json() {
		return p.document(now)
	}
	p.printf("%s\n  fingerprint: %s\n", foreign(server), now.Is.Fingerprint)
	if err := p.indented(now.Is.Initialize); err != nil {
		return err
	}
	if now.unlisted != nil {
		p.say("%s: its resources could not be listed: %s", foreign(server), now.unlisted)
	}
	if len(now.templates) > 0 {
		p.printf("resource templates\n")
	}
	for _, one := range now.templates {
		line := fmt.Sprintf("  %s: %s", shownURI(one.URITemplate), shownURI(one.Name))
		if one.MIMEType != "" {
			line += " (" + shownURI(one.MIMEType) + ")"
		}
		if pattern, err := one.Pattern(); err != nil {
			line += ", which cannot be imported: " + shownURI(err.Error())
		} else {
			line += ", as " + pattern
		}
		p.printf("%s\n", line)
	}
	switch {
	case now.Was == nil:
		p.say("what it said when it was imported is not known")
	case now.Was.Fingerprint != now.Is.Fingerprint || len(now.Changes) > 0:
		p.printf("when it was imported\n  fingerprint: %s\n", now.Was.Fingerprint)
		return p.indented(now.Was.Initialize)
	}
	return nil
}

// indented prints JSON, as foreign text.
func (p *Program) indented(raw json.RawMessage) error {
	var text bytes.Buffer
	if err := json.Indent(&text, raw, "", "  "); err != nil {
		return negative("%s", err)
	}
	for line := range strings.Lines(text.String()) { // JSON has no line feed but between its parts
		p.printf("%s\n", foreign(strings.TrimSuffix(line, "\n")))
	}
	return nil
}

// diffServer prints what a server says of itself otherwise than when it was imported, and fails if
// anything of it has changed, its tools included.
func (p *Program) diffServer(ctx context.Context, catalogFile, server string) error {
	now, err := p.serverNow(ctx, catalogFile, server)
	if err != nil {
		return err
	}
	if now.Was == nil {
		return negative("what the server %s said when it was imported is not known", foreign(server)).
			withHint("%s writes it.", p.command("tools", "import", server))
	}
	if p.json() {
		if err := p.document(now); err != nil {
			return err
		}
	} else {
		p.changed(now.Changes)
		p.sayMoved(now.Moved)
		if now.Was.Fingerprint != now.Is.Fingerprint {
			p.printf("fingerprint\n")
			for _, row := range sideBySide(now.Was.Fingerprint, now.Is.Fingerprint, maxDiffWidth) {
				p.printf("%s\n", row)
			}
		}
	}
	if now.Was.Fingerprint == now.Is.Fingerprint && len(now.Changes) == 0 {
		return nil
	}
	return negative("the server %s is not what it was when it was imported", foreign(server)).
		withHint("%s shows which tools have changed.", p.command("tools", "check", server))
}

// sayMoved prints how where a server is differs from where it was.
func (p *Program) sayMoved(lines []string) {
	if len(lines) > 0 {
		p.printf("place\n")
	}
	for _, line := range lines {
		p.printf("  %s\n", foreign(line))
	}
}

// recall adds to a change of what a server tells models the text that was pinned, if the snapshot has it.
func recall(changes []fingerprint.Change, was *catalog.Server, pinned string) {
	v, err := schemas.Decode(was.Initialize)
	if err != nil {
		return
	}
	said, _ := v.(map[string]any)
	text, _ := said["instructions"].(string)
	if digest, err := fingerprint.Instructions(text); err != nil || digest != pinned {
		return
	}
	for i := range changes {
		if changes[i].Part == live.InstructionsPart {
			changes[i].Was, _ = json.Marshal(map[string]string{"digest": pinned, "text": text}) // strings always have a form
		}
	}
}
