package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"chimera.ai/engine/contract"
)

// journal keeps batches of outcomes as files: one directory a run, named by the
// digest of its identity, and one file a batch.
type journal struct{ dir string }

// Write implements activities.Journal. A batch that comes again replaces
// itself.
func (j journal) Write(_ context.Context, batch contract.JournalRequest) error {
	data, err := json.Marshal(batch)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	sum := sha256.Sum256([]byte(batch.Run.Workflow + "\x00" + batch.Run.Origin))
	dir := filepath.Join(j.dir, hex.EncodeToString(sum[:]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return contract.Errorf(contract.StoreUnavailable, "write journal: %w", err)
	}
	temporary, err := os.CreateTemp(dir, ".batch-*")
	if err != nil {
		return contract.Errorf(contract.StoreUnavailable, "write journal: %w", err)
	}
	_, err = temporary.Write(data)
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(dir, strconv.Itoa(batch.Batch)+".json"))
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return contract.Errorf(contract.StoreUnavailable, "write journal: %w", err)
	}
	return nil
}
