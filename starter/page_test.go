package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/trust"
)

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// trustPage writes what docs/trust.md shows into a folder: its configuration, and
// its commands as scripts: those before a device attests a key, the device's, those before
// the first plan is published, those that need a server, and the rest.
func trustPage(dir string) error {
	page, err := os.ReadFile(filepath.Join("..", "docs", "trust.md"))
	if err != nil {
		return err
	}
	tutorial, err := os.ReadFile(filepath.Join("..", "docs", "write-a-plan.md"))
	if err != nil {
		return err
	}
	files := map[string]string{}
	script := "before.sh"
	for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
		switch m[1] {
		case "yaml":
			files["chimera.yaml"] += m[2]
		case "sh device":
			files["device.sh"] += m[2]
			script = "signers.sh"
		case "sh":
			switch {
			case strings.Contains(m[2], "chimera publish"):
				script = "run.sh"
			case strings.Contains(m[2], "rotate.json"):
				script = "after.sh"
			}
			files[script] += m[2]
		}
	}
	for _, m := range fence.FindAllStringSubmatch(string(tutorial), -1) {
		if m[1] == "yaml plan" && files["greet.yaml"] == "" {
			files["greet.yaml"] = strings.Replace(m[2], "name: greet\n", "name: greet\nagent: tutor\n", 1)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// toolsPage writes the commands that docs/tools.md begins with into a folder, each as a script, and
// what it shows of an effect into the folder effect of that: its files, and its commands.
func toolsPage(dir string) error {
	page, err := os.ReadFile(filepath.Join("..", "docs", "tools.md"))
	if err != nil {
		return err
	}
	files := map[string]string{}
	commands := func(prefix, text string, from int) int {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for i, line := range lines {
			files[prefix+strconv.Itoa(from+i)+".sh"] = line + "\n"
		}
		return from + len(lines)
	}
	commands("", fence.FindStringSubmatch(string(page))[2], 1)
	next := 1
	for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
		switch m[1] {
		case "yaml policy":
			files["effect/policy.yaml"] = m[2]
		case "yaml effect":
			files["effect/chimera.yaml"] = m[2]
		case "sh effect":
			next = commands("effect/", m[2], next)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "effect"), 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestTrustPageListsActs: docs/trust.md has every act, and no other.
func TestTrustPageListsActs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "trust.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "<!-- table of acts -->\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var have []string
	for _, row := range strings.Split(table, "\n")[2:] {
		for _, m := range regexp.MustCompile("`([a-z.]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			have = append(have, m[1])
		}
	}
	var want []string
	for _, k := range trust.Kinds() {
		want = append(want, string(k))
	}
	slices.Sort(have)
	require.Equal(t, want, have)
}
