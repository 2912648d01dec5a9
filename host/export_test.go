package host

import (
	"chimera.ai/engine/activities"
	"chimera.ai/engine/config"
	"chimera.ai/engine/mcp"
)

// Interpreted gives options of a host whose workflow code is another build's.
func Interpreted(o Options, interpreter any) Options {
	o.interpreter = interpreter
	return o
}

// Fitting returns a caller that refuses what options do not do for.
func Fitting(o *Options, c activities.Caller) activities.Caller { return fitting{c, o} }

// Tools returns what calls the servers of some options, as the role tools does, and what ends it.
func Tools(o Options) (activities.Caller, func() error) {
	o = o.withDefaults()
	pool := mcp.NewPool(o.Servers, o.MCP)
	return cleaned{children{pool: pool, role: RoleTools}, o.Secrets}, pool.Close
}

// Relied returns the files that a worker of a configuration relies on.
func Relied(c config.Config) []string { return relied(c) }
