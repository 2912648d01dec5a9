package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	flag "github.com/spf13/pflag"
)

// The formats of every command.
const (
	formatText = "text"
	formatJSON = "json"
)

// flagError describes what is wrong with a command's flags.
func flagError(cmd *cobra.Command, err error) error {
	var absent *flag.NotExistError
	var bare *flag.ValueRequiredError
	var invalid *flag.InvalidValueError
	var syntax *flag.InvalidSyntaxError
	switch {
	case onlyParts(cmd) && cmd.Flags().NArg() > 0: // an unknown subcommand precedes the flag
		return noCommand(cmd, cmd.Flags().Arg(0))
	case errors.As(err, &absent) && absent.GetSpecifiedShortnames() != "":
		return oneDash(cmd, absent.GetSpecifiedShortnames())
	case errors.As(err, &absent):
		return unknownFlag(cmd, absent.GetSpecifiedName())
	case errors.As(err, &bare):
		return misuse("--%s needs a value", bare.GetFlag().Name)
	case errors.As(err, &invalid):
		return misuse("--%s does not take %q", invalid.GetFlag().Name, invalid.GetValue())
	case errors.As(err, &syntax):
		return misuse("%q is not a flag", syntax.GetSpecifiedFlag())
	}
	return misuse("%s", err)
}

// names returns the names of the flags that a command takes.
func names(cmd *cobra.Command) []string {
	var all []string
	cmd.Flags().VisitAll(func(f *flag.Flag) { all = append(all, f.Name) })
	return all
}

// showsFlags is the hint to the flags of a command.
func showsFlags(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return "chimera help lists the commands."
	}
	return "chimera help " + strings.Join(words(cmd), " ") + " shows the flags."
}

func unknownFlag(cmd *cobra.Command, name string) error {
	f := misuse("there is no flag --%s", name)
	if cmd.HasParent() {
		for _, sibling := range cmd.Parent().Commands() {
			if cmd.Parent().HasParent() && sibling.Flags().Lookup(name) != nil {
				return f.withHint("--%s belongs to %s.", name, sibling.CommandPath())
			}
		}
	}
	return f.meant("--", name, names(cmd), showsFlags(cmd))
}

// oneDash refuses an argument with one dash. rest begins with the first letter that is
// not a flag. Names of several letters take two dashes.
func oneDash(cmd *cobra.Command, rest string) error {
	rest, _, _ = strings.Cut(rest, "=")
	if len(rest) > 1 {
		for _, name := range names(cmd) {
			f := cmd.Flags().Lookup(name)
			if name == rest || f.Shorthand != "" && name == f.Shorthand+rest {
				return misuse("there is no flag -%s", name).withHint("Did you mean --%s?", name)
			}
		}
	}
	return misuse("there is no flag -%s", rest).withHint("%s", showsFlags(cmd))
}

// guessFormat finds --format json in arguments that may otherwise be wrong, so that
// even an error is one JSON document.
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
