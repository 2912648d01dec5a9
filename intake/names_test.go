package intake_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/intake"
)

func TestFlagNames(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  []string
	}{
		{[]string{"read_file", "write_file", "read_files", "list_issues", "my_issues", "read_file"}, nil},
		{[]string{"read_file", "Read_File"}, []string{
			`lookalike /0 "read_file" The name differs only by case, or by - and _, from "Read_File".`,
			`lookalike /1 "Read_File" The name differs only by case, or by - and _, from "read_file".`,
		}},
		{[]string{"x", "read-file", "readFile"}, []string{
			`lookalike /1 "read-file" The name differs only by case, or by - and _, from "readFile".`,
			`lookalike /2 "readFile" The name differs only by case, or by - and _, from "read-file".`,
		}},
		{[]string{"pay_bill", "pay_bi1l"}, []string{
			`lookalike /0 "pay_bill" The name looks like "pay_bi1l".`, `lookalike /1 "pay_bi1l" The name looks like "pay_bill".`,
		}},
		{[]string{"read_file", "rеad_file"}, []string{
			`lookalike /0 "read_file" The name looks like "r\u{435}ad_file".`,
			`name /1 "r\u{435}ad_file" The name mixes letters of Cyrillic and Latin.`,
			`lookalike /1 "r\u{435}ad_file" The name looks like "read_file".`,
		}},
		{[]string{"größe"}, []string{`name /0 "größe"  (Latin) The name has characters other than ASCII.`}},
		{[]string{"ab", "a\u200bb"}, []string{
			`lookalike /0 "ab" The name looks like "a\u{200B}b".`,
			`name /1 "a\u{200B}b" The name has characters other than ASCII.`, `lookalike /1 "a\u{200B}b" The name looks like "ab".`,
		}},
		{[]string{"fs/read", "f/sread"}, nil},
	} {
		var got []string
		for _, f := range intake.FlagNames(c.names) {
			got = append(got, fmt.Sprintf("%s %s %s %s", f.Kind, f.Path, f.Text, f.Reason))
		}
		require.Equal(t, c.want, got)
	}
	for _, pair := range [][2]string{{"get", "ɡet"}, {"list", "lıst"}, {"scope", "ѕсоре"}, {"get", "ｇｅｔ"}, {"get", "𝐠𝐞𝐭"}, {"burn", "bum"}, {"o0", "00"}, {"a-b", "a‑b"}, {"omega", "οmega"}} {
		flags := intake.FlagNames(pair[:])
		require.NotEmpty(t, flags)
		require.Equal(t, intake.Lookalike, flags[0].Kind, "%q", pair)
	}
}
