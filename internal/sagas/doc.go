// Package sagas draws plans with effects, works out by a model of its own what their runs
// may do and must undo, runs them on a real Temporal server with a tool that fails, dies
// and kills its worker, cancels some, and holds the tool's own journal against the model.
//
//	plan.go      a plan with effects, which writes itself
//	generate.go  plans by seed
//	tool.go      the tool, which writes down each call itself
//	journal.go   what the tool has written down (pure)
//	model.go     what may have become of calls, nodes and blocks (pure)
//	judge.go     what was seen of a run, held against the model (pure)
//	worker.go    a deployment, and the worker process that is killed
//	run.go       runs of plans, what is seen of them, and the report
//
// The model shares no code with the interpreter: it is written from the pages of the plan
// language and of failures. It takes from the journal what a call did, and says what follows
// from that. So it is exact where a run is deterministic, and elsewhere leaves open only
// what depends on time: how far a run came until it was cancelled, and whether the end of
// a call was recorded before a worker was killed.
package sagas
