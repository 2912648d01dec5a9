package main

import (
	"context"
	"strings"

	flag "github.com/spf13/pflag"
)

func terminateCommand(p *Program, fs *flag.FlagSet) action {
	reason := fs.String("reason", "", "`TEXT`, recorded in the run's history: why it may not end by itself")
	return func(ctx context.Context, operands []string) error {
		switch {
		case strings.TrimSpace(*reason) == "":
			return misuse("chimera terminate needs --reason TEXT, which the run's history keeps").
				withHint("%s asks a run to end by itself; try that first.", p.command("cancel", operands[0]))
		case len(*reason) > maxReason:
			return misuse("the reason has more than %d bytes", maxReason)
		}
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		run, err := conn.runs.Terminate(ctx, operands[0], *reason)
		if err != nil {
			return conn.failed(err)
		}
		if p.json() {
			return p.document(struct {
				Run       string `json:"run"`
				RunID     string `json:"run_id"`
				Requested bool   `json:"terminate_requested"`
			}{run.ID, run.RunID, true})
		}
		p.printf("%s\n", run.ID)
		p.say("terminated: nothing is compensated, and calls in flight end by themselves. A running worker records it in the ledger within a minute")
		return nil
	}
}
