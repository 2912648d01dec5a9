package host

import (
	"context"
	"errors"
	"fmt"

	"chimera.ai/engine/config"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// Bootstrap returns the configured root of trust, or nil if there is none.
func Bootstrap(c config.Config) (*trust.Bootstrap, error) {
	switch {
	case c.Trust.Bootstrap == "" && c.Trust.Pin == "":
		return nil, nil
	case c.Trust.Bootstrap == "":
		return nil, errors.New("read the root of trust: trust.pin is set, and trust.bootstrap is not")
	case c.Trust.Pin == "":
		return nil, errors.New("read the root of trust: trust.bootstrap is set, and trust.pin, the digest that it must have, is not")
	}
	raw, err := readFile(c.Trust.Bootstrap, trust.MaxBootstrap)
	if err != nil {
		return nil, fmt.Errorf("read the root of trust: %w", err)
	}
	b, err := trust.Pinned(raw, c.Trust.Pin)
	if err != nil {
		return nil, fmt.Errorf("read the root of trust: %s: %w", c.Trust.Bootstrap, err)
	}
	return b, nil
}

// authority reads the admins' statements once at the start: a worker must not start with
// an invalid chain, nor sign the log with a key other than the stated one. former holds
// the log's earlier keys.
func authority(ctx context.Context, b *trust.Bootstrap, kept *store.Opened) (r *trust.Reader, former []string, err error) {
	r = &trust.Reader{Source: kept.Ledger, Bootstrap: b}
	s, err := r.State(ctx)
	if err != nil {
		return nil, nil, err
	}
	if have := kept.Ledger.Origin(); have != b.Log.Origin {
		return nil, nil, fmt.Errorf("read authority: the bootstrap is of the log %s, and this one is called %.120q", b.Log.Origin, have)
	}
	if kept.Key != nil && s.Log() != (trust.LogKey{Origin: kept.Key.Name(), Key: kept.Key.Public()}) {
		return nil, nil, errors.New("read authority: the log's key (ledger.key) is not the one that the admins have stated last")
	}
	for _, k := range s.LogKeys[:len(s.LogKeys)-1] {
		former = append(former, k.Key)
	}
	return r, former, nil
}
