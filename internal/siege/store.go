package siege

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

// Keep is a store that can be taken away, and brought back.
type Keep struct {
	Name    string
	Options store.Options
	// Outages are the ways in which it can be away.
	Outages map[string]func() (back func(), err error)
}

// Folder is a store in a folder, whose large values can be refused, or be another
// folder's.
func Folder(t testing.TB) *Keep {
	dir := filepath.Join(t.TempDir(), "store")
	return &Keep{Name: "folder", Options: store.Options{Dir: dir}, Outages: map[string]func() (func(), error){
		"refusing": func() (func(), error) { return refuse(filepath.Join(dir, "blobs")) },
		"emptied":  func() (func(), error) { return empty(filepath.Join(dir, "blobs")) },
	}}
}

// refuse puts a file where a folder is.
func refuse(dir string) (back func(), err error) {
	if err := os.Rename(dir, dir+".away"); err != nil {
		return nil, err
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		return nil, err
	}
	return func() {
		if err := os.Remove(dir); err != nil {
			panic(err)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			panic(err)
		}
	}, nil
}

// empty puts an empty folder where another one is, as where a volume is unmounted. What
// is written to it is lost.
func empty(dir string) (back func(), err error) {
	if err := os.Rename(dir, dir+".away"); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return func() {
		if err := os.RemoveAll(dir); err != nil {
			panic(err)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			panic(err)
		}
	}, nil
}

// Disk is a store on a small disk, which can be full; nil where none can be mounted.
func Disk(t testing.TB) *Keep {
	dir := mount(t)
	if dir == "" {
		return nil
	}
	return &Keep{Name: "disk", Options: store.Options{Dir: filepath.Join(dir, "store")}, Outages: map[string]func() (func(), error){
		"full": func() (func(), error) { return fill(filepath.Join(dir, "filler")) },
	}}
}

// fill takes all room that there is.
func fill(file string) (free func(), err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<20))
	}
	for err = nil; err == nil; {
		_, err = f.Write(make([]byte, 512))
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return func() {
		if err := os.Remove(file); err != nil {
			panic(err)
		}
	}, nil
}

// Database is a store on a PostgreSQL of its own, which can hang, be slow, and be
// killed. Large values are in it, or in a folder.
func Database(t testing.TB, blobs bool) *Keep {
	cluster, err := pgtest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(cluster.Kill)
	pgtest.Create(t, cluster.URL("postgres"), "siege")
	key, _, err := ledger.NewKey("siege.example.com/log")
	require.NoError(t, err)
	o := store.Options{Driver: store.Postgres, URL: cluster.URL("siege"), Key: key, InDatabase: blobs}
	if !blobs {
		o.Dir = filepath.Join(t.TempDir(), "store")
	}
	_, err = store.Migrate(t.Context(), o)
	require.NoError(t, err)
	return &Keep{Name: fmt.Sprintf("postgres (blobs %t)", blobs), Options: o, Outages: map[string]func() (func(), error){
		"hanging": func() (func(), error) {
			cluster.Pause()
			return cluster.Resume, nil
		},
		"slow": func() (func(), error) { return slow(cluster), nil },
		"killed": func() (func(), error) {
			cluster.Kill()
			return func() {
				if err := cluster.Restart(context.Background()); err != nil {
					panic(err)
				}
			}, nil
		},
	}}
}

// slow lets the server work for a tenth of the time.
func slow(cluster *pgtest.Cluster) (back func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			cluster.Pause()
			select {
			case <-end:
				cluster.Resume()
				return
			case <-time.After(450 * time.Millisecond):
			}
			cluster.Resume()
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
