package verdict_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/conform/verdict"
)

// sum is SHA-256 of a text, as the standard library computes it.
func sum(text string) string {
	d := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(d[:])
}

// TestHash holds the hash against its definition, with the canonical JSON written by hand.
func TestHash(t *testing.T) {
	server, examples := sum("server"), sum("examples")
	s := verdict.Summary{Suite: "s/1", ServerFingerprint: server, Cases: []verdict.Case{{ID: "a", Verdict: verdict.Passed}, {ID: "b", Verdict: verdict.Skipped}}}
	rest := `"server_fingerprint":"` + server + `","suite":"s/1","verdicts":[{"id":"a","verdict":"passed"},{"id":"b","verdict":"skipped"}]}`
	have, err := s.Hash()
	require.NoError(t, err)
	require.Equal(t, sum("{"+rest), have)
	s.Examples = examples
	have, err = s.Hash()
	require.NoError(t, err)
	require.Equal(t, sum(`{"examples":"`+examples+`",`+rest), have)

	empty, err := verdict.Summary{}.Hash()
	require.NoError(t, err)
	require.Equal(t, sum(`{"server_fingerprint":"","suite":"","verdicts":[]}`), empty)
}

func TestSuffices(t *testing.T) {
	set := func(id string, v verdict.Verdict) func(*verdict.Summary) {
		return func(s *verdict.Summary) {
			i := slices.IndexFunc(s.Cases, func(c verdict.Case) bool { return c.ID == id })
			s.Cases[i].Verdict = v
		}
	}
	for name, c := range map[string]struct {
		change func(*verdict.Summary)
		want   string
	}{
		"all passed":         {func(*verdict.Summary) {}, ""},
		"warned":             {set("unknown-tool", verdict.Warned), ""},
		"remote":             {set("stops", verdict.Skipped), ""},
		"no examples":        {set("replay", verdict.Skipped), ""},
		"failed":             {set("hints-complete", verdict.Failed), "fails the case hints-complete"},
		"failed, optional":   {set("stops", verdict.Failed), "fails the case stops"},
		"no verdict":         {set("stops", ""), "fails the case stops"},
		"skipped for all":    {set("schemas-compile", verdict.Skipped), "the case schemas-compile was skipped"},
		"another suite":      {func(s *verdict.Summary) { s.Suite = "chimera-conform/2" }, `the suite is "chimera-conform/2", not chimera-conform/1`},
		"a case is missing":  {func(s *verdict.Summary) { s.Cases = s.Cases[1:] }, "no verdict on the case bad-arguments"},
		"a case is unknown":  {func(s *verdict.Summary) { s.Cases[0].ID = "good-arguments" }, `no case "good-arguments"`},
		"a case is repeated": {func(s *verdict.Summary) { s.Cases[1] = s.Cases[0] }, "two verdicts on the case bad-arguments"},
		"no cases":           {func(s *verdict.Summary) { s.Cases = nil }, "no verdict on the case bad-arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			s := verdict.Summary{Suite: verdict.Suite, ServerFingerprint: sum("server")}
			for _, id := range verdict.IDs() {
				s.Cases = append(s.Cases, verdict.Case{ID: id, Verdict: verdict.Passed})
			}
			c.change(&s)
			if c.want == "" {
				require.NoError(t, s.Suffices())
				return
			}
			require.ErrorContains(t, s.Suffices(), c.want)
		})
	}
}
