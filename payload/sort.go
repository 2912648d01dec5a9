package payload

import (
	"reflect"

	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
)

// sort is the purpose of a payload, to which its seal is bound: somebody who may
// answer an activity has its request and its earlier reports, all sealed for that
// activity, and must not be able to return one of them as the answer.
type sort string

const (
	// sortValue is every value without a sort of its own, such as the answers of
	// activities.
	sortValue sort = ""
	// sortRequest is an activity's request.
	sortRequest sort = "request"
	// sortBeat is what a running activity reports.
	sortBeat sort = "beat"
	// sortDetails is the details of an activity's failure, and sortFailure its
	// message and what else is sealed of it.
	sortDetails sort = "details"
	sortFailure sort = "failure"
	// sortReport is the result of a child workflow.
	sortReport sort = "report"
	// sortCarried is the state of a run that continues as new.
	sortCarried sort = "carried"
	// sortOutput is the output of a run, and sortLarge a large value of one,
	// both as stored outside of histories.
	sortOutput sort = "output"
	sortLarge  sort = "value"
)

// sortOf returns the sort of a value, or of what is read into a target.
func sortOf(value any) sort {
	switch value.(type) {
	case contract.LoadRequest, *contract.LoadRequest, **contract.LoadRequest,
		contract.Call, *contract.Call, **contract.Call,
		contract.RouteRequest, *contract.RouteRequest, **contract.RouteRequest,
		contract.JournalRequest, *contract.JournalRequest, **contract.JournalRequest,
		contract.CloseRequest, *contract.CloseRequest, **contract.CloseRequest,
		contract.PostRequest, *contract.PostRequest, **contract.PostRequest,
		contract.OpenRequest, *contract.OpenRequest, **contract.OpenRequest,
		contract.SignRequest, *contract.SignRequest, **contract.SignRequest,
		contract.SteerRequest, *contract.SteerRequest, **contract.SteerRequest,
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
		// The SDK reads the part of attributes that it knows into a type of its own.
		return sortFailure
	}
	return sortValue
}
