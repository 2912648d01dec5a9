package main

import (
	"context"
	"encoding/json"
	"strings"

	flag "github.com/spf13/pflag"

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
			return misuse("there is no schema %q", operands[0]).
				meant("chimera schema ", operands[0], names, "There are: "+strings.Join(names, ", ")+".")
		}
		return p.document(json.RawMessage(raw))
	}
}
