package host

import (
	"chimera.ai/engine/blob"
	"chimera.ai/engine/payload"
)

// Interpreted gives options of a host whose workflow code is another build's.
func Interpreted(o Options, interpreter any) Options {
	o.interpreter = interpreter
	return o
}

// NewReplayerOf is a replayer of another build's workflow code.
func NewReplayerOf(interpreter any, blobs blob.Store, sealing payload.Sealing) (*Replayer, error) {
	return newReplayer(interpreter, blobs, sealing)
}
