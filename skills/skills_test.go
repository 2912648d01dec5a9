package skills

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

func sample(provider, operation string) Skill {
	return Skill{
		Provider: provider, Operation: operation, Mode: plan.Deter,
		InputSchema: json.RawMessage(`true`), OutputSchema: json.RawMessage(`true`),
		Run: pass,
	}
}

func TestRegistry(t *testing.T) {
	var r Registry
	_, ok := r.Lookup("text", "words")
	require.False(t, ok)
	require.Empty(t, r.All())

	for _, s := range []Skill{sample("text", "words"), sample("text", "lines"), sample("math", "sum")} {
		require.NoError(t, r.Register(s))
	}
	require.ErrorContains(t, r.Register(sample("text", "words")), "text/words: it is registered already")

	got, ok := r.Lookup("text", "lines")
	require.True(t, ok)
	require.Equal(t, "lines", got.Operation)
	var names []string
	for _, s := range r.All() {
		names = append(names, s.Provider+"/"+s.Operation)
	}
	require.Equal(t, []string{"math/sum", "text/lines", "text/words"}, names)
}

func TestRegisterRefuses(t *testing.T) {
	for name, change := range map[string]func(*Skill){
		"no provider":      func(s *Skill) { s.Provider = "" },
		"slash":            func(s *Skill) { s.Operation = "a/b" },
		"space":            func(s *Skill) { s.Provider = "a b" },
		"control":          func(s *Skill) { s.Operation = "a\n" },
		"no mode":          func(s *Skill) { s.Mode = "" },
		"unknown mode":     func(s *Skill) { s.Mode = "maybe" },
		"no code":          func(s *Skill) { s.Run = nil },
		"no input schema":  func(s *Skill) { s.InputSchema = nil },
		"bad output":       func(s *Skill) { s.OutputSchema = json.RawMessage(`{`) },
		"rest after input": func(s *Skill) { s.InputSchema = json.RawMessage(`{} {}`) },
	} {
		t.Run(name, func(t *testing.T) {
			s := sample("text", "words")
			change(&s)
			var r Registry
			require.Error(t, r.Register(s))
			require.Empty(t, r.All())
		})
	}
}

func builtin(t *testing.T, operation string) Skill {
	t.Helper()
	var r Registry
	for _, s := range Builtin() {
		require.NoError(t, r.Register(s))
	}
	s, ok := r.Lookup(Engine, operation)
	require.True(t, ok)
	return s
}

func kindOf(t *testing.T, err error) contract.Kind {
	t.Helper()
	var e *contract.Error
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Message)
	return e.Kind
}

func TestPass(t *testing.T) {
	in := json.RawMessage(`{"n":9007199254740993,"s":"<&>"}`)
	out, err := builtin(t, "pass").Run(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, string(in), string(out))
}

func TestFail(t *testing.T) {
	run := builtin(t, "fail").Run
	for in, want := range map[string]contract.Error{
		`{"message":"no"}`:                                    {Kind: contract.ToolError, Message: "no"},
		`{"message":"later","kind":"throttled"}`:              {Kind: contract.Throttled, Message: "later"},
		`{"message":"no","details":{"n":9007199254740993}}`:   {Kind: contract.ToolError, Message: "no", Details: json.RawMessage(`{"n":9007199254740993}`)},
		`{"message":"no","kind":"tool_error","details":null}`: {Kind: contract.ToolError, Message: "no", Details: json.RawMessage(`null`)},
	} {
		t.Run(in, func(t *testing.T) {
			out, err := run(t.Context(), json.RawMessage(in))
			require.Nil(t, out)
			var got *contract.Error
			require.ErrorAs(t, err, &got)
			require.Equal(t, want, *got)
		})
	}
	engines := []contract.Kind{
		contract.Drift, contract.Blocked, contract.Rejected, contract.Expired, contract.Budget,
		contract.NeedsReview, contract.Conflict, contract.OutcomeUnknown, contract.Cancelled,
		contract.Deadline, contract.LoopExhausted, contract.FailedKind, contract.WorkerLost,
		contract.StoreUnavailable,
	}
	for _, k := range contract.Kinds() {
		_, err := run(t.Context(), json.RawMessage(`{"message":"m","kind":"`+string(k)+`"}`))
		var got *contract.Error
		require.ErrorAs(t, err, &got)
		if slices.Contains(engines, k) {
			require.Equal(t, contract.Contract, got.Kind, "%s is not a plan's to raise", k)
			continue
		}
		require.Equal(t, k, got.Kind)
		require.Equal(t, "m", got.Message)
	}
	_, err := run(t.Context(), json.RawMessage(`[]`))
	require.Equal(t, contract.Contract, kindOf(t, err))
}

func TestSleep(t *testing.T) {
	run := builtin(t, "sleep").Run
	synctest.Test(t, func(t *testing.T) {
		for in, ms := range map[string]int64{`{"ms":0}`: 0, `{"ms":250}`: 250, `{"ms":1e3}`: 1000, `{"ms":5.0}`: 5, `{"ms":86400000}`: 86400000} {
			start := time.Now()
			out, err := run(t.Context(), json.RawMessage(in))
			require.NoError(t, err)
			require.Equal(t, time.Duration(ms)*time.Millisecond, time.Since(start))
			var got struct {
				MS int64 `json:"slept_ms"`
			}
			require.NoError(t, json.Unmarshal(out, &got))
			require.Equal(t, ms, got.MS)
		}
		for _, in := range []string{`{}`, `{"ms":-1}`, `{"ms":86400001}`, `{"ms":1.5}`, `{"ms":1e999999999}`, `{"ms":"x"}`, `7`,
			`{"ms":0.00000000000000000000000000000000000000000000000001}`} {
			_, err := run(t.Context(), json.RawMessage(in))
			require.Equal(t, contract.Contract, kindOf(t, err), in)
		}
	})
}

func TestSleepStops(t *testing.T) {
	run := builtin(t, "sleep").Run
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := run(ctx, json.RawMessage(`{"ms":60000}`))
		require.Equal(t, contract.Timeout, kindOf(t, err))
		require.True(t, errors.Is(err, context.DeadlineExceeded))
		require.Equal(t, time.Second, time.Since(start))

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = run(ctx, json.RawMessage(`{"ms":60000}`))
		require.Equal(t, contract.Cancelled, kindOf(t, err))
	})
}

func TestText(t *testing.T) {
	s := builtin(t, "text")
	for input, want := range map[string]string{
		`{"content":[]}`: `{"text":""}`,
		`{"content":[{"type":"text","text":"a"}],"isError":false}`:                                                                            `{"text":"a"}`,
		`{"content":[{"type":"text","text":"ä\n"},{"type":"image","data":"x","mimeType":"image/png"},{"type":"text","text":"b","Text":"c"}]}`: `{"text":"ä\n\nb"}`,
	} {
		out, err := s.Run(t.Context(), json.RawMessage(input))
		require.NoError(t, err, input)
		require.JSONEq(t, want, string(out), input)
	}
	for _, input := range []string{`{`, `{}`, `{"Content":[]}`, `{"content":{}}`, `{"content":[{"type":"text"}]}`, `{"content":[{"type":"text","text":7}]}`} {
		_, err := s.Run(t.Context(), json.RawMessage(input))
		var known *contract.Error
		require.ErrorAs(t, err, &known, input)
		require.Equal(t, contract.Contract, known.Kind, input)
	}
}
