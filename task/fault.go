package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Fault is one thing that is wrong with a document.
type Fault struct {
	// Path is a JSON pointer to the place.
	Path string `json:"path"`
	// Message says what is wrong there.
	Message string `json:"message"`
}

// Faults are all that is wrong with a document, sorted by place.
type Faults []Fault

// Error returns the faults on one line.
func (f Faults) Error() string {
	parts := make([]string, len(f))
	for i, x := range f {
		path := x.Path
		if path == "" {
			path = "/"
		}
		parts[i] = path + ": " + x.Message
	}
	return "not a proper task: " + strings.Join(parts, "; ")
}

// maxText bounds each text of a task, in bytes.
const maxText = 64 << 10

func (d Draft) faults() []Fault { return d.base(StateDraft) }

func (d Draft) base(want State) []Fault {
	var out []Fault
	text := func(path, s string) {
		switch {
		case s == "":
			out = append(out, Fault{path, "must not be empty"})
		case len(s) > maxText:
			out = append(out, Fault{path, fmt.Sprintf("has %d bytes, more than %d", len(s), maxText)})
		}
	}
	text("/task_id", d.TaskID)
	text("/agent_id", d.AgentID)
	if len(d.Description) > maxText {
		text("/description", d.Description)
	}
	if d.State != want {
		out = append(out, Fault{"/state", fmt.Sprintf("must be %q at this stage, not %.40q", want, string(d.State))})
	}
	switch d.Priority {
	case Low, Medium, High:
	default:
		out = append(out, Fault{"/priority", fmt.Sprintf("must be low, medium or high, not %.40q", string(d.Priority))})
	}
	if d.CostEstimate != "" {
		if r, ok := new(big.Rat).SetString(string(d.CostEstimate)); !ok || len(d.CostEstimate) > 40 {
			out = append(out, Fault{"/cost_estimate", "is not a number of at most 40 characters"})
		} else if r.Sign() < 0 {
			out = append(out, Fault{"/cost_estimate", "must not be negative"})
		}
	}
	return append(out, instant("/created_at", d.CreatedAt)...)
}

func instant(path string, t time.Time) []Fault {
	if y := t.Year(); t.IsZero() || y < 1 || y > 9999 {
		return []Fault{{path, "is not an instant"}}
	}
	return nil
}

func (s Signed) faults() []Fault { return s.signed(StateSigned) }

func (s Signed) signed(want State) []Fault {
	out := s.base(want)
	for _, f := range []struct{ path, value string }{
		{"/signature/signer_id", s.Signature.SignerID}, {"/signature/sig_type", s.Signature.SigType}, {"/signature/signature", s.Signature.Signature},
	} {
		if f.value == "" {
			out = append(out, Fault{f.path, "must not be empty"})
		} else if len(f.value) > maxText {
			out = append(out, Fault{f.path, fmt.Sprintf("has %d bytes, more than %d", len(f.value), maxText)})
		}
	}
	out = append(out, instant("/signature/signed_at", s.Signature.SignedAt)...)
	if s.Signature.SignedAt.Before(s.CreatedAt) {
		out = append(out, Fault{"/signature/signed_at", "is before created_at"})
	}
	return out
}

func (e Executed) faults() []Fault {
	out := e.signed(StateExecuted)
	out = append(out, instant("/executed_at", e.ExecutedAt)...)
	if e.ExecutedAt.Before(e.Signature.SignedAt) {
		out = append(out, Fault{"/executed_at", "is before signature/signed_at"})
	}
	if r := bytes.TrimSpace(e.Result); len(r) == 0 || r[0] != '{' || !json.Valid(r) {
		out = append(out, Fault{"/result", "is not a JSON object"})
	}
	if !strings.HasPrefix(e.AuditRef, "ledger://") {
		out = append(out, Fault{"/audit_ref", "does not start with ledger://"})
	}
	return out
}
