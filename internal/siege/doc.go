// Package siege besieges the engine: it generates hostile but valid plans, works
// out by a model of its own how each run of them must end, runs them on a real
// Temporal server while workers are killed, stores are away and clients meddle,
// and holds ledger, Temporal and client against the model.
//
//	plan.go      a plan that knows what its nodes do, and writes itself
//	model.go     how a run must end, from the plan language's own rules (pure)
//	judge.go     what was seen of a run, held against the model (pure)
//	build.go     parts that plans are made of: chains, fans, values
//	storm.go     more of them: storms and meshes of edges
//	generate.go  plans at the bounds of the language, by seed
//	skills.go    the skills and tools that plans call
//	worker.go    the worker process that has them
//	store.go     stores that can be taken away, and disk_*.go one that is full
//	fault.go     what befalls runs
//	watch.go     what a server says of a run while it runs, and of its histories
//	verdict.go   whether ledger, Temporal and client tell that end
//	siege.go     a round: a store, workers, runs, faults
//
// The model shares no code with the interpreter: it is written from the pages of
// the plan language and of failures. The package uses the engine only from
// outside: hosts, clients and the ledger.
package siege
