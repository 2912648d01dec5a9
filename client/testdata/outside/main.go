// Command outside uses package client as a program of another module does. It prints
// what it has seen as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
)

const (
	pass = `{apiVersion: chimera/v1, kind: Plan, name: pass, version: "1", agent: tester,
  input_schema: {type: object}, output_schema: {type: object},
  nodes: [{id: a, template: engine/pass}], edges: [$input.$ -> a.$, a.$ -> $output.$]}`
	nap = `{apiVersion: chimera/v1, kind: Plan, name: nap, version: "1", agent: tester,
  input_schema: {type: object}, output_schema: {type: object},
  nodes: [{id: nap, template: engine/sleep, timeout_ms: 3600000, with: {ms: 3500000}}], edges: [nap -> $output]}`
)

// seen is what this program prints.
type seen struct {
	Ending     client.Ending
	States     int
	Status     *client.Status
	Cancelled  client.Ending
	Terminated contract.RunState
	// Errors are the types of the errors of what is refused.
	Errors []string
}

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	temporal, err := sdk.DialContext(ctx, sdk.Options{HostPort: address})
	if err != nil {
		return err
	}
	defer temporal.Close()
	runs := client.New(temporal, client.Options{})
	var s seen

	request := client.Request{ID: "outside", Summary: "from outside", Start: contract.Start{Source: pass, Input: json.RawMessage(`{"x": 1}`)}}
	started, err := runs.Start(ctx, request)
	if err != nil {
		return err
	}
	s.Ending, err = runs.Follow(ctx, started, func(p client.Progress) {
		if p.State != nil {
			s.States++
		}
	})
	if err != nil {
		return err
	}
	if s.Status, err = runs.Status(ctx, "outside"); err != nil {
		return err
	}

	for _, id := range []string{"outside-cancelled", "outside-terminated"} {
		if _, err := runs.Start(ctx, client.Request{ID: id, Start: contract.Start{Source: nap}}); err != nil {
			return err
		}
	}
	cancelled, err := runs.Cancel(ctx, "outside-cancelled")
	if err != nil {
		return err
	}
	if s.Cancelled, err = runs.Follow(ctx, cancelled, nil); err != nil {
		return err
	}
	if _, err := runs.Terminate(ctx, "outside-terminated", "this test is over"); err != nil {
		return err
	}
	status, err := runs.Status(ctx, "outside-terminated")
	if err != nil {
		return err
	}
	s.Terminated = status.State

	_, again := runs.Start(ctx, request)
	_, nobody := runs.Status(ctx, "nobody")
	_, ended := runs.Cancel(ctx, "outside")
	var exists *client.ExistsError
	var absent *client.NotFoundError
	var over *client.EndedError
	if !errors.As(again, &exists) || !errors.As(nobody, &absent) || !errors.As(ended, &over) {
		return fmt.Errorf("errors of other types: %v, %v, %v", again, nobody, ended)
	}
	s.Errors = []string{string(exists.State), absent.Run, string(over.State)}
	return json.NewEncoder(os.Stdout).Encode(s)
}
