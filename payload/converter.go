// Package payload converts the values of Chimera for Temporal. It has the data
// converter, the failure converter, the codec of the Temporal UI, and the driver of
// the SDK's external storage, which keeps large payloads in a content-addressed
// store and only their digests in the history.
//
// Four sorts of payload differ from the SDK's own:
//
//   - A compiled plan ([plan.Loaded]) travels as its digest where the store has it,
//     else as its canonical bytes. A process decodes each plan once, whatever the
//     number of runs and replays: [Plans] is the cache.
//   - What foreign clients read (a run's result, the answer to chimera.state,
//     a failure's details), and the argument of an update, stays in the history up to [InlineLimit], so that a
//     client without our store reads it. A larger result goes to the store, and
//     such a client reads a [contract.Reference].
//   - Everything else that is larger than [Threshold] goes to the store, bound to
//     the workflow that it is stored for: no other workflow reads it there.
//   - Where there are keys, every payload is sealed (AES-256-GCM) but those of
//     the start, signals, updates, results and queries, whose Go types are listed
//     in plain. What is sealed is bound to namespace, workflow id, activity type
//     and its sort ([sortOf]), and is taken nowhere else: what an activity was
//     asked is no answer. A role that has no more than its own key answers for itself
//     alone. What is not sealed is refused wherever it had to be. Any
//     client that may write to the namespace can answer an activity, but not with a
//     payload that opens. An answer has the key of its request ([contract.SealedWith]).
//
// A sealed payload is not bound to one execution: within a workflow id, an
// activity's answer can be replayed as that of another activity of the same type.
// So every answer names its request, which the interpreter compares.
package payload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

const (
	metadataHead = "chimera-head"
	encodingPlan = "binary/chimera-plan"
)

// inlineMark ends the JSON of a payload that stays in the history, for the
// storage's selector. It is white space to every reader of JSON; metadata would
// make Temporal's command line print the payload undecoded.
const inlineMark = '\n'

// Sealing says how payloads are protected. The zero value leaves them readable.
type Sealing struct {
	// Keys seals payloads, or is nil.
	Keys *Keyring
	// AcceptPlain takes unsealed payloads everywhere, as written before there
	// were keys. While it is set, anybody who may write to the namespace can
	// answer an activity.
	AcceptPlain bool
	// Compress compresses what is sealed or stored, if that makes it smaller.
	Compress bool
}

// NewConverter returns the data converter of clients and workers of the engine. It
// reads plain JSON from any other SDK where clients may write.
func NewConverter(plans *Plans, sealing Sealing) converter.DataConverter {
	base := converter.NewCompositeDataConverter(
		converter.NewNilPayloadConverter(),
		converter.NewByteSlicePayloadConverter(),
		planConverter{plans},
		// Temporal's own messages, such as a workflow's metadata.
		converter.NewProtoJSONPayloadConverter(),
		converter.NewProtoPayloadConverter(),
		jsonConverter{converter.NewJSONPayloadConverter()},
	)
	return sealer{base: base, sealing: sealing, scope: scopeOf(nil)}.patient()
}

// patientBytes is the size from which any payload is read like a plan, outside the
// deadlock detector.
const patientBytes = 256 << 10

// patient reads compiled plans, and other large values, outside the deadlock detector,
// since a plan of 100,000 nodes takes longer than the second that the detector allows.
//
// Nothing is written so: a workflow reads in its own coroutine, but a local
// activity writes its result with the workflow's converter in a goroutine of its
// own, and the SDK's pause of the detector (1.50.0) waits for ever if the
// coroutine gives way at that very moment: each holds the lock that the other
// one needs.
type patient struct {
	sealer
	slow converter.DataConverter
}

var (
	_ workflow.ContextAware                           = patient{}
	_ converter.DataConverterWithSerializationContext = patient{}
)

func (c sealer) patient() patient { return patient{sealer: c, slow: c} }

func (c patient) WithWorkflowContext(ctx workflow.Context) converter.DataConverter {
	bound := c.sealer
	bound.blocks = true
	bound.key = keyAt(ctx)
	slow := workflow.DataConverterWithoutDeadlockDetection(bound)
	if aware, ok := slow.(workflow.ContextAware); ok {
		slow = aware.WithWorkflowContext(ctx)
	}
	return patient{sealer: bound, slow: slow}
}

// WithContext binds the answer of an activity to the key of its request.
func (c patient) WithContext(ctx context.Context) converter.DataConverter {
	moved := c.sealer
	moved.asked = askedOf(ctx)
	return moved.patient()
}

// WithSerializationContext sets the context of payloads. The SDK calls it before it
// binds a converter to a workflow.
func (c patient) WithSerializationContext(ctx converter.SerializationContext) converter.DataConverter {
	moved := c.sealer
	moved.scope = scopeOf(ctx)
	return moved.patient()
}

func (c patient) FromPayload(p *commonpb.Payload, target any) error {
	if wantsPlan(target) || len(p.GetData()) > patientBytes {
		return c.slow.FromPayload(p, target)
	}
	return c.sealer.FromPayload(p, target)
}

func (c patient) FromPayloads(ps *commonpb.Payloads, targets ...any) error {
	if slices.ContainsFunc(targets, wantsPlan) || slices.ContainsFunc(ps.GetPayloads(), func(p *commonpb.Payload) bool { return len(p.GetData()) > patientBytes }) {
		return c.slow.FromPayloads(ps, targets...)
	}
	return c.sealer.FromPayloads(ps, targets...)
}

func wantsPlan(target any) bool {
	_, ok := target.(**plan.Loaded)
	return ok
}

// sealer seals what base writes, and opens what base reads.
type sealer struct {
	base    converter.DataConverter
	sealing Sealing
	scope   scope
	// blocks reports that it converts for a workflow, which must wait if this
	// process lacks a key: an error could end the run over something that a
	// restart fixes.
	blocks bool
	// key is the id of the key with which an execution's requests and their
	// answers are sealed ([contract.SealedWith]), or "" for the first key.
	key string
	// asked receives the key of an activity's request, with which all its
	// answers are sealed.
	asked *asked
}

// plain reports whether a value of this type, or a pointer to where one is read,
// is what clients without keys write and read: the start's argument, a run's
// result and failure, and answers to queries. Signals and updates add theirs
// here. No activity carries any of it unsealed.
func (c sealer) plain(value any) bool {
	if c.scope.place != placeWorkflow && c.scope.place != placeNone {
		return false
	}
	switch value.(type) {
	case json.RawMessage, *json.RawMessage, // the start's argument, as it came
		contract.Argument, // of an update, which is read as it came
		contract.Start, *contract.Start, contract.Result, *contract.Result,
		contract.State, *contract.State, contract.Verdict, *contract.Verdict, contract.Failure, *contract.Failure,
		*sdkpb.WorkflowMetadata:
		return true
	}
	return false
}

// internal reports whether only the engine or the SDK writes what is read here: a
// plan, a run's state, a child's report, the record of a local activity.
func internal(target any) bool {
	switch target.(type) {
	case **plan.Loaded, *contract.Carried, **contract.Carried, *contract.Report, **contract.Report:
		return true
	}
	t := reflect.TypeOf(target)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && strings.HasPrefix(t.PkgPath(), "go.temporal.io/sdk/internal")
}

func (c sealer) ToPayload(value any) (*commonpb.Payload, error) {
	p, err := c.base.ToPayload(value)
	if err != nil || p == nil || c.sealing.Keys == nil || c.plain(value) {
		return c.scope.owned(value, p), err
	}
	if _, raw := value.(converter.RawValue); raw && isSealed(p) {
		return p, nil
	}
	p, err = seal(c.sealing.Keys, c.sealsWith(value), c.seals(), p, c.scope.context(sortOf(value)), c.sealing.Compress)
	return c.scope.owned(value, p), err
}

func (c sealer) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	if len(values) == 0 {
		return nil, nil
	}
	ps := make([]*commonpb.Payload, len(values))
	for i, value := range values {
		var err error
		if ps[i], err = c.ToPayload(value); err != nil {
			return nil, fmt.Errorf("values[%d]: %w", i, err)
		}
	}
	return &commonpb.Payloads{Payloads: ps}, nil
}

func (c sealer) FromPayload(p *commonpb.Payload, target any) error {
	if p == nil {
		return nil
	}
	if hidden, err := c.handOn(p, target); hidden {
		return err
	}
	opened, err := c.opened(p, target)
	if err != nil {
		if c.blocks && errors.Is(err, errNoKey) {
			if report, ok := target.(*contract.Report); ok {
				// Anybody may send one; the reader knows whether it is expected.
				*report = contract.Report{SealedWith: keyOf(p), Err: err}
				return nil
			}
			panic(err) // fails the workflow task, which is tried again
		}
		return err
	}
	if err := c.base.FromPayload(opened, target); err != nil {
		return err
	}
	c.named(keyOf(p), target)
	return nil
}

func (c sealer) opened(p *commonpb.Payload, target any) (*commonpb.Payload, error) {
	if err := c.scope.within(p); err != nil {
		return nil, err
	}
	p = unscoped(p)
	if !isSealed(p) {
		if !c.open(p, target) {
			return nil, refusal("it is not sealed (%s)", c.scope)
		}
		return decompress(p, maxOpened)
	}
	if err := c.answers(p); err != nil {
		return nil, err
	}
	switch by := madeBy(p); {
	case by == roleEngine, by == c.seals():
	case by == roleValues && c.open(p, target):
		// What clients store is worth as much as what they write.
	default:
		return nil, refusal("it is sealed with the key of the role %.40q (%s)", string(by), c.scope)
	}
	return open(c.sealing.Keys, p, c.scope.context(sortOf(target)), maxOpened)
}

// open reports whether what is read into a target need not come from a worker.
func (c sealer) open(p *commonpb.Payload, target any) bool {
	strict := c.sealing.Keys != nil && !c.sealing.AcceptPlain
	switch {
	case !strict, c.plain(target):
		return true
	case c.scope.place == placeWorkflow && !c.blocks && !internal(target):
		return true // a client reads a result or an answer into a type of its own
	}
	// A client that starts a run may write out the arguments that are not its own.
	return c.scope.place == placeWorkflow && encodingOf(p) == converter.MetadataEncodingNil
}

// seals is the role for which a value is sealed here.
func (c sealer) seals() role {
	switch c.scope.place {
	case placeActivity:
		if c.scope.local {
			return roleEngine
		}
		return c.scope.role
	case placeNone:
		return c.sealing.Keys.own()
	}
	return roleEngine
}

func (c sealer) FromPayloads(ps *commonpb.Payloads, targets ...any) error {
	if len(ps.GetPayloads()) == 0 && len(targets) > 0 && c.scope.place == placeActivity &&
		c.sealing.Keys != nil && !c.sealing.AcceptPlain {
		return refusal("there is none (%s)", c.scope)
	}
	for i, p := range ps.GetPayloads() {
		if i >= len(targets) {
			break
		}
		if err := c.FromPayload(p, targets[i]); err != nil {
			err = fmt.Errorf("payload item %d: %w", i, err)
			if c.blocks && isStart(targets) {
				err = &argumentError{err}
			}
			return err
		}
	}
	return nil
}

// ToString shows a payload to people who run this process.
func (c sealer) ToString(p *commonpb.Payload) string {
	if p == nil {
		return ""
	}
	if isSealed(p) {
		opened, err := open(c.sealing.Keys, p, "", maxOpened)
		if err != nil {
			return err.Error()
		}
		p = opened
	}
	p, err := decompress(unscoped(p), maxOpened)
	if err != nil {
		return err.Error()
	}
	return c.base.ToString(p)
}

func (c sealer) ToStrings(ps *commonpb.Payloads) []string {
	var all []string
	for _, p := range ps.GetPayloads() {
		all = append(all, c.ToString(p))
	}
	return all
}

// jsonConverter is the SDK's JSON converter, except that it does not escape "<",
// ">" and "&": a value could be six times as large as the workflow has measured. It
// also marks what foreign clients read as inline.
type jsonConverter struct {
	*converter.JSONPayloadConverter
}

func (c jsonConverter) ToPayload(value any) (*commonpb.Payload, error) {
	data, err := encodeJSON(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", converter.ErrUnableToEncode, err)
	}
	p := &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(c.Encoding())},
		Data:     data,
	}
	switch value.(type) {
	case contract.Argument, contract.Result, contract.State, *contract.State, contract.Failure, *contract.Failure, contract.ErrorDetails:
		p.Data = append(p.Data, inlineMark)
	}
	return p, nil
}

// encodeJSON writes values without escapes for HTML, with which a text could be six
// times as long, and too long for a reader.
func encodeJSON(value any) ([]byte, error) {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(data.Bytes(), []byte("\n")), err
}

// planTimeout bounds the wait for a plan's bytes; a workflow task has as long.
const planTimeout = 10 * time.Second

// planConverter carries *plan.Loaded.
type planConverter struct{ plans *Plans }

func (planConverter) Encoding() string { return encodingPlan }

func (c planConverter) ToPayload(value any) (*commonpb.Payload, error) {
	loaded, ok := value.(*plan.Loaded)
	if !ok || loaded == nil {
		return nil, nil
	}
	head, err := encodeJSON(loaded.Head)
	if err != nil {
		return nil, fmt.Errorf("encode the head of a plan: %w", err)
	}
	data, err := c.plans.bytes(loaded)
	if err != nil {
		return nil, err
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{
			converter.MetadataEncoding: []byte(encodingPlan),
			metadataHead:               head,
		},
		Data: data,
	}, nil
}

func (c planConverter) FromPayload(p *commonpb.Payload, target any) error {
	loaded, ok := target.(**plan.Loaded)
	if !ok {
		return fmt.Errorf("a compiled plan cannot be read as %T", target)
	}
	var head plan.Head
	if err := json.Unmarshal(p.GetMetadata()[metadataHead], &head); err != nil {
		return fmt.Errorf("decode the head of a plan: %w", err)
	}
	if len(p.GetData()) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), planTimeout)
		defer cancel()
		compiled, err := c.plans.Get(ctx, head.Digest)
		if err != nil {
			err = contract.Errorf(contract.StoreUnavailable, "the plan cannot be read: %w", err)
		}
		*loaded = &plan.Loaded{Plan: compiled, Head: head, Err: err}
		return nil
	}
	e, err := c.plans.decode(head.Digest, p.GetData())
	if err != nil {
		return err
	}
	*loaded = &plan.Loaded{Plan: e.plan, Head: head}
	return nil
}

func (planConverter) ToString(p *commonpb.Payload) string {
	return string(p.GetMetadata()[metadataHead])
}

// errDigest reports plan bytes that do not match their head.
var errDigest = errors.New("plan bytes do not have the digest that their head names")

// isStart reports whether targets are the arguments of [contract.WorkflowType].
// Nothing else in a workflow is read unread.
func isStart(targets []any) bool {
	if len(targets) == 0 {
		return false
	}
	_, ok := targets[0].(*json.RawMessage)
	return ok
}
