package main

import (
	"context"
	"flag"
)

func graphCommand(_ *Program, fs *flag.FlagSet) action {
	fs.String("catalog", "", "`FILE` with the operations that plans may call")
	fs.String("out", "", "`FILE` to write to instead of standard output")
	return func(context.Context, []string) error { return unsupported("chimera graph") }
}
