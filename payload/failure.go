package payload

import (
	"encoding/json"
	"errors"

	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/contract"
)

// NewFailureConverter gives the failure converter that belongs to a data
// converter of [NewConverter]. Where there are keys, messages and stack traces of
// failures are sealed; the failure that ends a run stays readable for clients
// without keys, but not what has caused it.
func NewFailureConverter(data converter.DataConverter) converter.FailureConverter {
	c, ok := data.(patient)
	if !ok || c.sealing.Keys == nil {
		return outages{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: data})}
	}
	return failures{data: c}
}

// outages gives what the SDK says of a large value that could not be stored or
// read, in the name of the activity, the kind that the interpreter waits for.
type outages struct{ converter.FailureConverter }

// ErrorToFailure implements the SDK's interface.
func (c outages) ErrorToFailure(err error) *failurepb.Failure {
	var e *contract.Error
	if bad := new(argumentError); errors.As(err, &bad) {
		err = bad.failure()
	} else if errors.As(err, &e) && e.Kind == contract.StoreUnavailable && !errors.As(err, new(*temporal.ApplicationError)) {
		err = temporal.NewApplicationErrorWithOptions(err.Error(), string(e.Kind), temporal.ApplicationErrorOptions{})
	}
	return c.FailureConverter.ErrorToFailure(err)
}

// failures seals messages.
type failures struct{ data patient }

var _ converter.FailureConverterWithSerializationContext = failures{}

// WithSerializationContext says where failures stand.
func (c failures) WithSerializationContext(ctx converter.SerializationContext) converter.FailureConverter {
	moved := c.data.sealer
	moved.scope = scopeOf(ctx)
	return failures{data: moved.patient()}
}

func (c failures) base() converter.FailureConverter {
	return outages{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: c.data})}
}

// attributes is what is sealed of a failure. The first two have the names that
// every SDK and the UI read; the others are visible in the history too, since
// the server acts on them, and are compared.
type attributes struct {
	Message      string `json:"message"`
	StackTrace   string `json:"stack_trace"`
	Type         string `json:"type,omitempty"`
	NonRetryable bool   `json:"non_retryable,omitempty"`
}

// hidden is what the SDKs write where the message was.
const hidden = "Encoded failure"

// ErrorToFailure implements the SDK's interface. Without a key to seal with, the
// failure says only that.
func (c failures) ErrorToFailure(err error) *failurepb.Failure {
	f := c.base().ErrorToFailure(err)
	if f == nil {
		return nil
	}
	f = proto.CloneOf(f) // may belong to an error that came from a history
	from := f
	if c.readable(f) {
		from = f.GetCause()
	}
	for ; from != nil; from = from.GetCause() {
		if from.GetEncodedAttributes() == nil {
			c.hide(from)
		}
	}
	return f
}

// readable reports whether a failure is the one that ends a run: its first detail
// is a [contract.Failure], which nothing but the workflow writes unsealed.
func (c failures) readable(f *failurepb.Failure) bool {
	if c.data.scope.place == placeActivity {
		return false
	}
	details := f.GetApplicationFailureInfo().GetDetails().GetPayloads()
	if details == nil {
		details = f.GetCanceledFailureInfo().GetDetails().GetPayloads()
	}
	return len(details) > 0 && isInline(details[0])
}

func (c failures) hide(f *failurepb.Failure) {
	info := f.GetApplicationFailureInfo()
	p, err := c.data.sealer.ToPayload(attributes{
		Message: f.GetMessage(), StackTrace: f.GetStackTrace(), Type: info.GetType(), NonRetryable: info.GetNonRetryable(),
	})
	if err == nil {
		f.EncodedAttributes = p
	}
	f.Message, f.StackTrace = hidden, ""
}

// FailureToError implements the SDK's interface. An activity's failure that no
// worker of this deployment has written comes out as a lost worker: what anybody
// may have said is no reason to take an error edge.
func (c failures) FailureToError(f *failurepb.Failure) error {
	if f == nil {
		return nil
	}
	if c.data.scope.place == placeActivity && !c.data.sealing.AcceptPlain {
		for at := f; at != nil; at = at.GetCause() {
			err := c.check(at)
			if errors.Is(err, errNoKey) {
				// Only a workflow hears of an activity's failure, and it has to wait:
				// the panic fails the workflow task, which is tried again.
				panic(err)
			}
			if err != nil {
				return temporal.NewApplicationErrorWithOptions(err.Error(), string(contract.WorkerLost), temporal.ApplicationErrorOptions{})
			}
		}
	}
	return c.base().FailureToError(f)
}

// check refuses a failure that an activity's worker has to seal and did not. What
// the server itself says of an activity (timeouts, cancellation) is not sealed.
func (c failures) check(f *failurepb.Failure) error {
	info := f.GetApplicationFailureInfo()
	if info == nil {
		return nil
	}
	if f.GetEncodedAttributes() == nil {
		return refusal("the failure of an activity is not sealed (%s)", c.data.scope)
	}
	opened, err := c.data.opened(f.GetEncodedAttributes(), attributes{})
	if err != nil {
		return err
	}
	var said attributes
	if err := json.Unmarshal(opened.GetData(), &said); err != nil {
		return refusal("the attributes of a failure: %w", err)
	}
	if said.Type != info.GetType() || said.NonRetryable != info.GetNonRetryable() {
		return refusal("the type of a failure is not the one that was sealed (%s)", c.data.scope)
	}
	return nil
}
