package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Verdict says what became of a fault.
type Verdict string

// The verdicts.
const (
	Found        Verdict = "found"
	Missed       Verdict = "missed" // all tests pass
	NotCompiled  Verdict = "does not compile"
	FailsWithout Verdict = "fails without it"
	// TimedOut: no test failed, and the tests did not end in time. That finds nothing.
	TimedOut Verdict = "timed out"
)

// Result is what became of a fault.
type Result struct {
	Verdict Verdict
	// By is the test that failed, or "" if none did.
	By string
	// Output is the end of what go test wrote, unless the fault was found or missed.
	Output string
	Took   time.Duration
}

func (r Result) by() string {
	switch {
	case r.By == "":
		return ""
	case r.Verdict == FailsWithout:
		return ", which fails: " + r.By
	}
	return ", by " + r.By
}

// within bounds how long the tests of one package run. Building them does not count.
const within = "60s"

// goTool runs go test in the module.
type goTool struct {
	// root is the module's folder, and flags are the GOFLAGS that hold already.
	root, flags string
}

func newGo(ctx context.Context) (*goTool, error) {
	raw, err := exec.CommandContext(ctx, "go", "env", "-json", "GOMOD", "GOFLAGS").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var env struct{ GOMOD, GOFLAGS string }
	if err := json.Unmarshal(raw, &env); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return &goTool{filepath.Dir(env.GOMOD), env.GOFLAGS}, nil
}

// planted runs the tests of a fault with it.
func (g *goTool) planted(ctx context.Context, f Fault) Result {
	dir, err := os.MkdirTemp("", "fault-")
	if err != nil {
		return Result{Verdict: NotCompiled, Output: err.Error()}
	}
	defer os.RemoveAll(dir)
	overlay, err := f.overlay(g.root, dir)
	if err != nil {
		return Result{Verdict: NotCompiled, Output: err.Error()}
	}
	return g.test(ctx, f.Tests, overlay)
}

// overlay writes the changed file into a folder, and the overlay that puts it in the place of
// the file, and returns the path of the overlay.
func (f Fault) overlay(root, dir string) (string, error) {
	file := filepath.Join(root, filepath.FromSlash(f.File))
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed, err := f.change(string(text))
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, filepath.Base(f.File))
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {file: to}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(to, []byte(changed), 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, raw, 0o600)
}

// change makes the fault's edit in the text of its file.
func (f Fault) change(text string) (string, error) {
	switch n := strings.Count(text, f.Old); {
	case f.Old == f.New:
		return "", fmt.Errorf("the fault %q changes nothing", f.Name)
	case n != 1:
		return "", fmt.Errorf("%s has the text of the fault %q %d times, not once", f.File, f.Name, n)
	}
	return strings.Replace(text, f.Old, f.New, 1), nil
}

// test runs tests with an overlay, or without if that is "".
func (g *goTool) test(ctx context.Context, t Tests, overlay string) Result {
	args := []string{"test", "-vet=off", "-count=1", "-failfast", "-short", "-timeout", within}
	if t.Run != "" {
		args = append(args, "-run", t.Run)
	}
	c := exec.CommandContext(ctx, "go", append(args, strings.Fields(t.In)...)...)
	c.Dir, c.Env = g.root, os.Environ()
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(os.Interrupt) }, 10*time.Second
	if overlay != "" {
		c.Env = append(c.Env, "GOFLAGS="+strings.TrimSpace(g.flags+" -overlay="+overlay))
	}
	began := time.Now()
	raw, err := c.CombinedOutput()
	r := judge(string(raw), err)
	r.Took = time.Since(began)
	return r
}

var (
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	broken = regexp.MustCompile(`(?m)^FAIL\s+\S+ \[(build|setup) failed\]`)
	late   = regexp.MustCompile(`(?m)^panic: test timed out after`)
	// ended matches the line of a package whose tests were run.
	ended = regexp.MustCompile(`(?m)^FAIL\s+(\S+)\s+[0-9.]+s$`)
)

// judge reads what go test wrote.
func judge(output string, err error) Result {
	if err == nil {
		return Result{Verdict: Missed}
	}
	// The subtest that failed first follows the test that it is part of.
	if all := failed.FindAllStringSubmatch(output, -1); all != nil {
		by := all[0][1]
		for _, m := range all {
			if !strings.HasPrefix(m[1], by+"/") && m[1] != by {
				break
			}
			by = m[1]
		}
		return Result{Verdict: Found, By: by}
	}
	r := Result{Verdict: NotCompiled, Output: tail(output)}
	switch {
	case broken.MatchString(output):
	case late.MatchString(output):
		r.Verdict = TimedOut
	default:
		// The test program has ended otherwise: a goroutine has panicked, for example.
		if m := ended.FindStringSubmatch(output); m != nil {
			r = Result{Verdict: Found, By: "the end of " + m[1]}
		}
	}
	return r
}

// tail is the end of a long text.
func tail(text string) string {
	const lines = 20
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
