package devserver

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scene is a source tree of a test: its tools module names version, and the go
// on PATH does what script says. It answers with the tree, which is the working
// directory, and the file that script's calls are written to.
func scene(t *testing.T, version, script string) (root, calls string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	calls = filepath.Join(root, "calls")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "tools"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "deep", "down"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "tools", "go.mod"),
		[]byte("module "+toolsModule+"\n\nrequire "+cliModule+" "+version+"\n"), 0o600))
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "go"), []byte("#!/bin/sh\necho call >>"+calls+"\n"+script), 0o755))
	t.Setenv("PATH", path+":/usr/bin:/bin")
	t.Chdir(filepath.Join(root, "deep", "down"))
	return root, calls
}

// real is the executable of this repository, and its version.
func real(t *testing.T) (path, version string) {
	t.Helper()
	root, err := sourceRoot()
	require.NoError(t, err)
	version, err = pinned(root)
	require.NoError(t, err)
	path, err = build(t.Context(), root, os.Stderr)
	require.NoError(t, err)
	return path, version
}

func TestFindOnPath(t *testing.T) {
	dir := t.TempDir()
	want := filepath.Join(dir, "temporal")
	require.NoError(t, os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", dir)
	have, err := Find(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, want, have)
}

// TestFindBeside: an archive that has both programs needs no PATH. What a source
// tree has built there is held to its version all the same.
func TestFindBeside(t *testing.T) {
	home, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	was := executable
	t.Cleanup(func() { executable = was })
	executable = func() (string, error) { return filepath.Join(dir, "chimera"), nil }
	want := filepath.Join(dir, "temporal")
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	for _, file := range []string{"chimera", "temporal"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\n"), 0o755))
	}
	have, err := Find(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, want, have)

	// By a link, as on PATH.
	link := filepath.Join(t.TempDir(), "chimera")
	require.NoError(t, os.Symlink(filepath.Join(dir, "chimera"), link))
	executable = func() (string, error) { return link, nil }
	have, err = Find(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, want, have)

	// A server on PATH comes first, and a file that is not a program is
	// ignored.
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "temporal"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", other)
	have, err = Find(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(other, "temporal"), have)
	t.Setenv("PATH", "")
	require.NoError(t, os.Chmod(want, 0o600))
	_, err = Find(t.Context(), nil)
	require.ErrorContains(t, err, "no Temporal server")

	executable = was
	t.Chdir(home)
	program, version := real(t)
	root, calls := scene(t, version, `ln -s `+program+` "$3"`)
	require.NoError(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "bin", "temporal"), []byte("#!/bin/sh\n"), 0o755))
	executable = func() (string, error) { return filepath.Join(root, "bin", "chimera"), nil }
	_, err = Find(t.Context(), new(bytes.Buffer))
	require.NoError(t, err)
	require.FileExists(t, calls, "it is of another version, and was built anew")
}

func TestFindNowhere(t *testing.T) {
	t.Setenv("PATH", "")
	t.Chdir(t.TempDir())
	_, err := Find(t.Context(), nil)
	require.ErrorContains(t, err, "there is no temporal on PATH or beside this program, and no source tree of Chimera")
}

// TestFindBuildsOnce: of many that look at one time one builds, the others wait
// for it, and who comes later finds it.
func TestFindBuildsOnce(t *testing.T) {
	program, version := real(t)
	root, calls := scene(t, version, "test \"$PWD\" = "+`"${3%/bin/*}/tools" && ln -s `+program+` "$3"`)
	var mu sync.Mutex
	var progress bytes.Buffer
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			var own bytes.Buffer
			path, err := Find(t.Context(), &own)
			mu.Lock()
			defer mu.Unlock()
			progress.Write(own.Bytes())
			if err != nil || path != filepath.Join(root, "bin", "temporal") {
				t.Errorf("found %q: %v", path, err)
			}
		})
	}
	wait.Wait()
	log, err := os.ReadFile(calls)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "call"))
	require.Equal(t, 1, strings.Count(progress.String(), "this is done once"))
	require.Contains(t, progress.String(), "built "+filepath.Join(root, "bin", "temporal"))

	progress.Reset()
	_, err = Find(t.Context(), &progress)
	require.NoError(t, err)
	require.Empty(t, progress.String())
}

// TestFindBuildsAnew: an executable of another version, or none at all, is replaced.
func TestFindBuildsAnew(t *testing.T) {
	program, version := real(t)
	for name, text := range map[string]string{"rubbish": "not a program", "script": "#!/bin/sh\n"} {
		t.Run(name, func(t *testing.T) {
			root, calls := scene(t, version, `ln -s `+program+` "$3"`)
			require.NoError(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "bin", "temporal"), []byte(text), 0o755))
			_, err := Find(t.Context(), new(bytes.Buffer))
			require.NoError(t, err)
			require.FileExists(t, calls)
		})
	}
}

func TestFindCannotBuild(t *testing.T) {
	program, version := real(t)
	for name, c := range map[string]struct{ version, script, want string }{
		"go fails":      {version, "echo no network >&2; exit 1", "no network"},
		"go lies":       {version, "exit 0", "no such file"},
		"other version": {"v1.99.0", `ln -s ` + program + ` "$3"`, "is not " + cliModule + " v1.99.0"},
	} {
		t.Run(name, func(t *testing.T) {
			root, _ := scene(t, c.version, c.script)
			_, err := Find(t.Context(), new(bytes.Buffer))
			require.ErrorContains(t, err, "building the Temporal server")
			require.ErrorContains(t, err, c.want)
			left, err := filepath.Glob(filepath.Join(root, "bin", "*.part"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
	t.Run("no go", func(t *testing.T) {
		scene(t, version, "")
		t.Setenv("PATH", "")
		_, err := Find(t.Context(), new(bytes.Buffer))
		require.ErrorContains(t, err, "no go to build")
	})
	t.Run("no version", func(t *testing.T) {
		root, _ := scene(t, version, "")
		require.NoError(t, os.WriteFile(filepath.Join(root, "tools", "go.mod"), []byte("module "+toolsModule+"\n"), 0o600))
		_, err := Find(t.Context(), new(bytes.Buffer))
		require.ErrorContains(t, err, "does not require "+cliModule)
	})
	t.Run("interrupted", func(t *testing.T) {
		root, calls := scene(t, version, "exec /bin/sleep 1000")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := Find(ctx, new(bytes.Buffer))
			ended <- err
		}()
		require.Eventually(t, func() bool { _, err := os.Stat(calls); return err == nil }, 5*time.Minute, 10*time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		held, err := TryLock(filepath.Join(root, "bin", ".temporal.lock"))
		require.NoError(t, err)
		held.Release()
	})
	t.Run("waiting is interrupted", func(t *testing.T) {
		root, _ := scene(t, version, "")
		require.NoError(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
		held, err := TryLock(filepath.Join(root, "bin", ".temporal.lock"))
		require.NoError(t, err)
		defer held.Release()
		locked, err := Locked(filepath.Join(root, "bin", ".temporal.lock"))
		require.NoError(t, err)
		require.True(t, locked)
		ctx, cancel := context.WithCancel(t.Context())
		progress := writer(func(p []byte) {
			if strings.Contains(string(p), "waiting for another process") {
				cancel()
			}
		})
		_, err = Find(ctx, progress)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// writer calls a function with what is written.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }
