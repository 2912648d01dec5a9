package model

import "chimera.ai/engine/ledger"

// ScanOutcome reads outcomes that are written as most are, DecodeOutcome all.
var ScanOutcome = scanOutcome

// DecodeOutcome is what reads every outcome.
func DecodeOutcome(data []byte) (*ledger.Outcome, error) {
	f := decode[ledger.Outcome](data)
	if f.err != nil {
		return nil, f.err
	}
	return f.v.(*ledger.Outcome), nil
}
