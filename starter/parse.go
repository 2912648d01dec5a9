package main

import (
	"context"
	"io"
)

// Parse parses the arguments after the program's name. Its errors mean wrong use.
func (p *Program) Parse(args []string) error {
	p.format = guessFormat(args)
	root := p.root()
	root.SetArgs(args)
	if !completes(args) {
		return root.Execute()
	}
	p.format = formatText // the rest is an unfinished command line
	root.SetErr(io.Discard)
	unquote(root)
	p.action = func(ctx context.Context) error {
		_ = root.ExecuteContext(ctx) // a shell shows no errors
		return nil
	}
	return nil
}
