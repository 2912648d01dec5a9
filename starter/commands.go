package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	flag "github.com/spf13/pflag"
)

// action runs a command with its operands.
type action func(ctx context.Context, operands []string) error

// command is a command, or a part of a command that has parts.
type command struct {
	name string
	// operands is the form of the operands in help: "PLAN…".
	operands string
	summary  string
	// least and most bound the number of operands; -1 for most means no bound.
	least, most int
	// formats are values of --format beside text and json.
	formats []string
	// completes offers operands to a shell, or is nil.
	completes completer
	// parts are the subcommands, one of which must be given if there is no prepare.
	parts []command
	// prepare adds the command's flags. Commands that are not supported yet have neither
	// prepare nor parts.
	prepare func(p *Program, fs *flag.FlagSet) action
}

// commands returns all commands, in the order of the help.
func commands() []command {
	return []command{
		{name: "compile", operands: "PLAN…", least: 1, most: -1, prepare: compileCommand, completes: files,
			summary: "check plans, and show what is wrong and where (- is standard input)"},
		{name: "graph", operands: "PLAN", least: 1, most: 1, prepare: graphCommand, formats: []string{"mermaid", "dot", "svg", "words"}, completes: files,
			summary: "draw a plan"},
		{name: "contain", operands: "LHS RHS | --batch", most: 2, prepare: containCommand, completes: files,
			summary: "decide whether every value of one JSON Schema is a value of another"},
		{name: "publish", operands: "PLAN… | --again [NAME[@VERSION]…]", most: -1, prepare: publishCommand, completes: files,
			summary: "check plans, sign them as their author, and keep the source of each under its name and version"},
		{name: "start", operands: "PLAN|NAME[@VERSION]|DIGEST", least: 1, most: 1, prepare: startCommand, completes: plansOrFiles,
			summary: "start a run, and follow it with --wait"},
		{name: "status", operands: "RUN", least: 1, most: 1, prepare: statusCommand, summary: "show a run", completes: anyRun},
		{name: "runs", prepare: runsCommand, summary: "list runs, the latest first"},
		{name: "effects", operands: "RUN", least: 1, most: 1, prepare: effectsCommand, completes: anyRun,
			summary: "show the effects of a run: what was decided, permitted and called, with the entries of the log"},
		{name: "cancel", operands: "RUN", least: 1, most: 1, prepare: cancelCommand, summary: "ask a run to end", completes: openRun},
		{name: "terminate", operands: "RUN --reason TEXT", least: 1, most: 1, prepare: terminateCommand, completes: openRun,
			summary: "end a run that cannot end by itself; nothing is compensated"},
		{name: "upgrade", operands: "RUN… | --all", most: -1, prepare: upgradeCommand, completes: openRun,
			summary: "move runs to this build of the worker, if their histories replay under it"},
		{name: "pause", operands: "RUN", least: 1, most: 1, prepare: pauseCommand, completes: openRun,
			summary: "let a run start nothing new; what is in flight ends, and people may sign"},
		{name: "resume", operands: "RUN", least: 1, most: 1, prepare: resumeCommand, completes: openRun, summary: "let a paused run go on"},
		{name: "retry", summary: "run again from a node"},
		{name: "approvals", parts: approvalParts(), summary: "list, show, sign and reject what waits for the approval of people"},
		{name: "signers", parts: signerParts(), summary: "enroll, list and revoke who approves, by statements of the admins"},
		{name: "tools", parts: toolParts(), summary: "import MCP tools, and decide on them"},
		{name: "agents", parts: agentParts(),
			summary: "add and list agents, by statements of the admins"},
		{name: "budgets", parts: budgetParts(), summary: "set and show what agents may spend, by statements of the admins"},
		{name: "policy", parts: policyParts(), summary: "test the operator's policy on cases, replay decisions, and compare policies"},
		{name: "simulate", operands: "OPERATION|PLAN | --report", most: 1, prepare: simulateCommand, parts: simulateParts(), completes: operationsOrFiles,
			summary: "say what the causal models of the policy expect of a call, or of a plan, and how good they were"},
		{name: "test", summary: "run the unit tests of plans"},
		{name: "audit", parts: auditParts(), summary: "export the ledger, verify an export offline, and control what it retains"},
		{name: "trust", parts: trustParts(), summary: "make keys and a bootstrap, and draft, sign and apply statements of the admins"},
		{name: "migrate", prepare: migrateCommand, summary: "migrate the store's database to this version"},
		{name: "schema", operands: "[NAME]", most: 1, prepare: schemaCommand, completes: schemaNames,
			summary: "print a JSON Schema for editors, or list them"},
		{name: "init", operands: "[DIR]", most: 1, prepare: initCommand, completes: files,
			summary: "make a folder with a plan, a catalog and a configuration to begin with"},
		{name: "dev", prepare: devCommand, summary: "run everything on this machine: Temporal, its web pages, the worker"},
		{name: "console", prepare: consoleCommand, summary: "serve the codec endpoint, which opens payloads for the Temporal UI"},
		{name: "mcp", summary: "be an MCP server"},
		{name: "completion", operands: "SHELL", least: 1, most: 1, prepare: completionCommand, completes: shellNames,
			summary: "print the script that completes commands in a shell: bash, zsh, fish or powershell"},
		{name: "version", prepare: versionCommand, summary: "print which build this is"},
	}
}

// supported reports whether the command is implemented.
func (c command) supported() bool { return c.prepare != nil || c.parts != nil }

// root returns the tree of commands that parses the arguments. Executing it sets the
// program's action.
func (p *Program) root() *cobra.Command {
	var asked bool
	root := &cobra.Command{
		Use: "chimera", SilenceErrors: true, SilenceUsage: true, Args: cobra.ArbitraryArgs,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.RunE = func(_ *cobra.Command, operands []string) error {
		switch {
		case len(operands) > 0:
			return noCommand(root, operands[0])
		case asked:
			return p.choose(command{}, root, p.version, nil)
		}
		writeHelp(p.Stderr)
		return misuse("no command is given")
	}
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		topic := words(cmd)
		if onlyParts(cmd) {
			topic = append(topic, cmd.Flags().Args()...)
		}
		p.action = func(context.Context) error { return p.help(topic) }
	})
	root.Flags().BoolVarP(&asked, "version", "v", false, "print which build this is")
	root.PersistentFlags().StringVar(&p.configFile, "config", "", "`FILE` with the configuration (chimera.yaml, if there)")
	root.PersistentFlags().String("format", formatText, "`FORMAT` of the answer: text or json")
	for _, c := range commands() {
		root.AddCommand(p.tree(c))
	}
	root.SetHelpCommand(p.tree(command{name: "help", operands: "[COMMAND [PART]]", most: -1, completes: topics, prepare: helpCommand,
		summary: "say what a command does, and which flags it takes"}))
	completeFlags(root, command{})
	return root
}

// tree returns a command with its subcommands.
func (p *Program) tree(c command) *cobra.Command {
	cmd := &cobra.Command{Use: c.name, Short: c.summary, Args: cobra.ArbitraryArgs, Hidden: !c.supported()}
	for _, part := range c.parts {
		cmd.AddCommand(p.tree(part))
	}
	switch {
	case !c.supported():
		cmd.DisableFlagParsing = true
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "--help" }) {
				return flag.ErrHelp
			}
			return unsupported("%s", cmd.CommandPath())
		}
	case c.prepare == nil:
		cmd.RunE = func(cmd *cobra.Command, operands []string) error {
			if len(operands) == 0 || operands[0] == "" {
				return misuse("%s needs %s", cmd.CommandPath(), c.takes()).withHint("%s", usage(c.name, c))
			}
			return noCommand(cmd, operands[0])
		}
	default:
		act := c.prepare(p, cmd.Flags())
		cmd.RunE = func(cmd *cobra.Command, operands []string) error { return p.choose(c, cmd, act, operands) }
	}
	cmd.ValidArgsFunction = p.completion(c)
	completeFlags(cmd, c)
	return cmd
}

// choose makes a command the program's action if its operands are valid.
func (p *Program) choose(c command, cmd *cobra.Command, act action, operands []string) error {
	if format := cmd.Flag("format").Value.String(); slices.Contains(c.all(), format) {
		p.format = format
	} else {
		return misuse("--format is one of %s", strings.Join(c.all(), ", "))
	}
	shown := usage(strings.Join(words(cmd), " "), c)
	switch {
	case len(operands) < c.least || slices.Contains(operands, ""):
		return misuse("%s needs %s", cmd.CommandPath(), c.operands).withHint("%s", shown)
	case c.most >= 0 && len(operands) > c.most:
		return misuse("%s does not take %q", cmd.CommandPath(), operands[c.most]).withHint("%s", shown)
	}
	p.action = func(ctx context.Context) error { return act(ctx, operands) }
	return nil
}

// onlyParts reports that a command does nothing by itself: its first operand is a part.
func onlyParts(cmd *cobra.Command) bool {
	return cmd.HasSubCommands() && cmd.Annotations["itself"] == ""
}

// words returns the words of a command after "chimera".
func words(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// noCommand reports a word that is not a command of its parent.
func noCommand(parent *cobra.Command, name string) error {
	var there []string
	for _, c := range parent.Commands() {
		there = append(there, c.Name())
	}
	if !parent.HasParent() {
		return misuse("there is no command %q", name).meant("chimera ", name, there, "chimera help lists the commands.")
	}
	return misuse("%s has no part %q", parent.CommandPath(), name).
		meant("", name, there, "chimera help "+parent.Name()+" lists the parts.")
}

// all returns the values of --format.
func (c command) all() []string { return append([]string{formatText, formatJSON}, c.formats...) }

// takes returns the form of a command's operands.
func (c command) takes() string {
	if c.prepare != nil || c.parts == nil {
		return c.operands
	}
	var parts []string
	for _, part := range c.parts {
		parts = append(parts, strings.TrimSpace(part.name+" "+part.operands))
	}
	return strings.Join(parts, " | ")
}

func usage(path string, c command) string {
	return strings.TrimSpace("Usage: chimera " + path + " [flags] " + c.takes())
}
