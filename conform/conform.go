// Package conform checks an MCP server by a suite of cases, and says what its author should change.
//
// A case passes, fails, warns of what plans can live with, or is skipped. What the suite found is
// named by a digest, the conformance_hash: see package verdict. A server's manifest can carry both.
//
// A tool is called only if it says that it only reads, or if the examples' file names it. The
// server is not trusted: its messages and the time that it takes are bounded.
package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/conform/verdict"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/mcp"
)

// Suite names this version of the suite.
const Suite = verdict.Suite

// Verdict says how a case ended.
type Verdict = verdict.Verdict

// The verdicts.
const (
	Passed  = verdict.Passed
	Failed  = verdict.Failed
	Warned  = verdict.Warned
	Skipped = verdict.Skipped
)

// gravity orders verdicts: the verdict of a case is the gravest of its results.
func gravity(v Verdict) int { return slices.Index([]Verdict{Passed, Skipped, Warned, Failed}, v) }

// Client is what the suite needs of a connection to servers; [*mcp.Pool] is one. It may be closed
// more than once.
type Client interface {
	Introduction(ctx context.Context, server string) (mcp.Introduction, error)
	Tools(ctx context.Context, server string) ([]mcp.Tool, error)
	Call(ctx context.Context, server, tool string, args json.RawMessage) (mcp.Result, error)
	Close() error
}

// Target is the server that is checked.
type Target struct {
	// Name is what clients call the server.
	Name string
	// Open returns a client that has not yet started the server. The suite closes it, and has one
	// open at a time.
	Open func() Client
	// Stdio says how the server is started, for the cases that read its standard output. They are
	// skipped if it is nil.
	Stdio *mcp.Server
}

// Options are how a server is checked.
type Options struct {
	// Examples are calls of the server's tools, in addition to those of their definitions.
	Examples Examples
	// Timeout bounds one answer of the server, and how long it may take to end: 10 s if it is 0.
	Timeout time.Duration
}

// Bounds of one run.
const (
	// maxRun bounds a run of the suite.
	maxRun = 10 * time.Minute
	// maxStart is how long a server may take to start, before its first answer.
	maxStart = 30 * time.Second
	// maxResults bounds the results of one case.
	maxResults = 20
	// maxName and maxDetail bound what is said, in bytes.
	maxName, maxDetail = 200, 1 << 10
)

// Result is what a case found, of one tool or of the server.
type Result struct {
	// ID is that of the case.
	ID      string  `json:"id"`
	Verdict Verdict `json:"verdict"`
	// Tool is the tool that is meant, or "".
	Tool string `json:"tool"`
	// Detail says what is wrong, where in the tool's definition (as a JSON pointer), and what to
	// change; of a skipped case, why it was skipped.
	Detail string `json:"detail"`
}

// Report is what the suite found. Its fields are those of the command's JSON document.
type Report struct {
	Server string `json:"server"`
	Suite  string `json:"suite"`
	// ServerFingerprint is that of the server where it is, with its tools; "" if not all of them have
	// one, or if what the server says of itself has a number that no double has.
	ServerFingerprint string `json:"server_fingerprint"`
	// Examples is the digest of the file of examples, or "".
	Examples string `json:"examples"`
	// Hash is the conformance_hash, "" if the server has no fingerprint.
	Hash string `json:"conformance_hash"`
	// Cases has the results of all cases in the order of the suite: one of a case that passed, and
	// otherwise one for each tool that it concerns, up to 20.
	Cases []Result `json:"cases"`
}

// Verdicts returns the verdict of each case, by its id.
func (r Report) Verdicts() map[string]Verdict {
	all := map[string]Verdict{}
	for _, c := range r.Cases {
		if v, ok := all[c.ID]; !ok || gravity(c.Verdict) > gravity(v) {
			all[c.ID] = c.Verdict
		}
	}
	return all
}

// Summary returns what a server's manifest carries of the report.
func (r Report) Summary() verdict.Summary {
	s := verdict.Summary{Suite: r.Suite, ServerFingerprint: r.ServerFingerprint, Examples: r.Examples}
	all := r.Verdicts()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		s.Cases = append(s.Cases, verdict.Case{ID: id, Verdict: all[id]})
	}
	return s
}

// Run checks a server. Its error is a [contract.Error] of kind unsent if the server cannot be
// reached; it has another if ctx ends, or if the server takes more than ten minutes in all.
func Run(ctx context.Context, target Target, opts Options) (Report, error) {
	if opts.Timeout <= 0 {
		opts.Timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	defer cancel()
	s := &suite{target: target, opts: opts, client: target.Open()}
	err := s.run(ctx)
	if closed := s.client.Close(); err == nil && closed != nil {
		err = fmt.Errorf("end the server: %w", closed)
	}
	if err != nil {
		return Report{}, err
	}
	return s.report()
}

func (s *suite) run(ctx context.Context) error {
	for _, c := range cases {
		results := s.try(ctx, c)
		if s.unreached != nil {
			return s.unreached
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the suite did not come to its end, at %s: %w", c.ID, err)
		}
		if len(results) == 0 {
			results = []Result{{Verdict: Passed}}
		}
		if more := len(results) - maxResults; more > 0 {
			slices.SortStableFunc(results, func(a, b Result) int { return gravity(b.Verdict) - gravity(a.Verdict) })
			results = append(results[:maxResults:maxResults],
				Result{Verdict: results[maxResults].Verdict, Detail: fmt.Sprintf("and %d more", more)})
		}
		for _, r := range results {
			r.ID, r.Tool, r.Detail = c.ID, excerpt.Clip(r.Tool, maxName), excerpt.Clip(r.Detail, maxDetail)
			s.results = append(s.results, r)
		}
	}
	return nil
}

// try runs a case, unless what it needs is not there.
func (s *suite) try(ctx context.Context, c Case) []Result {
	switch {
	case c.needs == needsTools && !s.listed:
		return skip("the tools could not be listed")
	case c.needs == needsStdio && s.target.Stdio == nil:
		return skip("only a server that is started here has a standard output")
	}
	return c.run(s, ctx)
}

// report names what was found by its digests.
func (s *suite) report() (Report, error) {
	r := Report{Server: s.target.Name, Suite: Suite, Examples: s.opts.Examples.Digest, Cases: s.results}
	if !s.listed || slices.ContainsFunc(s.tools, func(t tool) bool { return t.unpinnable != nil }) {
		return r, nil
	}
	prints := make([]fingerprint.Print, len(s.tools))
	for i, t := range s.tools {
		prints[i] = t.print
	}
	var err error
	if r.ServerFingerprint, err = fingerprint.Server(s.introduction.Endpoint, s.introduction.Introduction, prints); err != nil {
		return r, nil
	}
	r.Hash, err = r.Summary().Hash()
	return r, err
}

func skip(format string, args ...any) []Result {
	return []Result{{Verdict: Skipped, Detail: fmt.Sprintf(format, args...)}}
}

func fail(tool, format string, args ...any) Result {
	return Result{Verdict: Failed, Tool: tool, Detail: fmt.Sprintf(format, args...)}
}

func warn(tool, format string, args ...any) Result {
	return Result{Verdict: Warned, Tool: tool, Detail: fmt.Sprintf(format, args...)}
}

// escape writes a name as a part of a JSON pointer (RFC 6901).
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
