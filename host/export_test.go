package host

import (
	"context"

	"chimera.ai/engine/activities"
)

// Interpreted gives options of a host whose workflow code is another build's.
func Interpreted(o Options, interpreter any) Options {
	o.interpreter = interpreter
	return o
}

// Warn logs what a host of these options warns of.
func Warn(o Options) { o.warn(context.Background()) }

// Fitting returns a caller that refuses what options do not do for.
func Fitting(o *Options, c activities.Caller) activities.Caller { return fitting{c, o} }
