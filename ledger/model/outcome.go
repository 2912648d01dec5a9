package model

import (
	"encoding/json"
	"math"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/internal/scan"
	"chimera.ai/engine/plan"
)

// scanOutcome reads an outcome that is written in the common way, and reports whether it is.
// Most entries of a log are outcomes of nodes.
func scanOutcome(data json.RawMessage) (*ledger.Outcome, bool) {
	s := scan.New(string(data))
	o := new(ledger.Outcome)
	// A field that is present is not empty: it would have been left out.
	first := true
	has := func(name string) bool {
		if first {
			if !s.Has(`{"` + name + `":`) {
				return false
			}
			first = false
			return true
		}
		return s.Has(`,"` + name + `":`)
	}
	text := func(name string, to *string, must bool) {
		if has(name) {
			s.Need(`"`)
			if *to = s.Plain(); *to == "" && !must {
				s.Fail()
			}
		} else if must {
			s.Fail()
		}
	}
	number := func(name string, to *int) {
		if has(name) {
			n := s.Number()
			if n == 0 || n > math.MaxInt {
				s.Fail()
			}
			*to = int(n)
		}
	}
	var kind string
	text("activity", &o.Activity, false)
	number("attempts", &o.Attempts)
	number("element", &o.Element)
	text("input_digest", &o.InputDigest, false)
	text("kind", &kind, true)
	text("node", &o.Node, true)
	text("output_digest", &o.OutputDigest, false)
	if has("snapshots") {
		o.Snapshots = new(contract.Snapshots)
		first = true // an object begins
		text("after", &o.Snapshots.After, false)
		text("before", &o.Snapshots.Before, false)
		s.Need(`}`)
		if first {
			s.Fail()
		}
	}
	number("visit", &o.Visit)
	s.Need(`}`)
	switch o.Kind = ledger.Kind(kind); o.Kind {
	case ledger.NodeSucceeded:
		o.Kind = ledger.NodeSucceeded // the one copy, not a part of the data
	case ledger.NodeFailed:
		o.Kind = ledger.NodeFailed
	case ledger.NodeSkipped:
		o.Kind = ledger.NodeSkipped
	default:
		return nil, false
	}
	return o, s.Done()
}

// digests returns an error unless the snapshots of a call, if there are any, are digests.
func digests(s *contract.Snapshots) error {
	if s == nil {
		return nil
	}
	for _, d := range []string{s.Before, s.After} {
		if d != "" && !plan.IsDigest(d) {
			return impossible("a snapshot has the digest %.80q", d)
		}
	}
	if *s == (contract.Snapshots{}) {
		return impossible("its snapshots are empty")
	}
	return nil
}
