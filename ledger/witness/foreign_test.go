package witness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/witness"
)

// TestForeign: checkpoints of a log of ours, as other implementations of
// https://c2sp.org/tlog-witness have cosigned them when our client asked.
func TestForeign(t *testing.T) {
	const log = "dev.chimera.local/br2zintnjh+932199c2+AdQWUqIMX0o3t3QBwPJM+Q2M0eyYRRWc+YYkewJHJrHF"
	for name, c := range map[string]struct {
		key  string
		raw  string
		size int64
		at   string
	}{
		"github.com/transparency-dev/witness, omniwitness": {
			"omni.example.net/w+935372df+BGzP2kgBrSgczatkrUE1+BNaUi9aLq6ySNafeYaC8Vm1",
			`dev.chimera.local/br2zintnjh
27
nlmaybKAxSL8t0nYHv8+IYIZFG7hISSeOfAj6R43hN8=

— dev.chimera.local/br2zintnjh kyGZwkU2GHX5Y9ywolqDIfsgztT9Jd4HR3bDa85KEOMTZ2QLy9FVmNTVZYiX9YlGHw14EF4m8hdSNZrVH1XNAxuGswc=
— omni.example.net/w k1Ny3wAAAABrAa6IliXhR7TzmiChQnzOUgjUm6EY+ovwaR4r7OmAL9cUMLHgJk9UgoaojTNliBeTFtYcAug+Mqfk/nYk48SuF0efBg==
`,
			27, "2026-11-21T14:45:28Z",
		},
		"filippo.io/torchwood, litewitness": {
			"lite.example/w+40cd24aa+BDX9SduCTPqqcSt88OhKco7iBm3WU3P6CKXI+b8TV3BH",
			`dev.chimera.local/br2zintnjh
45
qtWElvgMmKmN60i5WhswY6t4/pvPCJWiEBuwvTZOaBs=

— dev.chimera.local/br2zintnjh kyGZwlRJ4grU7EnJGI4Ce/uYNe/+XGO9mDls7a+8SX33LoFHIU4sYg4GH3edrmv3UbOobSSOZh7odL+1MJiHK9jYDQ4=
— lite.example/w QM0kqgAAAABrAa8oMKvP8NxmJtjRj1DVjtJrnJiD8nDdsOUHABDkXd2hlsJ9WQ+pX/iiv19u5FWH82oik/O2HcalE3W8CcYMY1pNCg==
`,
			45, "2026-11-21T14:48:08Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, witness.Witness{Name: "foreign", Key: c.key, Dir: "."}.Check())
			checkpoint, at, _, err := ledger.Cosignature([]byte(c.raw), c.key)
			require.NoError(t, err)
			require.Equal(t, c.size, checkpoint.Size)
			require.Equal(t, c.at, at.UTC().Format(time.RFC3339))
			signed, err := ledger.Signers{Log: log, Witnesses: []string{c.key}, Quorum: 1}.Open([]byte(c.raw))
			require.NoError(t, err)
			require.Equal(t, checkpoint, signed.Checkpoint)

			longer := strings.Replace(c.raw, fmt.Sprintf("\n%d\n", c.size), fmt.Sprintf("\n%d\n", c.size+1), 1)
			_, _, _, err = ledger.Cosignature([]byte(longer), c.key)
			require.Error(t, err)
		})
	}
}
