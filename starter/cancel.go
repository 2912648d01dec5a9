package main

import (
	"context"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/client"
)

func cancelCommand(p *Program, _ *flag.FlagSet) action {
	return func(ctx context.Context, operands []string) error {
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		run, err := conn.runs.Cancel(ctx, operands[0])
		if err != nil {
			return conn.failed(err)
		}
		held, err := conn.runs.Stuck(ctx, run.ID)
		if err != nil {
			p.say("it is not known whether the run goes on: %s", conn.failed(err))
		}
		if p.json() {
			return p.document(struct {
				Run       string `json:"run"`
				RunID     string `json:"run_id"`
				Requested bool   `json:"cancel_requested"`
				// Stuck says why the request has no effect yet.
				Stuck *client.Stuck `json:"stuck,omitempty"`
			}{run.ID, run.RunID, true, held})
		}
		p.printf("%s\n", run.ID)
		if held != nil {
			p.say("asked to end, without effect so far: %s", printable(standstill(held)))
			return nil
		}
		p.say("asked to end; %s shows how it ends", p.command("status", run.ID))
		return nil
	}
}
