package payload

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

// NewFailureConverter returns the failure converter for a data converter of
// [NewConverter]. With keys, messages and stack traces of failures are sealed; the
// failure that ends a run stays readable for clients without keys, but its causes
// do not.
func NewFailureConverter(data converter.DataConverter) converter.FailureConverter {
	c, ok := data.(patient)
	if !ok || c.sealing.Keys == nil {
		return ours{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: data}), placeNone}
	}
	return failures{data: c}
}

// ours assigns the failures that workers write kinds that the interpreter knows.
// What the SDK reports in the name of an activity names no request and has no kind
// of the contract. For a large value that could not be stored or read, it gets the
// kind for which the interpreter waits; for anything else, such as a panic outside
// a node's own code, it counts as a lost worker.
type ours struct {
	converter.FailureConverter
	place string
}

var _ converter.FailureConverterWithSerializationContext = ours{}

// WithSerializationContext sets the context of failures.
func (c ours) WithSerializationContext(ctx converter.SerializationContext) converter.FailureConverter {
	return ours{c.FailureConverter, scopeOf(ctx).place}
}

// ErrorToFailure implements the SDK's interface.
func (c ours) ErrorToFailure(err error) *failurepb.Failure {
	return c.FailureConverter.ErrorToFailure(c.known(err))
}

// FailureToError implements the SDK's interface.
func (c ours) FailureToError(f *failurepb.Failure) error {
	return c.FailureConverter.FailureToError(shallow(f))
}

// awayPrefix begins the text of a [contract.Error] of kind StoreUnavailable. If
// workflow code panics with one, so that its task is retried, the SDK only keeps
// the text.
const awayPrefix = string(contract.StoreUnavailable) + ": "

func (c ours) known(err error) error {
	var e *contract.Error
	if bad := new(argumentError); errors.As(err, &bad) {
		return bad.failure()
	}
	switch {
	case err == nil, errors.As(err, new(*temporal.ApplicationError)):
	case errors.As(err, &e) && e.Kind == contract.StoreUnavailable:
		return temporal.NewApplicationErrorWithOptions(err.Error(), string(e.Kind), temporal.ApplicationErrorOptions{})
	case c.place == placeNone && (errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrCorrupt)):
		// A task with such a value by reference is retried until it can be read.
		return temporal.NewApplicationErrorWithOptions(err.Error(), string(contract.StoreUnavailable), temporal.ApplicationErrorOptions{})
	case c.place == placeNone && strings.HasPrefix(err.Error(), awayPrefix):
		return temporal.NewApplicationErrorWithOptions(strings.TrimPrefix(err.Error(), awayPrefix), string(contract.StoreUnavailable), temporal.ApplicationErrorOptions{})
	case c.place == placeNone && errors.Is(err, context.Canceled):
		// A worker that stops while it reads what an activity is asked.
		return temporal.NewApplicationErrorWithOptions(err.Error(), string(contract.WorkerLost),
			temporal.ApplicationErrorOptions{NonRetryable: true})
	case c.place != placeActivity, temporal.IsCanceledError(err), temporal.IsTimeoutError(err):
	default:
		return temporal.NewApplicationErrorWithOptions(err.Error(), string(contract.WorkerLost),
			temporal.ApplicationErrorOptions{NonRetryable: true})
	}
	return err
}

// failures seals messages.
type failures struct{ data patient }

var _ converter.FailureConverterWithSerializationContext = failures{}

// WithSerializationContext sets the context of failures.
func (c failures) WithSerializationContext(ctx converter.SerializationContext) converter.FailureConverter {
	moved := c.data.sealer
	moved.scope = scopeOf(ctx)
	return failures{data: moved.patient()}
}

// sealing returns a converter that seals with the key of an id.
func (c failures) sealing(id string) failures {
	moved := c.data.sealer
	moved.key = id
	return failures{data: moved.patient()}
}

func (c failures) base() converter.FailureConverter {
	return ours{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: c.data}), c.data.scope.place}
}

// attributes is the sealed part of a failure. The first two have the names that
// every SDK and the UI read. The others are also in the history in clear, because
// the server acts on them or because they are sealed by themselves, and are
// compared.
type attributes struct {
	Message      string `json:"message"`
	StackTrace   string `json:"stack_trace"`
	Type         string `json:"type,omitempty"`
	NonRetryable bool   `json:"non_retryable,omitempty"`
	// Details is the digest of the details, "" where there are none.
	Details string `json:"details,omitempty"`
}

// digest identifies the details of a failure. For sealed details the data suffice,
// since they do not open with another key or in another context.
func digest(details *commonpb.Payloads) string {
	if len(details.GetPayloads()) == 0 {
		return ""
	}
	h := sha256.New()
	for _, p := range details.GetPayloads() {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p.GetData()))))
		_, _ = h.Write(p.GetData())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hidden is what the SDKs write in place of the message.
const hidden = "Encoded failure"

// ErrorToFailure implements the SDK's interface. If there is no key to seal with,
// the failure only says so.
func (c failures) ErrorToFailure(err error) *failurepb.Failure {
	if answer := new(answerError); errors.As(err, &answer) && c.data.key == "" {
		return c.sealing(answer.key).ErrorToFailure(answer.error)
	}
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
		Details: digest(info.GetDetails()),
	})
	if err == nil {
		f.EncodedAttributes = p
	}
	f.Message, f.StackTrace = hidden, ""
}

// FailureToError implements the SDK's interface. An activity's failure that no
// worker of this deployment has written becomes a lost worker, since a failure that
// anybody may have written is no reason to take an error edge.
func (c failures) FailureToError(f *failurepb.Failure) error {
	if c.data.scope.place != placeActivity || c.data.sealing.AcceptPlain {
		return c.base().FailureToError(f)
	}
	key, err := keyOfFailure(f)
	if err == nil {
		err = c.check(f) // there may be none: the server takes that, too
	}
	for at := f.GetCause(); at != nil && err == nil; at = at.GetCause() {
		err = c.check(at)
	}
	said := &contract.SealedError{Key: key, Local: c.data.scope.local, Kind: contract.Kind(f.GetApplicationFailureInfo().GetType())}
	switch {
	case err == nil:
		said.Err = c.base().FailureToError(f)
	case errors.Is(err, errNoKey) && c.data.scope.local:
		// Only the workflow's own worker reports the result of a local activity, and the
		// workflow has to wait: the panic fails its task, which is retried.
		panic(err)
	case errors.Is(err, errNoKey):
		said.Missing, said.Err = true, err
	default:
		kind := contract.WorkerLost
		if e := new(contract.Error); errors.As(err, &e) {
			kind = e.Kind
		}
		said.Err = temporal.NewApplicationErrorWithOptions(err.Error(), string(kind), temporal.ApplicationErrorOptions{})
	}
	if key == "" {
		return said.Err
	}
	return said
}

// maxCauses bounds the causes of a failure, since the SDK copies all remaining ones
// at each.
const maxCauses = 20

// shallow returns a failure with at most maxCauses causes.
func shallow(f *failurepb.Failure) *failurepb.Failure {
	at, causes := f, 0
	for ; at.GetCause() != nil && causes < maxCauses; at = at.GetCause() {
		causes++
	}
	if at.GetCause() == nil {
		return f
	}
	copied := &failurepb.Failure{}
	for from, to := f, copied; ; from, to = from.GetCause(), to.GetCause() {
		// All but the causes: a copy of those would be as long.
		from.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if fd.Name() != "cause" {
				to.ProtoReflect().Set(fd, v)
			}
			return true
		})
		if causes--; causes < 0 {
			return copied
		}
		to.Cause = &failurepb.Failure{}
	}
}

// keyOfFailure is the id of the key with which a failure and its causes are sealed,
// or "" if nothing is. A worker seals all of them with one key.
func keyOfFailure(f *failurepb.Failure) (string, error) {
	key := ""
	for at := f; at != nil; at = at.GetCause() {
		switch id := keyOf(at.GetEncodedAttributes()); {
		case id == "" || id == key:
		case key == "":
			key = id
		default:
			return "", refusal("the causes of a failure are sealed with several keys")
		}
	}
	return key, nil
}

// check refuses a failure that an activity's worker should have sealed and did not.
// Timeouts reported by the server, and timeouts and cancellations of local
// activities reported by the workflow's own worker, are not sealed. Anything else
// that others can make the server report is ignored.
func (c failures) check(f *failurepb.Failure) error {
	info := f.GetApplicationFailureInfo()
	switch {
	case info != nil:
	case f.GetTimeoutFailureInfo() != nil, f.GetCanceledFailureInfo() != nil && c.data.scope.local:
		return nil
	default:
		return refusal("the failure of an activity is none that a worker writes (%s)", c.data.scope)
	}
	if f.GetEncodedAttributes() == nil {
		return refusal("the failure of an activity is not sealed (%s)", c.data.scope)
	}
	opened, err := c.data.opened(f.GetEncodedAttributes(), attributes{})
	if err != nil {
		return c.waits(f, err)
	}
	var said attributes
	if err := json.Unmarshal(opened.GetData(), &said); err != nil {
		return refusal("the attributes of a failure: %w", err)
	}
	if said.Type != info.GetType() || said.NonRetryable != info.GetNonRetryable() || said.Details != digest(info.GetDetails()) {
		return refusal("the type or the details of a failure are not those that were sealed (%s)", c.data.scope)
	}
	return nil
}

// waits accepts one failure that was sealed for no activity: before a worker can
// read its request, the SDK (1.50.0) does not say for which activity it reports
// that large values could not be read. Somebody who replays such a failure can only
// make the run wait for its store.
func (c failures) waits(f *failurepb.Failure, refused error) error {
	if f.GetApplicationFailureInfo().GetType() != string(contract.StoreUnavailable) {
		return refused
	}
	if _, err := open(c.data.sealing.Keys, f.GetEncodedAttributes(), scopeOf(nil).context(sortFailure), maxOpened); err != nil {
		return refused
	}
	return contract.Errorf(contract.StoreUnavailable, "the worker could not read what it was asked, since the store was unavailable")
}
