// Command word-count is a skill in an executable of its own: Chimera starts it
// once for each call, with the operation as its last argument.
//
//	count  {"text": "…"}            → {"words": 2, "lines": 1}
//	sum    {"a": 1, "b": 2, …}      → {"total": 3}
//
// It reads one JSON text from standard input and writes one to standard output.
// A failure is exit code 1 and {"error": {"message": "…"}} on standard output.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout))
}

// run does one call and answers with the exit code.
func run(args []string, in io.Reader, out io.Writer) int {
	output, err := call(args, in)
	code := 0
	if err != nil {
		output, code = map[string]any{"error": map[string]string{"message": err.Error()}}, 1
	}
	if err := json.NewEncoder(out).Encode(output); err != nil {
		return 1
	}
	return code
}

func call(args []string, in io.Reader) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("usage: word-count OPERATION")
	}
	switch args[0] {
	case "count":
		return count(in)
	case "sum":
		return sum(in)
	}
	return nil, fmt.Errorf("there is no operation %q, only count and sum", args[0])
}

// counts is what count says of a text.
type counts struct {
	// Words are runs of characters between white space.
	Words int `json:"words"`
	// Lines counts the last one too where it does not end in a line break.
	Lines int `json:"lines"`
}

func count(in io.Reader) (counts, error) {
	var input struct {
		Text *string `json:"text"`
	}
	if err := json.NewDecoder(in).Decode(&input); err != nil {
		return counts{}, fmt.Errorf("read the input: %w", err)
	}
	if input.Text == nil {
		return counts{}, errors.New("the input has no text")
	}
	c := counts{Words: len(strings.Fields(*input.Text)), Lines: strings.Count(*input.Text, "\n")}
	if *input.Text != "" && !strings.HasSuffix(*input.Text, "\n") {
		c.Lines++
	}
	return c, nil
}

func sum(in io.Reader) (map[string]int64, error) {
	var numbers map[string]int64
	if err := json.NewDecoder(in).Decode(&numbers); err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	var total int64
	for _, n := range numbers {
		if n < 0 || n > math.MaxInt64-total {
			return nil, errors.New("a number is negative, or the sum is too large")
		}
		total += n
	}
	return map[string]int64{"total": total}, nil
}
