package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
)

// A program starts a run, and shows its nodes until it ends.
func Example() {
	ctx := context.Background()
	temporal, err := sdk.Dial(sdk.Options{HostPort: "localhost:7233"})
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()
	runs := client.New(temporal, client.Options{})

	run, err := runs.Start(ctx, client.Request{
		ID:    "greet-ada",
		Start: contract.Start{Plan: "greet@1.0.0", Input: json.RawMessage(`{"name": "Ada"}`)},
	})
	var exists *client.ExistsError
	if errors.As(err, &exists) {
		log.Fatalf("an id is given once, and this run is %s", exists.State)
	}
	if err != nil {
		log.Fatal(err)
	}
	ending, err := runs.Follow(ctx, run, func(seen client.Progress) {
		switch {
		case seen.State != nil:
			fmt.Println(seen.State.Counts.Succeeded, "nodes have succeeded")
		case seen.Stuck != nil:
			fmt.Println(seen.Stuck.Cause, seen.Stuck.Hint)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ending.State, string(ending.Output))
}
