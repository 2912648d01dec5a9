package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/client"
)

// maxRuns bounds a list.
const maxRuns = 10_000

func runsCommand(p *Program, fs *flag.FlagSet) action {
	limit := fs.Int("limit", 50, "`N` runs at most")
	return func(ctx context.Context, _ []string) error {
		if *limit < 1 || *limit > maxRuns {
			return misuse("--limit is between 1 and %d", maxRuns)
		}
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		runs, err := conn.runs.List(ctx, *limit)
		if err != nil {
			return conn.failed(err)
		}
		if p.json() {
			return p.document(struct {
				Runs []client.Listed `json:"runs"`
			}{runs})
		}
		if len(runs) == 0 {
			p.say("there are no runs in namespace %s at %s", conn.namespace, conn.address)
			return nil
		}
		table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "RUN\tPLAN\tSTATE\tSTARTED\tTOOK")
		for _, r := range runs {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", printable(r.Run), printable(r.Plan), r.State, r.StartTime.Local().Format(time.DateTime), took(r))
		}
		return table.Flush()
	}
}

// took is the duration of a run that has ended, or "".
func took(r client.Listed) string {
	if r.CloseTime == nil {
		return ""
	}
	return r.CloseTime.Sub(r.StartTime).Round(time.Millisecond).String()
}
