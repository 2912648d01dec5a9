package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/conform"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/redact"
)

func toolConformCommand(p *Program, fs *flag.FlagSet) action {
	examples := fs.String("examples", "", "`FILE` with the server's own suite, calls that may be made: a list of {tool, arguments, expect_error}")
	timeout := fs.Duration("timeout", 10*time.Second, "`TIME` that one answer of the server may take")
	return func(ctx context.Context, operands []string) error {
		if *timeout <= 0 {
			return misuse("--timeout is a time above 0, not %s", *timeout)
		}
		opts := conform.Options{Timeout: *timeout}
		if *examples != "" {
			src, err := p.read(*examples)
			if err != nil {
				return err
			}
			var ds diag.Diagnostics
			if opts.Examples, ds = conform.ReadExamples(src); ds.HasErrors() {
				return &failure{code: exitUsage, message: "the examples are not valid", diagnostics: ds, sources: map[string][]byte{src.Name: src.Text}}
			}
		}
		target, secrets, err := p.target(operands[0])
		if err != nil {
			return err
		}
		report, err := conform.Run(ctx, target, opts)
		switch {
		case errors.As(err, new(*contract.Error)):
			return noAnswer(err, secrets)
		case errors.Is(err, context.DeadlineExceeded):
			return unanswered("%s", err)
		case err != nil:
			return err
		}
		return p.sayReport(report)
	}
}

// target finds a server of the configuration, for the suite to start, and the secrets that it gets.
func (p *Program) target(name string) (conform.Target, *redact.Secrets, error) {
	c, err := p.settings()
	if err != nil {
		return conform.Target{}, nil, err
	}
	if _, err := serversNamed(&c, []string{name}); err != nil {
		return conform.Target{}, nil, err
	}
	s, secrets, err := serverOf(c, name)
	if err != nil {
		return conform.Target{}, nil, err
	}
	target := conform.Target{Name: name, Open: func() conform.Client {
		return mcp.NewPool(map[string]mcp.Server{name: s}, mcp.Options{Logger: slog.New(slog.DiscardHandler)})
	}}
	if s.Command != "" {
		target.Stdio = &s
	}
	return target, secrets, nil
}

// sayReport prints what the suite found, and fails if a case did.
func (p *Program) sayReport(r conform.Report) error {
	verdicts := r.Verdicts()
	failed := 0
	for _, v := range verdicts {
		if v == conform.Failed {
			failed++
		}
	}
	if p.json() {
		if err := p.document(r); err != nil {
			return err
		}
	} else {
		for _, c := range r.Cases {
			line := fmt.Sprintf("%-8s %s", c.Verdict, c.ID)
			if c.Tool != "" {
				line += " " + c.Tool
			}
			if c.Detail != "" {
				line += ": " + c.Detail
			}
			p.printf("%s\n", foreign(line))
		}
		if r.Hash != "" {
			p.printf("server fingerprint: %s\nconformance hash: %s\n", r.ServerFingerprint, r.Hash)
		}
	}
	if failed > 0 {
		return negative("the server %s fails %s of the %d of the suite", foreign(r.Server), plural(failed, "case"), len(verdicts))
	}
	return nil
}
