package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// disk mounts a small disk, which a test can fill and free again.
func disk(t *testing.T) (dir string, fill, free func()) {
	dir = t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m,mode=0755"), "a disk can be full only where one can be mounted: run this as root")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	filler := filepath.Join(dir, "filler")
	fill = func() {
		f, err := os.Create(filler)
		require.NoError(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NoError(t, f.Close())
	}
	return dir, fill, func() { require.NoError(t, os.Remove(filler)) }
}

// TestTheDiskIsFull: a run whose store cannot write waits, and says why; when there
// is room again it goes on, and all of it is recorded.
func TestTheDiskIsFull(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, dir string) store.Options{
		"sqlite": func(t *testing.T, dir string) store.Options { return store.Options{Dir: filepath.Join(dir, "store")} },
		"postgres": func(t *testing.T, dir string) store.Options {
			cluster, err := pgtest.Start(t.Context(), t.TempDir())
			require.NoError(t, err)
			t.Cleanup(cluster.Kill)
			space := filepath.Join(dir, "space")
			require.NoError(t, os.Mkdir(space, 0o700))
			require.NoError(t, cluster.Own(space))
			reachable(t, space)
			conn, err := pgx.Connect(t.Context(), cluster.URL("postgres"))
			require.NoError(t, err)
			for _, q := range []string{"CREATE TABLESPACE small LOCATION '" + space + "'", "CREATE DATABASE small TABLESPACE small"} {
				_, err = conn.Exec(t.Context(), q)
				require.NoError(t, err)
			}
			require.NoError(t, conn.Close(t.Context()))
			return migrated(t, store.Options{Dir: filepath.Join(t.TempDir(), "store"), URL: cluster.URL("small")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			dir, fill, free := disk(t)
			log, gate := new(lines), make(chan struct{})
			h := stage.Host(t, host.Options{
				Store: open(t, dir), Logger: slog.New(slog.NewTextHandler(log, nil)), Skills: []skills.Skill{gated(gate)},
			})
			// More outcomes than the existing pages have room for.
			const many = 400
			nodes, edges := []string{"b test/gate 60000"}, []string{"$input.x -> b.x"}
			for i := range many {
				nodes = append(nodes, fmt.Sprintf("n%d engine/pass 500", i))
				edges = append(edges, fmt.Sprintf("b.x -> n%d.x", i))
			}
			run := stage.Start(t, h.Client(), source("", nodes, edges), `{"x":1}`)
			stage.Until(t, "b runs", func() bool { return stage.State(t, h.Client(), run).Counts.Running == 1 })
			fill()
			close(gate)
			stage.Until(t, "the run tries again and again, and says why", func() bool {
				return len(waits.FindAllString(log.String(), -1)) > 2
			})
			about, err := h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
			require.NoError(t, err)
			require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, about.GetWorkflowExecutionInfo().GetStatus())
			free()
			require.NoError(t, stage.Await(t, h.Client(), run, nil))
			r := told(t, h.Store(), run)
			require.Equal(t, ledger.RunSucceeded, r.State)
			require.Len(t, r.Outcomes, many+1)
		})
	}
}

// waits is what a run says if it cannot write outcomes, large values, or its end.
var waits = regexp.MustCompile(`(?i)(engine/journal|put blob|not written)[^\n]*(no space left|disk is full)`)

// reachable lets everybody enter the folders above a path that belong to the test:
// the server is another user.
func reachable(t *testing.T, path string) {
	for at := filepath.Dir(path); strings.HasPrefix(at, os.TempDir()) && at != filepath.Clean(os.TempDir()); at = filepath.Dir(at) {
		info, err := os.Stat(at)
		require.NoError(t, err)
		if err := os.Chmod(at, info.Mode().Perm()|0o111); err != nil && !errors.Is(err, fs.ErrPermission) {
			require.NoError(t, err)
		}
	}
}

// gated is a skill that ends when the gate is open.
func gated(gate <-chan struct{}) skills.Skill {
	return skill("gate", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case <-gate:
			return json.RawMessage(`{"x":1}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}
