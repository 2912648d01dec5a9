package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/conform"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/intake"
	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/trust"
)

func toolManifestCommand(p *Program, fs *flag.FlagSet) action {
	var m trust.Manifest
	var from trust.Provenance
	fs.StringVar(&m.Version, "version", "", "semantic `VERSION` of the manifest")
	key := fs.String("key", "", "publisher's private `KEY`: a PEM file, a reference such as ${env:NAME}, or the URI of a key on a token, pkcs11:…")
	out := fs.String("out", "", "`FILE` to write")
	catalogFile := fs.String("catalog", "", "`FILE` with the effect classes of operations; others are those that the server says")
	report := fs.String("conformance", "", "`FILE` with the JSON report of chimera tools conform")
	fs.StringVar(&from.Repository, "repository", "", "`URL` of the source that the server was built from")
	fs.StringVar(&from.Revision, "revision", "", "`ID` of the source's revision")
	fs.StringVar(&from.Builder, "builder", "", "`ID` of what has built the server")
	fs.StringVar(&from.Workflow, "workflow", "", "`ID` of the workflow that has built the server")
	return func(ctx context.Context, operands []string) error {
		if m.Version == "" || *key == "" || *out == "" {
			return misuse("chimera tools manifest needs --version VERSION, --key KEY and --out FILE")
		}
		m.Provider = operands[0]
		if from != (trust.Provenance{}) {
			m.Provenance = &from
		}
		server, err := p.declared(ctx, &m, *catalogFile)
		if err != nil {
			return err
		}
		if *report != "" {
			if err := p.conformed(&m, server, *report); err != nil {
				return err
			}
		}
		return p.signManifest(ctx, m, *key, *out)
	}
}

// declared adds the tools of the running server to a manifest. It returns the server's fingerprint.
func (p *Program) declared(ctx context.Context, m *trust.Manifest, catalogFile string) (string, error) {
	env, err := p.environment(ctx, catalogFile, "")
	if err != nil {
		return "", err
	}
	if env.findings.HasErrors() {
		return "", &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
	}
	offered, err := askOne(ctx, p, m.Provider, introduce)
	if err != nil {
		return "", err
	}
	tools, said := offered.Tools, offered.Introduction
	var prints []fingerprint.Print
	for _, t := range tools {
		print, err := fingerprint.Tool(t.Raw)
		if err != nil {
			return "", negative("the tool %s/%s cannot be pinned: %s", foreign(m.Provider), foreign(t.Name), err)
		}
		effect, err := effectOf(m.Provider, t, env.catalog)
		if err != nil {
			return "", err
		}
		prints = append(prints, print)
		m.Tools = append(m.Tools, trust.ManifestTool{Name: t.Name, Fingerprint: print.Digest, Effect: effect})
	}
	slices.SortFunc(m.Tools, func(a, b trust.ManifestTool) int { return strings.Compare(a.Name, b.Name) })
	if m.ToolsFingerprint, err = fingerprint.Tools(prints); err != nil {
		return "", negative("the server %s cannot be pinned: %s", foreign(m.Provider), err)
	}
	server, err := fingerprint.Server(said.Endpoint, said.Introduction, prints)
	if err != nil {
		return "", negative("the server %s cannot be pinned: %s", foreign(m.Provider), err)
	}
	return server, nil
}

// effectOf is the effect class of a tool: the catalog's, or what its annotations say.
func effectOf(server string, tool mcp.Tool, operations *catalog.Catalog) (plan.EffectClass, error) {
	for i := range operations.Templates {
		if t := &operations.Templates[i]; t.ProviderType == plan.MCP && t.Provider == server && t.Operation == tool.Name {
			return t.Effect, nil
		}
	}
	says, err := intake.Propose(tool.Raw, true)
	switch {
	case err != nil:
		return "", negative("the tool %s/%s: %s", foreign(server), foreign(tool.Name), err)
	case says.Guess:
		return "", negative("nothing says which effect %s/%s has", foreign(server), foreign(tool.Name)).
			withHint("Give the tool annotations, such as readOnlyHint, or put it into the catalog.")
	case says.Status == plan.Block:
		return "", negative("nobody knows which effect %s/%s has: %s", foreign(server), foreign(tool.Name), says.Reason)
	}
	return says.Effect, nil
}

// conformed adds a report of the conformance suite to a manifest. It must be of the server with
// that fingerprint, complete, and without a case that failed.
func (p *Program) conformed(m *trust.Manifest, server, file string) error {
	src, err := p.read(file)
	if err != nil {
		return err
	}
	var r conform.Report
	if _, err = schemas.Decode(src.Text); err == nil {
		err = strict.Decode(src.Text, &r)
	}
	if err != nil {
		return misuse("--conformance: %s is not a report of chimera tools conform: %s", src.Name, err)
	}
	found := r.Summary()
	if err := found.Suffices(); err != nil {
		return negative("the report %s: %s", src.Name, foreign(err.Error()))
	}
	if err := m.Conformed(found); err != nil {
		return negative("the report %s: %s", src.Name, err)
	}
	switch {
	case r.Server != m.Provider:
		return negative("the report %s is of the server %s, not of %s", src.Name, foreign(r.Server), foreign(m.Provider))
	case r.ServerFingerprint != server:
		return negative("the report %s is of another server: its fingerprint is %s, and that of the server as it is %s", src.Name, foreign(r.ServerFingerprint), server)
	case r.Hash != m.ConformanceHash:
		return negative("the report %s has the hash %s, and that of what it says is %s", src.Name, foreign(r.Hash), m.ConformanceHash)
	}
	return nil
}

// signManifest writes a manifest, signed with the key that ref names.
func (p *Program) signManifest(ctx context.Context, m trust.Manifest, ref, out string) error {
	key, err := p.secretKey(ctx, ref)
	if err != nil {
		return err
	}
	m.Issued = ledger.At(time.Now())
	envelope, err := trust.SignManifest(key, m)
	if errors.Is(err, trust.ErrInvalid) {
		return misuse("%s", err)
	}
	if err != nil {
		return keyError(ctx, err)
	}
	m, digest, err := trust.ReadManifest(envelope)
	if err == nil {
		err = wholefile.Create(out, append(envelope, '\n'))
	}
	if err != nil {
		return misuse("%s", err)
	}
	if p.json() {
		return p.document(struct {
			File     string         `json:"file"`
			Digest   string         `json:"digest"`
			Manifest trust.Manifest `json:"manifest"`
		}{out, digest, m})
	}
	p.printf("%s %s with %s: %s\n", foreign(m.Provider), m.Version, plural(len(m.Tools), "tool"), digest)
	return nil
}

// verified is the JSON answer about a manifest.
type verified struct {
	File   string `json:"file"`
	Digest string `json:"digest"`
	// Publisher is the id of the publisher who has signed it for its provider, or "".
	Publisher string `json:"publisher,omitempty"`
	// Accepted reports whether the admins have accepted it last.
	Accepted bool            `json:"accepted"`
	Manifest trust.Manifest  `json:"manifest"`
	Problems []differingTool `json:"problems"`
}

// differingTool is what is wrong with a manifest, of a tool or, without one, of the whole.
type differingTool struct {
	Tool    string `json:"tool,omitempty"`
	Problem string `json:"problem"`
}

func (v *verified) wrong(tool, format string, args ...any) {
	v.Problems = append(v.Problems, differingTool{tool, fmt.Sprintf(format, args...)})
}

func toolVerifyCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	return func(ctx context.Context, operands []string) error {
		v, raw, err := p.manifestOf(operands[0])
		if err != nil {
			return err
		}
		if err := p.trustedManifest(ctx, v, raw); err != nil {
			return err
		}
		env, err := p.environment(ctx, *catalogFile, "")
		if err != nil {
			return err
		}
		if env.findings.HasErrors() {
			return &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
		}
		for i := range env.catalog.Templates {
			t := &env.catalog.Templates[i]
			if t.ProviderType != plan.MCP || t.Resource != nil || t.Provider != v.Manifest.Provider {
				continue
			}
			if err := v.Manifest.Covers(t.Operation, t.Fingerprint, t.Effect); err != nil {
				v.wrong(t.Operation, "the catalog: %s", err)
			}
		}
		tools, err := p.listed(ctx, v.Manifest.Provider)
		if err != nil {
			return err
		}
		v.against(tools)
		return p.sayVerified(v)
	}
}

// manifestOf reads the manifest of a server of the configuration, or of a file.
func (p *Program) manifestOf(named string) (*verified, []byte, error) {
	c, err := p.settings()
	if err != nil {
		return nil, nil, err
	}
	v := &verified{File: named, Problems: []differingTool{}}
	known := slices.Sorted(maps.Keys(c.MCPServers))
	server := slices.Contains(known, named)
	if server {
		if v.File = c.MCPServers[named].Manifest; v.File == "" {
			return nil, nil, misuse("the configuration has no manifest of the MCP server %s", foreign(named)).withHint("Set mcpServers.%s.manifest, or name the file.", named)
		}
	}
	raw, err := wholefile.Read(v.File, trust.MaxManifest)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !server:
		return nil, nil, misuse("%s is neither an MCP server of the configuration nor a file", foreign(named)).meant("", named, known, "Servers stand in mcpServers.")
	case err != nil:
		return nil, nil, misuse("%s", err)
	}
	if v.Manifest, v.Digest, err = trust.ReadManifest(raw); err != nil {
		return nil, nil, negative("%s: %s", v.File, err)
	}
	if server && v.Manifest.Provider != named {
		return nil, nil, negative("%s is the manifest of the server %s, not of %s", v.File, foreign(v.Manifest.Provider), foreign(named))
	}
	return v, raw, nil
}

// trustedManifest finds out what the admins have stated of a manifest and its publisher.
func (p *Program) trustedManifest(ctx context.Context, v *verified, envelope []byte) error {
	over, _, err := p.authority(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := trust.Read(bounded, over.Ledger, over.Bootstrap)
	if err != nil {
		return untrusted(err)
	}
	if v.Publisher, err = trust.ManifestPublisher(s, envelope); err != nil {
		v.wrong("", "%s", err)
	}
	err = s.Accepts(&v.Manifest, v.Digest)
	if v.Accepted = err == nil; !v.Accepted {
		v.wrong("", "%s", err)
	}
	return nil
}

// against holds a manifest against the tools of the running server.
func (v *verified) against(tools []mcp.Tool) {
	offered := map[string]mcp.Tool{}
	for _, t := range tools {
		offered[t.Name] = t
	}
	for _, t := range v.Manifest.Tools {
		live, there := offered[t.Name]
		delete(offered, t.Name)
		if !there {
			v.wrong(t.Name, "the server has no such tool")
			continue
		}
		print, err := fingerprint.Tool(live.Raw)
		switch {
		case err != nil:
			v.wrong(t.Name, "the server's tool cannot be pinned: %s", err)
		case print.Digest != t.Fingerprint:
			v.wrong(t.Name, "the fingerprint of the server's tool is %s, and the manifest has %s", print.Digest, t.Fingerprint)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		v.wrong(name, "the server has it, and the manifest does not")
	}
}

// tally counts the cases that passed, and names the others.
func tally(m *trust.Manifest) string {
	by := map[conform.Verdict][]string{}
	for _, c := range m.Verdicts {
		by[c.Verdict] = append(by[c.Verdict], c.ID)
	}
	says := fmt.Sprintf("%d passed", len(by[conform.Passed]))
	for _, v := range []conform.Verdict{conform.Warned, conform.Skipped} {
		if len(by[v]) > 0 {
			says += fmt.Sprintf("; %s: %s", v, strings.Join(by[v], ", "))
		}
	}
	return says
}

// sayVerified prints what was found of a manifest, and fails if something is wrong.
func (p *Program) sayVerified(v *verified) error {
	m := &v.Manifest
	if p.json() {
		if err := p.document(v); err != nil {
			return err
		}
	} else {
		p.printf("%s %s: %s\n", foreign(m.Provider), m.Version, v.Digest)
		if v.Publisher != "" {
			p.printf("  published by %s at %s\n", foreign(v.Publisher), m.Issued)
		}
		if m.ConformanceHash != "" {
			p.printf("  conformance: %s %s\n    %s\n    by the server %s\n", foreign(m.Suite), m.ConformanceHash, foreign(tally(m)), m.ServerFingerprint)
		}
		if from := m.Provenance; from != nil {
			p.printf("  built from: %s\n", foreign(from.String()))
		}
		for _, t := range m.Tools {
			p.printf("  %-12s %s %s\n", t.Effect, foreign(t.Name), t.Fingerprint)
		}
		for _, d := range v.Problems {
			line := "wrong"
			if d.Tool != "" {
				line += " " + m.Provider + "/" + d.Tool
			}
			p.printf("%s\n", foreign(line+": "+d.Problem))
		}
	}
	if len(v.Problems) == 0 {
		return nil
	}
	no := negative("the manifest of %s fails: %s", foreign(m.Provider), plural(len(v.Problems), "problem"))
	if !v.Accepted {
		act, err := json.Marshal(trust.Acts{&trust.AcceptManifest{Provider: m.Provider, Version: m.Version, Digest: v.Digest}})
		if err != nil {
			return fmt.Errorf("showing an act: %w", err)
		}
		return no.withHint("Admins accept it by a statement of %s", act)
	}
	return no
}
