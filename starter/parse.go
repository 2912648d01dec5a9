package main

import (
	"context"
	"io"
)

// Parse reads the arguments after the program's name. Its errors are wrong use.
func (p *Program) Parse(args []string) error {
	p.format = guessFormat(args)
	root := p.root()
	root.SetArgs(args)
	if !completes(args) {
		return root.Execute()
	}
	p.format = formatText // what follows is a line that somebody has not finished
	root.SetErr(io.Discard)
	unquote(root)
	p.action = func(ctx context.Context) error {
		_ = root.ExecuteContext(ctx) // there is nobody to tell
		return nil
	}
	return nil
}
