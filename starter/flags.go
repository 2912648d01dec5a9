package main

import (
	"flag"
	"io"
	"strings"
)

// The formats of every command.
const (
	formatText = "text"
	formatJSON = "json"
)

// errHelp asks for help instead of an action.
const errHelp = helpWanted("help")

type helpWanted string

func (h helpWanted) Error() string { return string(h) }

// flags makes a set that reports its errors to us, with the two flags of every
// command.
func (p *Program) flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar(&p.configFile, "config", p.configFile, "`FILE` with the configuration (chimera.yaml, if there)")
	fs.StringVar(&p.format, "format", formatText, "`FORMAT` of the answer: text or json")
	return fs
}

// scan reads flags that may stand before, between and behind operands, which
// the standard library alone does not do, and gives the operands. Behind "--"
// everything is an operand. With first set it stops at the first operand, and
// gives that and all that follows.
func scan(fs *flag.FlagSet, args []string, first bool) ([]string, error) {
	var operands []string
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return append(operands, args[1:]...), nil
		}
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			if first {
				return args, nil
			}
			operands = append(operands, arg)
			args = args[1:]
			continue
		}
		name, _, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if name == "h" || name == "help" {
			return nil, errHelp
		}
		known := fs.Lookup(name)
		if known == nil {
			return nil, unknownFlag(fs, name)
		}
		width := 1
		if b, ok := known.Value.(interface{ IsBoolFlag() bool }); !joined && !(ok && b.IsBoolFlag()) {
			width = 2
		}
		if width > len(args) {
			return nil, misuse("--%s needs a value", name)
		}
		if err := fs.Parse(args[:width]); err != nil {
			return nil, misuse("--%s does not take %q", name, value(args[:width]))
		}
		args = args[width:]
	}
	return operands, nil
}

// value is what a flag was given: "x" of --name=x and of --name x.
func value(args []string) string {
	if len(args) > 1 {
		return args[1]
	}
	_, v, _ := strings.Cut(args[0], "=")
	return v
}

func unknownFlag(fs *flag.FlagSet, name string) error {
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return misuse("there is no flag --%s", name).meant("--", name, names, "chimera help "+fs.Name()+" shows the flags.")
}

// guessFormat finds --format json in arguments that may be wrong otherwise, so
// that even an error is one JSON document.
func guessFormat(args []string) string {
	for i, arg := range args {
		switch name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "="); {
		case !strings.HasPrefix(arg, "-") || name != "format":
		case joined && value == formatJSON:
			return formatJSON
		case !joined && i+1 < len(args) && args[i+1] == formatJSON:
			return formatJSON
		}
	}
	return formatText
}
