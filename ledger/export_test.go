package ledger

// The decoders for any JSON, to compare with those that read the common form only.
var (
	DecodeAnyEntry = decodeEntry
	DecodeAnyBody  = decodeBody
	ScanEntry      = scanEntry
)
