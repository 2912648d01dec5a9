package diag

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiagnostics(t *testing.T) {
	at := func(file string, b int) Range { return Range{File: file, Start: Pos{Line: 1, Byte: b}} }
	var ds Diagnostics
	require.False(t, ds.HasErrors())
	ds.Add(Diagnostic{Code: TypeUnknown, Severity: Warning, Subject: at("b", 1)})
	require.False(t, ds.HasErrors())
	ds.Add(Diagnostic{Code: PlanSyntax, Subject: at("b", 1), Summary: "first"})
	ds.Add(Diagnostic{Code: PlanSyntax, Subject: at("b", 1), Summary: "second"})
	ds.Add(Diagnostic{Code: PlanSchema, Subject: at("b", 0)})
	ds.Add(Diagnostic{Code: PlanCycle, Subject: at("a", 9)})
	ds.Add(Diagnostic{Code: PlanLimits, Subject: at("b", 1)})
	require.True(t, ds.HasErrors())
	require.Equal(t, Error, ds[1].Severity)
	ds.Sort()
	var got []string
	for _, d := range ds {
		got = append(got, string(d.Code)+d.Summary)
	}
	require.Equal(t, []string{"plan/cycle", "plan/schema", "plan/limits", "plan/syntaxfirst", "plan/syntaxsecond", "type/unknown"}, got)
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"ab cd", "efghij", "k"}, wrap(" ab  cd efghij k ", 5))
	require.Equal(t, []string{"集計", "ab"}, wrap("集計 ab", 6))
	require.Equal(t, []string{"集計 a"}, wrap("集計 a", 6))
	require.Empty(t, wrap("", 5))
}
