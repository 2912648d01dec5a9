//go:build pkcs11 && cgo

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"chimera.ai/engine/internal/softhsm"
)

// TestCommandsWithKeysOnTokens runs testdata/token: what docs/trust.md shows of keys on
// tokens, and what follows from it, and people who approve with a key there. SOFTHSM is the
// path of the module.
func TestCommandsWithKeysOnTokens(t *testing.T) {
	p, module := scripts(t, "testdata/token"), softhsm.Module(t)
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		if err := setup(e); err != nil {
			return err
		}
		e.Setenv("SOFTHSM", module)
		return tokenPage(filepath.Join(e.WorkDir, "page"), filepath.Join(e.WorkDir, "token"), module)
	}
	testscript.Run(t, p)
}

// tokenPage writes what docs/trust.md shows of keys on tokens into a folder: its
// configuration, and its commands as two scripts. plans is the folder of [trustPage].
func tokenPage(plans, dir, module string) error {
	page, err := os.ReadFile(filepath.Join("..", "docs", "trust.md"))
	if err != nil {
		return err
	}
	plan, err := os.ReadFile(filepath.Join(plans, "greet.yaml"))
	if err != nil {
		return err
	}
	files, script := map[string]string{"greet.yaml": string(plan)}, "make.sh"
	for _, m := range fence.FindAllStringSubmatch(strings.ReplaceAll(string(page), "/usr/lib/softhsm/libsofthsm2.so", module), -1) {
		switch m[1] {
		case "yaml token":
			files["chimera.yaml"], script = m[2], "state.sh"
		case "sh token":
			files[script] += m[2]
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
