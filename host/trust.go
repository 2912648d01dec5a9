package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"chimera.ai/engine/config"
	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// Bootstrap returns the root of trust that a configuration pins, or nil if it has
// none.
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

// seen is the file in which a process keeps the last statement that it has read.
type seen string

// maxSeen bounds the file, in bytes.
const maxSeen = 4 << 10

// Load implements [trust.Memory].
func (f seen) Load() (s trust.Seen, err error) {
	raw, err := wholefile.Read(string(f), maxSeen)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = strict.Decode(raw, &s)
	}
	if err == nil && (s.N < 0 || s.Digest == "") {
		err = errors.New("it names no statement")
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", string(f), err)
	}
	return s, nil
}

// Save implements [trust.Memory].
func (f seen) Save(s trust.Seen) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return wholefile.Replace(string(f), append(raw, '\n'))
}

// authority reads what admins have stated, and verifies it at once: a worker does
// not begin with an invalid chain, nor sign a log with another key than they state.
// former are the previous keys of the log.
func authority(ctx context.Context, o *Options, kept *store.Opened) (r *trust.Reader, former []string, err error) {
	b := o.Trust
	r = &trust.Reader{Source: kept.Ledger, Bootstrap: b}
	if o.Seen != "" {
		r.Memory = seen(o.Seen)
	}
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
