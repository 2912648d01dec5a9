package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	flag "github.com/spf13/pflag"

	"chimera.ai/engine/client"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/store"
)

const (
	// completeTime bounds how long a person waits after pressing Tab.
	completeTime = time.Second
	// maxOffers bounds how many runs or plans are considered.
	maxOffers = 200
)

// completer offers operands to a shell. It starts nothing, and offers only what it
// can find out.
type completer func(ctx context.Context, p *Program, operands []string) ([]string, cobra.ShellCompDirective)

// plainWord matches operands that a shell takes literally. Names come from servers and
// stores that strangers write to, and completed lines are executed.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@/+-]*$`)

// shells are the shells with a completion script.
var shells = []struct {
	name  string
	write func(root *cobra.Command, w io.Writer) error
}{
	{"bash", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
	{"zsh", (*cobra.Command).GenZshCompletion},
	{"fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
	{"powershell", (*cobra.Command).GenPowerShellCompletionWithDesc},
}

// script is the JSON answer of completion.
type script struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func completionCommand(p *Program, _ *flag.FlagSet) action {
	return func(_ context.Context, operands []string) error {
		var names []string
		for _, s := range shells {
			if names = append(names, s.name); s.name != operands[0] {
				continue
			}
			var text bytes.Buffer
			if err := s.write(p.root(), &text); err != nil {
				return err
			}
			if p.json() {
				return p.document(script{s.name, text.String()})
			}
			p.printf("%s", text.String())
			return nil
		}
		return misuse("there is no completion for a shell %q", operands[0]).
			meant("chimera completion ", operands[0], names, "There are: "+strings.Join(names, ", ")+".")
	}
}

// completes reports whether a shell asks for completions.
func completes(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// completion offers the operands of a command, within [completeTime] and without
// messages.
func (p *Program) completion(c command) cobra.CompletionFunc {
	return func(cmd *cobra.Command, operands []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if c.completes == nil || c.most >= 0 && len(operands) >= c.most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		quiet := &Program{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, configFile: p.configFile, format: formatText}
		offers, directive := c.completes(ctx, quiet, operands)
		_ = quiet.Close() // it has changed nothing
		return slices.DeleteFunc(offers, func(offer string) bool {
			name, _, _ := strings.Cut(offer, "\t")
			return !strings.HasPrefix(name, word) || !plainWord.MatchString(name) || slices.Contains(operands, name)
		}), directive
	}
}

// completeFlags makes a shell offer files for flags that take one.
func completeFlags(cmd *cobra.Command, c command) {
	cmd.Annotations = map[string]string{"formats": strings.Join(c.all(), " ")}
	if c.prepare != nil {
		cmd.Annotations["itself"] = "yes"
	}
	cmd.LocalFlags().VisitAll(func(f *flag.Flag) {
		directive := cobra.ShellCompDirectiveNoFileComp
		switch name, _ := flag.UnquoteUsage(f); name {
		case "FILE", "PLAN", "KEY":
			directive = cobra.ShellCompDirectiveDefault
		case "DIR":
			directive = cobra.ShellCompDirectiveFilterDirs
		}
		// It fails only for a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if f.Name == "format" {
				return strings.Fields(cmd.Annotations["formats"]), directive
			}
			return nil, directive
		})
	})
}

// unquote removes the backquotes around names from what shells show of flags.
func unquote(cmd *cobra.Command) {
	for _, set := range []*flag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		set.VisitAll(func(f *flag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	}
	for _, c := range cmd.Commands() {
		unquote(c)
	}
}

func files(context.Context, *Program, []string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// operations offers the operations with effects of the catalog's files.
func operations(_ context.Context, p *Program, _ []string) ([]string, cobra.ShellCompDirective) {
	c, err := p.settings()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := p.catalog(nil, c.CatalogFile, c.ToolsFile)
	if err != nil || s.catalog == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var offers []string
	for i := range s.catalog.Templates {
		if t := &s.catalog.Templates[i]; t.Effect.Acts() {
			offers = append(offers, t.Name())
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

// operationsOrFiles does the same, and lets the shell offer files.
func operationsOrFiles(ctx context.Context, p *Program, operands []string) ([]string, cobra.ShellCompDirective) {
	offers, _ := operations(ctx, p, operands)
	return offers, cobra.ShellCompDirectiveDefault
}

func schemaNames(context.Context, *Program, []string) ([]string, cobra.ShellCompDirective) {
	return schemas.Names(), cobra.ShellCompDirectiveNoFileComp
}

func shellNames(context.Context, *Program, []string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, s := range shells {
		names = append(names, s.name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// topics offers the commands, or the parts of the one given.
func topics(_ context.Context, _ *Program, operands []string) ([]string, cobra.ShellCompDirective) {
	among := commands()
	for _, word := range operands {
		i := slices.IndexFunc(among, func(c command) bool { return c.name == word })
		if i < 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		among = among[i].parts
	}
	var offers []string
	for _, c := range among {
		offers = append(offers, c.name+"\t"+c.summary)
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

func anyRun(ctx context.Context, p *Program, _ []string) ([]string, cobra.ShellCompDirective) {
	return p.offerRuns(ctx, func(client.Listed) bool { return true })
}

// openRun offers runs that have not ended.
func openRun(ctx context.Context, p *Program, _ []string) ([]string, cobra.ShellCompDirective) {
	return p.offerRuns(ctx, func(r client.Listed) bool { return r.CloseTime == nil })
}

func (p *Program) offerRuns(ctx context.Context, fits func(client.Listed) bool) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder // the latest first
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, directive
	}
	runs, err := conn.runs.List(ctx, maxOffers)
	if err != nil {
		return nil, directive
	}
	var offers []string
	for _, r := range runs {
		if fits(r) {
			offers = append(offers, r.Run+"\t"+printable(strings.TrimSpace(string(r.State)+" "+r.Plan)))
		}
	}
	return offers, directive
}

// plansOrFiles offers published plans, and lets the shell offer files.
func plansOrFiles(ctx context.Context, p *Program, _ []string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveKeepOrder
	at, err := p.place()
	if err != nil || at.local == nil && at.store.Driver != store.Postgres {
		return nil, directive // opening an embedded store would create it
	}
	store, err := at.ledger(ctx, p)
	if err != nil {
		return nil, directive
	}
	plans, err := store.ListPlans(ctx, ledger.Page{Limit: maxOffers})
	if err != nil {
		return nil, directive
	}
	var offers []string
	for _, published := range plans {
		offers = append(offers, published.Name+"@"+published.Version)
	}
	return offers, directive
}
