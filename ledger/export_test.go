package ledger

// The decoders for whatever JSON there is, beside those that read the commonest
// writing only.
var (
	DecodeAnyEntry = decodeEntry
	DecodeAnyBody  = decodeBody
	ScanEntry      = scanEntry
)
