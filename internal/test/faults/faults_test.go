package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module's folder.
const root = "../../.."

// TestFaultsApply: each fault can still be planted. A change to the code of a promise
// moves its fault along.
func TestFaultsApply(t *testing.T) {
	all := All()
	require.GreaterOrEqual(t, len(all), 60)
	names := map[string]bool{}
	for _, f := range all {
		require.False(t, names[f.Name], "two faults are called %q", f.Name)
		names[f.Name] = true
		require.NotEmpty(t, f.Name)
		require.NotEmpty(t, f.Breaks, f.Name)
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.File)))
		require.NoError(t, err)
		_, err = f.change(string(text))
		require.NoError(t, err)
		require.NotEmpty(t, f.In, f.Name)
		for _, in := range strings.Fields(f.In) {
			tests, err := filepath.Glob(filepath.Join(root, in, "*_test.go"))
			require.NoError(t, err)
			require.NotEmpty(t, tests, "%s: the package %s has no tests", f.Name, in)
			if f.Run != "" {
				require.True(t, selects(t, f.Run, tests), "%s: -run %s selects no test of %s", f.Name, f.Run, in)
			}
		}
	}
	for _, a := range areas {
		require.NotEmpty(t, a.faults, a.name)
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// selects reports whether -run selects a test of the files.
func selects(t *testing.T, run string, files []string) bool {
	top, _, _ := strings.Cut(run, "/")
	re, err := regexp.Compile(top)
	require.NoError(t, err, run)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range testName.FindAllSubmatch(text, -1) {
			if re.Match(m[1]) {
				return true
			}
		}
	}
	return false
}

// TestChange: a fault whose text is not there once is refused.
func TestChange(t *testing.T) {
	f := Fault{Name: "x", File: "a.go", Old: "b", New: "c"}
	text, err := f.change("abd")
	require.NoError(t, err)
	require.Equal(t, "acd", text)
	for _, text := range []string{"", "bb"} {
		_, err = f.change(text)
		require.ErrorContains(t, err, "not once")
	}
	f.New = f.Old
	_, err = f.change("b")
	require.ErrorContains(t, err, "changes nothing")
}

// TestJudge: what go test writes says what became of a fault.
func TestJudge(t *testing.T) {
	exit := errors.New("exit status 1")
	for name, c := range map[string]struct {
		output string
		err    error
		want   Verdict
		by     string
	}{
		"passes":     {"ok  \tm/p\t0.1s\n", nil, Missed, ""},
		"fails":      {"--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tm/p\t0.1s\nFAIL\n", exit, Found, "TestA"},
		"a subtest":  {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n        --- FAIL: TestA/b/c (0.00s)\n    --- FAIL: TestA/d (0.00s)\nFAIL\tm/p\t0.1s\n", exit, Found, "TestA/b/c"},
		"panics":     {"panic: no\n\ngoroutine 9 [running]:\nFAIL\tm/p\t0.1s\nFAIL\n", exit, Found, "the end of m/p"},
		"late":       {"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA (1m0s)\nFAIL\tm/p\t60.1s\nFAIL\n", exit, TimedOut, ""},
		"fails late": {"--- FAIL: TestB (0.00s)\npanic: test timed out after 1m0s\nFAIL\tm/p\t60.1s\nFAIL\n", exit, Found, "TestB"},
		"no program": {"# m/p\n./a.go:1:2: undefined: x\nFAIL\tm/p [build failed]\nFAIL\n", exit, NotCompiled, ""},
		"no package": {"FAIL\tm/p [setup failed]\nFAIL\n", exit, NotCompiled, ""},
		"nothing":    {"go: no\n", exit, NotCompiled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := judge(c.output, c.err)
			require.Equal(t, c.want, r.Verdict)
			require.Equal(t, c.by, r.By)
		})
	}
}
