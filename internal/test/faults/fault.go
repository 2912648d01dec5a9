package main

// Fault is one edit to code that carries a promise, as a careless change could make it.
type Fault struct {
	// Area is the part of the engine that makes the promise; All sets it.
	Area string
	// Name says what the engine does with the fault.
	Name string
	// File is the path of a file in the module, with slashes. Old occurs in it once, and New
	// takes its place.
	File, Old, New string
	// Breaks is the promise that no longer holds.
	Breaks string
	Tests
}

// Tests are those that must find a fault.
type Tests struct {
	// In lists packages, separated by blanks, and Run selects their tests, as -run takes
	// it; "" is all.
	In, Run string
}

func (t Tests) String() string {
	if t.Run == "" {
		return t.In
	}
	return t.In + " -run '" + t.Run + "'"
}

// areas lists the faults by area.
var areas = []struct {
	name   string
	faults []Fault
}{
	{"workflows", ofWorkflows},
	{"activities", ofActivities},
	{"guardian", ofGuardian},
	{"approval", ofApproval},
	{"trust", ofTrust},
	{"store", ofStore},
	{"audit", ofAudit},
	{"sealing", ofSealing},
	{"mcp", ofMCP},
	{"containment", ofContainment},
	{"taint", ofTaint},
}

// All returns the faults of all areas, each with its area.
func All() []Fault {
	var all []Fault
	for _, a := range areas {
		for _, f := range a.faults {
			f.Area = a.name
			all = append(all, f)
		}
	}
	return all
}
