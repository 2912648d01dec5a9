package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"go.temporal.io/sdk/client"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// stand is a server of its own with a host on it.
func stand(ctx context.Context, sealing payload.Sealing) (_ *host.Host, done func() error, err error) {
	var closers []func() error
	done = func() error {
		var err error
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, done())
		}
	}()
	server, err := devserver.Start(ctx, devserver.Options{})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, func() error { return server.Stop(context.WithoutCancel(ctx)) })
	dir, err := os.MkdirTemp("", "chimera-bench-")
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, func() error { return os.RemoveAll(dir) })
	h, err := host.New(ctx, host.Options{
		Client:          client.Options{HostPort: server.Address, Namespace: server.Namespace},
		Store:           store.Options{Dir: filepath.Join(dir, "store")},
		Sealing:         sealing,
		ActivityPollers: pollers,
		Logger:          slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, h.Close)
	return h, done, h.Start()
}

// sealing prints what sealing costs: the same runs with and without keys, by
// turns, each side on a server of its own.
func (b *bench) sealing(ctx context.Context) (err error) {
	key, err := payload.NewKey("bench")
	if err != nil {
		return err
	}
	ring, err := payload.ParseKeys([]string{key})
	if err != nil {
		return err
	}
	var sides [2]*bench
	for i, s := range []payload.Sealing{{Keys: ring, Compress: true}, {Compress: true}} {
		h, done, failed := stand(ctx, s)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, done()) }()
		sides[i] = &bench{client: h.Client(), ledger: h.Store().Ledger, rounds: b.rounds}
	}
	fmt.Println("\nSealing, each as min median max of", b.rounds, "runs")
	for _, c := range []struct {
		name string
		kind func(n int, timeout int) string
		each int
	}{{"chain", chain, local}, {"chain", chain, ordinary}, {"fan", fan, ordinary}} {
		const n = 200
		name := fmt.Sprintf("%s of %d nodes, timeout_ms %d", c.name, n, c.each)
		if err := b.against(ctx, name, sides[0].engine(c.kind(n, c.each)), sides[1].engine(c.kind(n, c.each))); err != nil {
			return err
		}
	}
	return nil
}

// against prints how much longer the sealed side takes, and how much of this
// process's time.
func (b *bench) against(ctx context.Context, name string, sealed, plain execution) error {
	var ours, theirs, wall, work figures
	for i := range b.rounds + 1 {
		before, err := cpu()
		if err != nil {
			return err
		}
		s, err := timed(ctx, sealed)
		if err != nil {
			return fmt.Errorf("%s: sealed: %w", name, err)
		}
		between, err := cpu()
		if err != nil {
			return err
		}
		p, err := timed(ctx, plain)
		if err != nil {
			return fmt.Errorf("%s: plain: %w", name, err)
		}
		after, err := cpu()
		if err != nil {
			return err
		}
		if i == 0 {
			continue // warm-up
		}
		ours = append(ours, s.Seconds()*1000)
		theirs = append(theirs, p.Seconds()*1000)
		wall = append(wall, s.Seconds()/p.Seconds())
		work = append(work, (between-before).Seconds()/(after-between).Seconds())
	}
	fmt.Printf("%-44s sealed ms %s   plain ms %s   longer %s   processor time %s\n",
		name, ours.row("%7.1f"), theirs.row("%7.1f"), wall.row("%5.2f"), work.row("%5.2f"))
	return nil
}
