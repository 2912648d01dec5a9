package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"chimera.ai/engine/client"
	"chimera.ai/engine/payload"
)

// values shows the inputs and outputs of a node of a run, from the run's history and
// the deployment's store.
func (p *Program) values(ctx context.Context, conn *connection, id, node string) error {
	found, err := conn.runs.Values(ctx, id, node, struct {
		*payload.Reader
		*payload.Values
	}{payload.NewReader(conn.blobs, conn.sealing.Keys), payload.NewValues(conn.blobs, conn.sealing, conn.namespace)})
	var unreadable *client.UnreadableError
	var unknown *client.NodeError
	var uncalled *client.UncalledError
	switch {
	case errors.As(err, &unreadable):
		return unanswered("%s", unreadable).
			withHint("Reading them needs the deployment's store (store.*) and, if payloads are sealed, its keys (payload.keys).")
	case errors.As(err, &unknown):
		return negative("%s", unknown).meant("", unknown.Node, unknown.Nodes, "chimera status lists its nodes.")
	case errors.As(err, &uncalled):
		return negative("%s", uncalled)
	case err != nil:
		return conn.failed(err)
	}
	if p.json() {
		return p.document(found)
	}
	p.exchanged(found)
	return nil
}

// exchanged writes the values for people.
func (p *Program) exchanged(all *client.Exchanges) {
	p.printf("node  %s  %s\n", printable(all.Node), printable(all.Operation))
	if all.Partial {
		p.say("some of this run's histories are no longer retained: calls may be missing")
	}
	if len(all.Calls) == 0 {
		p.say("nothing is recorded of the node: it has not been called, or its calls have not ended")
	}
	for i, c := range all.Calls {
		p.printf("\ncall %d", i+1)
		if c.StartTime != nil {
			p.printf("  %s", c.StartTime.Local().Format(time.DateTime))
		}
		if c.Attempts > 1 {
			p.printf("  %s", plural(c.Attempts, "attempt"))
		}
		p.printf("\n")
		line := func(name string, value []byte) {
			if len(value) > 0 {
				p.printf("    %s: %s\n", printable(name), printable(string(value)))
			}
		}
		switch {
		case c.Local && c.InputDigest != "":
			p.printf("  got: not recorded of a local node, but for the digest %s\n", c.InputDigest)
		case c.Local:
			p.printf("  got: not recorded of a local node\n")
		case all.Operation == "": // $input and $output
		default:
			p.printf("  got\n")
		}
		for _, g := range c.Got {
			line(g.Edge, g.Value)
			line(g.Edge+" (the whole output)", g.Output)
			if g.Error != nil {
				line(g.Edge, []byte(string(g.Error.Kind)+": "+g.Error.Message))
			}
		}
		line("the plan's input", c.Input)
		switch {
		case c.Failure != nil:
			p.printf("  failed (%s): %s\n", c.Failure.Kind, printable(c.Failure.Message))
			line("details", c.Failure.Details)
		case c.EndTime == nil:
			p.printf("  and has not answered yet\n")
		default:
			p.printf("  gave")
			if c.OutputDigest != "" {
				p.printf("  (the whole has the digest %s)", c.OutputDigest)
			}
			p.printf("\n")
			for _, port := range slices.Sorted(maps.Keys(c.Gave)) {
				line(port, c.Gave[port])
			}
		}
	}
}
