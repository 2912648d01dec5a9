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

func TestFlagKnown(t *testing.T) {
	known := map[string][]string{
		"files": {"read_file", "list", "größe"}, "git": {"list", "readFile", "burn"}, "my-notes": nil, "pay": {"send/all"},
	}
	for _, c := range []struct {
		server string
		tools  []string
		want   []string
	}{
		{"other", []string{"read_file", "Read-File", "list", "write_file", "größe", "send"}, nil},
		{"files", []string{"read_fiIe", "lіst"}, []string{
			`lookalike /0 "read_fiIe" The name looks like "git/readFile".`, `lookalike /1 "l\u{456}st" The name looks like "git/list".`,
		}},
		{"other", []string{"write", "read_fiIe", "rеad_file", "read\u200b_file", "bum", "ｌist"}, []string{
			`lookalike /1 "read_fiIe" The name looks like "files/read_file".`,
			`lookalike /2 "r\u{435}ad_file" The name looks like "files/read_file".`,
			`lookalike /3 "read\u{200B}_file" The name looks like "files/read_file".`,
			`lookalike /4 "bum" The name looks like "git/burn".`,
			`lookalike /5 "\u{FF4C}ist" The name looks like "files/list".`,
		}},
		{"fiIes", []string{"write"}, []string{`lookalike  "fiIes" The name of the server looks like that of "files".`}},
		{"my_notes", nil, []string{`lookalike  "my_notes" The name of the server looks like that of "my-notes".`}},
		{"MY.NOTES", nil, []string{`lookalike  "MY.NOTES" The name of the server looks like that of "my-notes".`}},
		{"pay2", []string{"sеnd/all"}, []string{`lookalike /0 "s\u{435}nd/all" The name looks like "pay/send/all".`}},
	} {
		var got []string
		for _, f := range intake.FlagKnown(c.server, c.tools, known) {
			got = append(got, fmt.Sprintf("%s %s %s %s", f.Kind, f.Path, f.Text, f.Reason))
		}
		require.Equal(t, c.want, got, c.server)
	}
}
