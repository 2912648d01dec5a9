package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"chimera.ai/engine/ledger"
)

// The files of a shared folder.
const (
	RequestFile = "request"
	ReplyFile   = "reply"
)

// folder is a witness that shares a folder with the log.
type folder struct {
	dir, key string
	// asked is the request that was written last.
	asked []byte
}

func (f *folder) ask(_ context.Context, q question) ([]byte, error) {
	reply, err := readFile(filepath.Join(f.dir, ReplyFile), ledger.MaxCheckpointBytes)
	old := int64(0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		c, _, _, err := ledger.Cosignature(reply, f.key)
		if err != nil {
			return nil, fmt.Errorf("%s is not a checkpoint that it has cosigned: %w", ReplyFile, err)
		}
		if c.Origin != q.Origin {
			return nil, fmt.Errorf("%s is of the log %q", ReplyFile, c.Origin)
		}
		old = c.Size
	}
	if old > q.Size {
		return nil, &ahead{known: old, size: q.Size, shown: true}
	}
	if reply == nil || old != q.Size {
		request, err := q.request(old)
		if err != nil {
			return nil, err
		}
		if raw := request.Encode(); !bytes.Equal(raw, f.asked) {
			if err := writeFile(filepath.Join(f.dir, RequestFile), raw, 0o644); err != nil {
				return nil, err
			}
			f.asked = raw
		}
	}
	if reply == nil {
		return nil, errWaiting
	}
	return reply, nil
}

// readFile reads a file that somebody else writes, and which may be anything.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(raw)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return raw, nil
}

// writeFile writes a file atomically: it is on disk before it gets its name.
func writeFile(path string, raw []byte, mode fs.FileMode) (err error) {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
