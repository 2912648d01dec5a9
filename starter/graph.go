package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/graph"
)

// picture is the JSON answer of graph.
type picture struct {
	Format string `json:"format"`
	// Graph is the picture's text, absent if it was written to a file.
	Graph string `json:"graph,omitempty"`
	Out   string `json:"out,omitempty"`
}

// extensions are those of files that hold a picture. All others except .txt are
// refused, since no program could tell the format from the name.
var extensions = map[string]graph.Format{
	".mmd": graph.Mermaid, ".mermaid": graph.Mermaid, ".md": graph.Mermaid, ".dot": graph.DOT, ".gv": graph.DOT, ".svg": graph.SVG,
}

// drawnAs returns the format of a picture: the requested one, or that of the output
// file.
func (p *Program) drawnAs(out string) (graph.Format, error) {
	asked := p.format != formatText && p.format != formatJSON
	extension := strings.ToLower(filepath.Ext(out))
	format, known := extensions[extension]
	switch {
	case extension == "" || extension == ".txt":
		format = graph.Mermaid
		if asked {
			format = graph.Format(p.format)
		}
	case !known:
		return "", misuse("no picture is written as %s", extension).
			withHint("--out takes files that end in .mmd, .mermaid or .md (mermaid), .dot or .gv (dot), .svg or .txt.")
	case asked && format != graph.Format(p.format):
		return "", misuse("--format %s does not fit %s, which is a file for %s", p.format, out, format)
	}
	return format, nil
}

func graphCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	policyFile := fs.String("policy", "", "`FILE` with the operator's policy bundle; several, separated by commas, make one")
	out := fs.String("out", "", "`FILE` to write to instead of standard output")
	return func(ctx context.Context, operands []string) error {
		format, err := p.drawnAs(*out)
		if err != nil {
			return err
		}
		env, err := p.environment(ctx, *catalogFile, *policyFile)
		if err != nil {
			return err
		}
		src, err := p.read(operands[0])
		if err != nil {
			return err
		}
		compiled, ds, err := env.check(src)
		if err != nil {
			return err
		}
		if compiled == nil {
			return &failure{code: exitNegative, message: "the plan does not compile", diagnostics: ds, sources: env.texts(src)}
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
