// Command bench measures the engine against hand-written Temporal workflows, in
// one process and on one server, and prints ratios. Both sides have the same
// number of pollers, take as many activities eagerly, and do the same work; the
// hand-written one has else what the library gives by default. Runs alternate, so
// that a machine whose speed drifts slows both. Where a ratio has a
// bar, the spread of the pairs says whether it is held, is not, or whether the runs
// do not show it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

const pollers = 16

// bench holds both sides.
type bench struct {
	client client.Client
	// plain is a client as the library makes it, for the hand-written side.
	plain  client.Client
	rounds int
	// pairs is how many pairs of runs are held against a bar.
	pairs int
	// match selects cases by a part of their name.
	match string
	// server is the process id of the server, and ledger what the engine states.
	server int
	ledger ledger.Store
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 0, "counted runs of each side of a case; 0 means 5, and 21 where times are held against a bar")
	one := flags.String("compile", "", "compile one plan, `NAME:NODES`, and print the milliseconds and its edges")
	only := flags.String("only", "", "run only the cases of this group: compile, guardian, causal, ledger, audit, sealing, effects, speed, events or scale")
	match := flags.String("case", "", "of the group speed, run only the cases whose name holds this `TEXT`")
	profile := flags.String("profile", "", "write a profile of this process's processor time to `FILE`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	pairs := *rounds
	if *rounds <= 0 {
		*rounds, pairs = 5, 21
	}
	selected := func(group string) bool { return *only == "" || *only == group }
	if *one != "" {
		return compileOne(*one)
	}
	if selected("compile") {
		if err := compileTimes(*rounds); err != nil {
			return err
		}
	}
	if selected("guardian") {
		if err := decisions(*rounds); err != nil {
			return err
		}
	}
	if selected("causal") {
		if err := predictions(*rounds); err != nil {
			return err
		}
	}
	if selected("ledger") {
		if err := (&bench{rounds: *rounds}).log(ctx); err != nil {
			return err
		}
	}
	if selected("audit") {
		if err := (&bench{rounds: *rounds}).audit(); err != nil {
			return err
		}
	}
	if selected("sealing") {
		if err := (&bench{rounds: *rounds}).sealing(ctx); err != nil {
			return err
		}
	}
	if slices.Contains([]string{"compile", "guardian", "causal", "ledger", "audit", "sealing"}, *only) {
		return nil
	}
	if selected("effects") {
		err := onServer(ctx, func(server *devserver.Server, dir string) error { return effects(ctx, pairs, server, dir) })
		if err != nil || *only == "effects" {
			return err
		}
	}
	return onServer(ctx, func(server *devserver.Server, dir string) error {
		b := &bench{rounds: *rounds, pairs: pairs, match: *match}
		return b.runs(ctx, server, dir, selected)
	})
}

// onServer calls a function with a server of its own, and a folder.
func onServer(ctx context.Context, do func(server *devserver.Server, dir string) error) (err error) {
	server, err := devserver.Start(ctx, devserver.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	dir, err := os.MkdirTemp("", "chimera-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(server, dir)
}

// runs measures runs of plans beside hand-written workflows.
func (b *bench) runs(ctx context.Context, server *devserver.Server, dir string, selected func(group string) bool) (err error) {
	h, err := host.New(ctx, host.Options{
		Client:          client.Options{HostPort: server.Address, Namespace: server.Namespace},
		Store:           store.Options{Dir: filepath.Join(dir, "store")},
		Catalog:         echoCatalog(),
		Executables:     echoProgram,
		SharedQueue:     true,
		ActivityPollers: pollers,
		Logger:          slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := h.Start(); err != nil {
		return err
	}
	plain, err := dialPlain(ctx, server)
	if err != nil {
		return err
	}
	defer plain.Close()
	hand := handWorker(plain)
	if err := hand.Start(); err != nil {
		return err
	}
	defer hand.Stop()
	b.client, b.plain, b.server, b.ledger = h.Client(), plain, server.PID, h.Store().Ledger
	if selected("speed") {
		err = b.speed(ctx)
	}
	if err == nil && selected("events") {
		err = b.events(ctx)
	}
	if err == nil && selected("scale") {
		err = b.scale(ctx)
	}
	return err
}

// dialPlain connects a client as the library makes it.
func dialPlain(ctx context.Context, server *devserver.Server) (client.Client, error) {
	return client.DialContext(ctx, client.Options{
		HostPort: server.Address, Namespace: server.Namespace,
		Logger: log.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))),
	})
}
