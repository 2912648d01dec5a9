package raced_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	function = regexp.MustCompile(`(?m)^func (\w+)\(`)
	skipped  = "raced.Skip("
)

// TestSkippedTestsRun: make test runs each test that the race detector skips without it,
// and names none that is not there.
func TestSkippedTestsRun(t *testing.T) {
	const root = "../.."
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	line := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindSubmatch(makefile)
		require.NotNil(t, found, pattern)
		return string(found[1])
	}
	whole := strings.Fields(line(`(?m)^ALONE := (.*)$`))
	named := strings.Split(line(`(?m)^NAMED := (.*)$`), "|")
	packages := strings.Fields(line(`(?m)^\tgo test .*\(NAMED\)\)\$\$' (.*)$`))
	used := map[string]bool{}
	tests := 0
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		in, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		in = "./" + filepath.ToSlash(in)
		all := function.FindAllSubmatchIndex(text, -1)
		for i, at := range all {
			end := len(text)
			if i+1 < len(all) {
				end = all[i+1][0]
			}
			name := string(text[at[2]:at[3]])
			if in == "./internal/raced" || !strings.Contains(string(text[at[0]:end]), skipped) {
				continue
			}
			tests++
			if slices.ContainsFunc(whole, func(p string) bool { return p == in || covers(p, in) }) {
				continue
			}
			require.Contains(t, named, name, "%s: NAMED of the Makefile", file)
			require.Contains(t, packages, in, "%s: the packages of NAMED in the Makefile", file)
			used[name], used[in] = true, true
		}
		return nil
	})
	require.NoError(t, err)
	require.Positive(t, tests)
	for _, n := range append(named, packages...) {
		require.True(t, used[n], "the Makefile runs %s without the race detector, which skips nothing of it", n)
	}
}

// covers reports whether a pattern such as ./compiler/... matches a package.
func covers(pattern, in string) bool {
	base, all := strings.CutSuffix(pattern, "/...")
	return all && (in == base || strings.HasPrefix(in, base+"/"))
}
