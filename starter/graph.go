package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"

	"chimera.ai/engine/graph"
)

// picture is the JSON answer of graph.
type picture struct {
	Format string `json:"format"`
	// Graph is the picture's text, absent where it went to a file.
	Graph string `json:"graph,omitempty"`
	Out   string `json:"out,omitempty"`
}

func graphCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	policyFile := fs.String("policy", "", "`FILE` with the operator's policy bundle; several, separated by commas, make one")
	out := fs.String("out", "", "`FILE` to write to instead of standard output")
	return func(_ context.Context, operands []string) error {
		shelf, err := p.shelf(*catalogFile, *policyFile)
		if err != nil {
			return err
		}
		src, err := p.read(operands[0])
		if err != nil {
			return err
		}
		compiled, ds, err := shelf.check(src)
		if err != nil {
			return err
		}
		if compiled == nil {
			return &failure{code: exitNegative, message: "the plan does not compile", diagnostics: ds, sources: shelf.texts(src)}
		}
		format := graph.Mermaid
		switch {
		case p.format != formatText && p.format != formatJSON:
			format = graph.Format(p.format)
		case filepath.Ext(*out) == ".svg":
			format = graph.SVG
		case filepath.Ext(*out) == ".dot":
			format = graph.DOT
		}
		drawn, err := graph.Render(compiled, format)
		if errors.Is(err, graph.ErrTooLarge) {
			return negative("drawing %s: %s", src.Name, err)
		}
		if err != nil {
			return unanswered("drawing %s: %s", src.Name, err)
		}
		answer := picture{Format: string(format), Graph: string(drawn), Out: *out}
		if *out != "" {
			if err := os.WriteFile(*out, drawn, 0o644); err != nil {
				return misuse("%s", err)
			}
			answer.Graph = ""
		}
		switch {
		case p.json():
			return p.document(answer)
		case *out == "":
			p.printf("%s", drawn)
		}
		return nil
	}
}
