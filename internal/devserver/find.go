package devserver

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/mod/modfile"

	"chimera.ai/engine/internal/process"
)

const (
	// toolsModule is the module that pins the server.
	toolsModule = "chimera.ai/engine/tools"
	// cliModule and cliPackage are the Temporal command line in it.
	cliModule  = "github.com/temporalio/cli"
	cliPackage = cliModule + "/cmd/temporal"
)

// executable returns the path of this program's file.
var executable = os.Executable

// Find returns the path of a temporal executable: the one on PATH, or the one beside
// this program's own file, as in a release archive, or bin/temporal of the source tree
// around the working directory or this executable. Find first builds the last one if it
// is missing or not of the version in tools/go.mod. If several processes do so, one
// builds and the others wait. Lines for people go to progress; nil means stderr.
func Find(ctx context.Context, progress io.Writer) (string, error) {
	if path, err := exec.LookPath("temporal"); err == nil {
		return filepath.Abs(path)
	}
	root, err := sourceRoot()
	if path, ok := beside(); ok && (err != nil || path != filepath.Join(root, "bin", "temporal")) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	if progress == nil {
		progress = os.Stderr
	}
	return build(ctx, root, progress)
}

// beside returns the temporal in the folder of this program's file, with symbolic links
// resolved.
func beside() (path string, ok bool) {
	exe, err := executable()
	if err != nil {
		return "", false
	}
	for _, file := range []func(string) (string, error){filepath.Abs, filepath.EvalSymlinks} {
		at, err := file(exe)
		if err != nil {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(at), "temporal")); err == nil {
			return path, true
		}
	}
	return "", false
}

// sourceRoot returns the folder that holds this product's tools/go.mod.
func sourceRoot() (string, error) {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		starts = append(starts, filepath.Dir(exe))
	}
	for _, dir := range starts {
		for {
			raw, err := os.ReadFile(filepath.Join(dir, "tools", "go.mod"))
			if err == nil && modfile.ModulePath(raw) == toolsModule {
				return dir, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", errors.New("no Temporal server: there is no temporal on PATH or beside this program, and no source tree of Chimera" +
		" around the working directory to build one from; install the Temporal CLI" +
		" (https://docs.temporal.io/cli) or run inside the source tree")
}

// pinned returns the version of the command line that the tools module requires.
func pinned(root string) (string, error) {
	file := filepath.Join(root, "tools", "go.mod")
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the server's version: %w", err)
	}
	mod, err := modfile.Parse(file, raw, nil)
	if err != nil {
		return "", fmt.Errorf("reading the server's version: %w", err)
	}
	for _, r := range mod.Require {
		if r.Mod.Path == cliModule {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", file, cliModule)
}

// built reports whether path is the command line, built from version.
func built(path, version string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Path == cliPackage && info.Main.Version == version
}

// build returns the path of bin/temporal under root, in the pinned version.
func build(ctx context.Context, root string, progress io.Writer) (string, error) {
	version, err := pinned(root)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	path := filepath.Join(bin, "temporal")
	if built(path, version) {
		return path, nil
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("no Temporal server: there is no temporal on PATH, and no go to build %s with", path)
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("building the Temporal server: %w", err)
	}
	held, err := AwaitLock(ctx, filepath.Join(bin, ".temporal.lock"), func() {
		_, _ = fmt.Fprintln(progress, "waiting for another process that builds the Temporal server")
	})
	if err != nil {
		return "", fmt.Errorf("building the Temporal server: %w", err)
	}
	defer held.Release()
	if built(path, version) { // another process has built it meanwhile
		return path, nil
	}
	if err := compile(ctx, goTool, filepath.Join(root, "tools"), path, version, progress); err != nil {
		return "", err
	}
	if !built(path, version) {
		return "", fmt.Errorf("building the Temporal server: %s is not %s %s", path, cliModule, version)
	}
	return path, nil
}

// compile runs go build in the tools module. It renames the result into place, so that
// no process sees a partial file.
func compile(ctx context.Context, goTool, module, path, version string, progress io.Writer) error {
	begun := time.Now()
	_, _ = fmt.Fprintf(progress, "building the Temporal server %s from tools/go.mod; this is done once and takes a few minutes\n", version)
	part := fmt.Sprintf("%s.%d.part", path, os.Getpid())
	defer func() { _ = os.Remove(part) }()

	cmd := exec.CommandContext(ctx, goTool, "build", "-o", part, cliPackage)
	cmd.Dir = module
	// The environment's workspace, target platform and test flags are not meant for the server.
	cmd.Env = without(os.Environ(), "GOWORK", "GOOS", "GOARCH", "GOFLAGS", "GOBIN", "GOEXPERIMENT")
	cmd.Env = append(cmd.Env, "GOWORK=off")
	last := &process.Tail{Limit: 8 << 10}
	cmd.Stdout, cmd.Stderr = last, last
	cmd.WaitDelay = 5 * time.Second
	lead(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }

	stop := make(chan struct{})
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		tick := time.NewTicker(20 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, _ = fmt.Fprintf(progress, "still building the Temporal server (%s)\n", time.Since(begun).Round(time.Second))
			}
		}
	}()
	runtime.LockOSThread() // the child dies with the thread that starts it
	err := cmd.Run()
	runtime.UnlockOSThread()
	close(stop)
	<-silent
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("building the Temporal server: %w", ctx.Err())
		}
		return fmt.Errorf("building the Temporal server: %w\n%s", err, last.String())
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("building the Temporal server: %w", err)
	}
	_, _ = fmt.Fprintf(progress, "built %s in %s\n", path, time.Since(begun).Round(time.Second))
	return nil
}

// without returns env without the named variables.
func without(env []string, names ...string) []string {
	var kept []string
next:
	for _, e := range env {
		for _, n := range names {
			if strings.HasPrefix(e, n+"=") {
				continue next
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// serverVersion asks the executable for its server's version, "1.29.1".
func serverVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	var err error
	if cmd.Env, err = process.Environ(nil); err != nil {
		return "", err
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", path, err)
	}
	// temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)
	words := bufio.NewScanner(strings.NewReader(string(out)))
	words.Split(bufio.ScanWords)
	for words.Scan() {
		if words.Text() == "(Server" && words.Scan() {
			return strings.TrimSuffix(words.Text(), ","), nil
		}
	}
	return "", fmt.Errorf("%s is no Temporal command line with a server: --version says %q", path, firstLine(string(out)))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
