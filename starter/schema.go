package main

import (
	"context"
	"encoding/json"
	"flag"
	"strings"

	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/schemas"
)

func schemaCommand(p *Program, _ *flag.FlagSet) action {
	return func(_ context.Context, operands []string) error {
		names := schemas.Names()
		if len(operands) == 0 {
			if p.json() {
				return p.document(names)
			}
			p.printf("%s\n", strings.Join(names, "\n"))
			return nil
		}
		raw, ok := schemas.Named(operands[0])
		if !ok {
			f := misuse("there is no schema %q", operands[0])
			if near := syntax.Nearest(operands[0], names); near != "" {
				return f.withHint("Did you mean chimera schema %s?", near)
			}
			return f.withHint("There are: %s.", strings.Join(names, ", "))
		}
		return p.document(json.RawMessage(raw))
	}
}
