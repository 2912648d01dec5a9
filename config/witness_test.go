package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWitnesses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"ledger: {witnesses: {}}", "ledger.witnesses is a map, but must be a list"},
		{"ledger: {witnesses: [x]}", "ledger.witnesses[0] is a string, but must be a map"},
		{"ledger: {witnesses: [{name: a, key: k}]}", "ledger.witnesses[0] must have either file or url"},
		{"ledger: {witnesses: [{name: a, key: k, file: f, url: u}]}", "ledger.witnesses[0] must have either file or url"},
		{"ledger: {witnesses: [{name: a, file: f}]}", "ledger.witnesses[0] has no key"},
		{"ledger: {witnesses: [{name: a, key: k, file: f, secret: s}]}", `there is no key "ledger.witnesses[0].secret"`},
		{"ledger: {witnesses: [{name: a, key: k, file: f}, {name: b, key: k, file: g}]}", "ledger.witnesses[1] has the name or the key of another witness"},
		{"ledger: {quorum: 1}", "ledger.quorum asks for 1 of 0 witnesses"},
		{"ledger: {witnesess: []}", `there is no key "ledger.witnesess"`},
	} {
		file := filepath.Join(t.TempDir(), "chimera.yaml")
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		_, ds := load(file, surroundings())
		require.NotEmpty(t, ds, c.text)
		require.Contains(t, ds[0].Summary, c.says)
	}
}
