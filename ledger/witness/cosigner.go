package witness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"chimera.ai/engine/ledger"
)

// Cosigner is a witness that answers in a shared folder. The caller ensures that only
// one cosigner with the same state answers at a time.
type Cosigner struct {
	// Secret is the witness's key, PRIVATE+KEY+….
	Secret string
	// Log is the verifier key of the log.
	Log string
	// Dir is the folder that is shared with the log. State is the file where the
	// witness keeps what it has signed last: it lies outside Dir, where nobody else
	// can write. Losing it makes a witness that knows nothing.
	Dir, State string
}

// Answer is what a [Cosigner] did.
type Answer struct {
	// Size is how many entries the checkpoint has that it has cosigned last.
	Size int64 `json:"size"`
	// Before is how many that was before.
	Before int64 `json:"before"`
	// New: it has cosigned now.
	New bool `json:"new"`
}

// ErrRefused reports that the request does not extend what the witness has
// cosigned, or is not signed by the log's key.
var ErrRefused = errors.New("the witness refuses")

// Answer looks into the folder once, and cosigns what is asked if it extends what
// was cosigned before. The state is on the disk before the cosignature is given
// away. [fs.ErrNotExist] says that nobody has asked; [ErrRefused] that the request
// is not one to sign.
func (k Cosigner) Answer() (Answer, error) {
	a, err := k.answer()
	if err != nil {
		return a, fmt.Errorf("cosign: %w", err)
	}
	return a, nil
}

func (k Cosigner) answer() (a Answer, err error) {
	last, err := readFile(k.State, ledger.MaxCheckpointBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	reply := filepath.Join(k.Dir, ReplyFile)
	if last == nil {
		// If the state is lost, an earlier cosignature is better than nothing.
		if last, err = k.mine(reply); err != nil {
			return a, err
		}
	}
	w, err := ledger.NewWitness(k.Secret, k.Log, last)
	if err != nil {
		return a, err
	}
	a.Size, a.Before = w.Last().Size, w.Last().Size
	if last != nil {
		// The log asks from here on: it may have lost what it was told.
		if have, err := readFile(reply, ledger.MaxCheckpointBytes); err != nil || !bytes.Equal(have, last) {
			if err := writeFile(reply, last, 0o644); err != nil {
				return a, err
			}
		}
	}
	raw, err := readFile(filepath.Join(k.Dir, RequestFile), maxRequest)
	if err != nil {
		return a, err
	}
	r, err := ParseRequest(raw)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	c, err := ledger.Signers{Log: k.Log}.Open(r.Checkpoint)
	switch {
	case err != nil:
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	case c.Checkpoint == w.Last():
		return a, nil // it is answered
	case c.Size > a.Size && r.Old != a.Size:
		// The log does not know yet what was cosigned last. The reply tells it.
		return a, nil
	}
	cosigned, err := w.Cosign(r.Checkpoint, r.Proof)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := writeFile(k.State, cosigned, 0o600); err != nil {
		return a, err
	}
	a.Size, a.New = c.Size, true
	return a, writeFile(reply, cosigned, 0o644)
}

// mine returns what lies in reply, if the witness has cosigned it.
func (k Cosigner) mine(reply string) ([]byte, error) {
	raw, err := readFile(reply, ledger.MaxCheckpointBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := ledger.NewWitness(k.Secret, k.Log, raw); err != nil {
		return nil, nil //nolint:nilerr // it is somebody else's, and will be replaced
	}
	return raw, nil
}
