package payload

import (
	"reflect"

	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
)

// sort is what a payload is for. It is part of what a seal is bound to: somebody
// who may answer an activity has its request at hand, and what it has said of
// itself before, all sealed for that very activity, and may give none of it as the
// answer.
type sort string

const (
	// sortValue is every value without a sort of its own, such as the answers of
	// activities.
	sortValue sort = ""
	// sortRequest is what an activity is asked.
	sortRequest sort = "request"
	// sortBeat is what a running activity reports.
	sortBeat sort = "beat"
	// sortDetails is the details of an activity's failure, and sortFailure its
	// message and what else is sealed of it.
	sortDetails sort = "details"
	sortFailure sort = "failure"
	// sortReport is what a child workflow came to.
	sortReport sort = "report"
	// sortCarried is the state of a run that continues as new.
	sortCarried sort = "carried"
	// sortOutput is what a run came to, and sortLarge a large value of one, both as
	// they are kept outside of histories.
	sortOutput sort = "output"
	sortLarge  sort = "value"
)

// sortOf gives the sort of a value, or of what is read into a target.
func sortOf(value any) sort {
	switch value.(type) {
	case contract.LoadRequest, *contract.LoadRequest, **contract.LoadRequest,
		contract.Call, *contract.Call, **contract.Call,
		contract.RouteRequest, *contract.RouteRequest, **contract.RouteRequest,
		contract.JournalRequest, *contract.JournalRequest, **contract.JournalRequest,
		contract.CloseRequest, *contract.CloseRequest, **contract.CloseRequest,
		contract.ChildRequest, *contract.ChildRequest, **contract.ChildRequest,
		contract.ChildCall, *contract.ChildCall, **contract.ChildCall:
		return sortRequest
	case contract.Report, *contract.Report, **contract.Report:
		return sortReport
	case contract.Beat, *contract.Beat, **contract.Beat:
		return sortBeat
	case contract.ErrorDetails, *contract.ErrorDetails, **contract.ErrorDetails:
		return sortDetails
	case contract.Carried, *contract.Carried, **contract.Carried:
		return sortCarried
	case attributes, *attributes:
		return sortFailure
	case *converter.RawValue:
		return sortValue
	}
	if t := reflect.TypeOf(value); t != nil && t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct &&
		t.Elem().PkgPath() == "go.temporal.io/sdk/converter" {
		// The library reads into a type of its own the part of attributes that it knows.
		return sortFailure
	}
	return sortValue
}
