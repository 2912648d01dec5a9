package main

import (
	"context"
	"flag"
	"net"

	"chimera.ai/engine/console"
	"chimera.ai/engine/host"
	"chimera.ai/engine/store"
)

// served is the JSON answer of console, once it listens.
type served struct {
	Address string `json:"address"`
	// Codec is what Temporal's clients are told as codec endpoint.
	Codec string `json:"codec"`
}

func consoleCommand(p *Program, fs *flag.FlagSet) action {
	address := fs.String("address", "", "`HOST:PORT` to listen on; port 0 takes a free one (console.address)")
	return func(ctx context.Context, _ []string) error { return p.console(ctx, *address) }
}

// console serves until ctx ends. So far there is the codec endpoint.
func (p *Program) console(ctx context.Context, address string) error {
	settings, err := p.settings()
	if err != nil {
		return err
	}
	if address == "" {
		address = settings.Console.Address
	}
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return misuse("console.address %q is not host:port", printable(address))
	}
	endpoint := console.Codec{Origins: settings.Console.Codec.Origins}
	if endpoint.Token, err = settings.CodecToken(); err != nil {
		return misuse("%s", err)
	}
	if endpoint.Token == "" {
		return unsupported("a console without the codec endpoint").withHint("Set console.codec.token to a reference to its token.")
	}
	sealing, err := host.Sealing(settings)
	if err != nil {
		return misuse("%s", err)
	}
	if endpoint.Keys = sealing.Keys; endpoint.Keys == nil {
		p.say("there are no payload.keys: only values that are in the store are opened")
	}
	at, err := p.placeOf(settings)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	blobs, done, err := store.OpenBlobs(bounded, at.store)
	if err != nil {
		return storeError(err)
	}
	p.later(done)
	endpoint.Blobs = blobs
	handler, err := endpoint.Handler()
	if err != nil {
		return misuse("%s", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return unanswered("the console cannot listen: %s", err)
	}
	if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
		p.say("%s is not on the loopback address, and this is no TLS: put a server with TLS in front", printable(address))
	}
	s := served{Address: l.Addr().String(), Codec: "http://" + l.Addr().String() + "/codec"}
	if p.json() {
		if err := p.document(s); err != nil {
			return err
		}
	}
	p.say("codec endpoint   %s\npage for browsers %s/\nCtrl-C ends it", s.Codec, s.Codec)
	if err := console.Serve(ctx, l, handler); err != nil {
		return unanswered("%s", err)
	}
	return nil
}
