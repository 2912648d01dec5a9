package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// answerFields are those of every line of an answer, in their order.
const answerFields = "id verdict witness reason micros"

// cmpBatch FILE compares the lines of standard output with those of a file, in
// which reason is a part of the reason, and what is left out is null or "".
func cmpBatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: cmpbatch FILE")
	}
	have := strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n")
	want := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	if len(have) != len(want) {
		ts.Fatalf("%d lines, want %d", len(have), len(want))
	}
	for i := range want {
		var h, w reply
		ts.Check(json.Unmarshal([]byte(have[i]), &h))
		ts.Check(json.Unmarshal([]byte(want[i]), &w))
		if w.Witness == nil {
			w.Witness = json.RawMessage("null")
		}
		same := string(h.ID) == string(w.ID) && h.Verdict == w.Verdict && string(h.Witness) == string(w.Witness) &&
			strings.Contains(h.Reason, w.Reason) && (h.Reason == "") == (w.Reason == "")
		if !same {
			ts.Fatalf("line %d is\n%s\nwant\n%s", i+1, have[i], want[i])
		}
	}
}

// TestBatchBounds: a line that is too long fails alone, and every answer has every
// field.
func TestBatchBounds(t *testing.T) {
	long := `{"id":"long","lhs":true,"rhs":{"title":"` + strings.Repeat("x", maxLine) + `"}}`
	large := `{"id":"large","lhs":true,"rhs":{"title":"` + strings.Repeat("x", maxLine/2) + `"}}`
	in := strings.Join([]string{`{"id":1,"lhs":true,"rhs":true}`, long, large, `{"id":2,"lhs":true,"rhs":true}`}, "\r\n")
	var out, messages bytes.Buffer
	require.Equal(t, exitDone, run([]string{"contain", "--batch"}, strings.NewReader(in), &out, &messages), messages.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 4)
	for i, part := range []string{`{"id":1,"verdict":"proved"`, "the line is over", `"rhs: `, `{"id":2,"verdict":"proved"`} {
		require.Contains(t, lines[i], part)
		var names []string
		d := json.NewDecoder(strings.NewReader(lines[i]))
		_, err := d.Token()
		require.NoError(t, err)
		for d.More() {
			name, err := d.Token()
			require.NoError(t, err)
			names = append(names, name.(string))
			require.NoError(t, d.Decode(new(json.RawMessage)))
		}
		require.Equal(t, answerFields, strings.Join(names, " "))
	}
}

// TestBatchTalk: an answer comes before the next question is asked.
func TestBatchTalk(t *testing.T) {
	questions, ask := io.Pipe()
	hear, answers := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run([]string{"contain", "--batch"}, questions, answers, io.Discard)
		_ = answers.Close()
	}()
	b := bufio.NewReader(hear)
	for range 3 {
		_, err := io.WriteString(ask, `{"id":"x","lhs":{"const":1},"rhs":{"const":2}}`+"\n")
		require.NoError(t, err)
		line, err := b.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, `"witness":1`)
	}
	require.NoError(t, ask.Close())
	_, err := b.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, exitDone, <-code)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the wire is cut") }

// TestBatchBroken: a batch that was not read to its end is not a success.
func TestBatchBroken(t *testing.T) {
	var messages bytes.Buffer
	require.Equal(t, exitUnanswered, run([]string{"contain", "--batch"}, brokenReader{}, io.Discard, &messages))
	require.Contains(t, messages.String(), "the wire is cut")
}

// TestExcerpt: a long witness is cut for people, between characters.
func TestExcerpt(t *testing.T) {
	require.Equal(t, `{"a":1}`, shortened([]byte(`{"a":1}`)))
	cut := shortened([]byte(`"` + strings.Repeat("é", 3000) + `"`))
	require.True(t, strings.HasSuffix(cut, "é… (6002 bytes; --format json gives all)"), cut[len(cut)-60:])
}

// TestContainPage: the commands on the page of documents answer as it says.
func TestContainPage(t *testing.T) {
	page, err := os.ReadFile("../docs/compare-schemas.md")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```console\n\\$ chimera (.*?)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, shown)
	for _, m := range shown {
		var args []string
		for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(m[1], -1) {
			args = append(args, strings.Trim(word, "'"))
		}
		var out, messages bytes.Buffer
		run(args, strings.NewReader(""), &out, &messages)
		require.Equal(t, m[2], out.String()+messages.String(), m[1])
	}
	for _, d := range dialects {
		require.Contains(t, string(page), "`"+d.name+"`")
	}
}
