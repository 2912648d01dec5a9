// Package payload is how values of Chimera cross Temporal: the data converter,
// and the driver of the SDK's external storage that keeps large payloads in a
// content-addressed store and only their digests in the history.
//
// Three sorts of payload differ from the SDK's own:
//
//   - A compiled plan ([plan.Loaded]) travels as its canonical bytes. A process
//     decodes each plan once, whatever the number of runs and replays: [Plans]
//     is the cache.
//   - What foreign clients read (a run's result, the answer to chimera.state,
//     a failure's details) stays in the history up to [InlineLimit], so that a
//     client without our store reads it.
//   - Everything else that is larger than [Threshold] goes to the store.
package payload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

const (
	metadataHead = "chimera-head"
	encodingPlan = "binary/chimera-plan"
)

// inlineMark ends the JSON of a payload that stays in the history, where the
// storage's selector finds it. It is white space to every reader of JSON;
// metadata would make Temporal's own command line print the payload undecoded.
const inlineMark = '\n'

// NewConverter gives the data converter of clients and workers of the engine.
// Plain JSON from any other SDK is read as it is.
func NewConverter(plans *Plans) converter.DataConverter {
	base := converter.NewCompositeDataConverter(
		converter.NewNilPayloadConverter(),
		converter.NewByteSlicePayloadConverter(),
		planConverter{plans},
		// Temporal's own messages, such as a workflow's metadata.
		converter.NewProtoJSONPayloadConverter(),
		converter.NewProtoPayloadConverter(),
		jsonConverter{converter.NewJSONPayloadConverter()},
	)
	return patient{DataConverter: base, slow: base}
}

// patient decodes compiled plans outside the deadlock detector, since a plan of
// 100,000 nodes takes longer than the second that the detector allows.
//
// Nothing else may: the SDK's pause of the detector is not safe for use by
// several goroutines of one workflow, and local activities that end at the same
// time encode their results at the same time.
type patient struct {
	converter.DataConverter
	slow converter.DataConverter
}

var _ workflow.ContextAware = patient{}

func (c patient) WithWorkflowContext(ctx workflow.Context) converter.DataConverter {
	slow := workflow.DataConverterWithoutDeadlockDetection(c.DataConverter)
	if aware, ok := slow.(workflow.ContextAware); ok {
		slow = aware.WithWorkflowContext(ctx)
	}
	return patient{DataConverter: c.DataConverter, slow: slow}
}

func (c patient) WithContext(context.Context) converter.DataConverter { return c }

func (c patient) FromPayload(p *commonpb.Payload, target any) error {
	if isPlan(p) {
		return c.slow.FromPayload(p, target)
	}
	return c.DataConverter.FromPayload(p, target)
}

func (c patient) FromPayloads(ps *commonpb.Payloads, targets ...any) error {
	if slices.ContainsFunc(ps.GetPayloads(), isPlan) {
		return c.slow.FromPayloads(ps, targets...)
	}
	return c.DataConverter.FromPayloads(ps, targets...)
}

func isPlan(p *commonpb.Payload) bool {
	return string(p.GetMetadata()[converter.MetadataEncoding]) == encodingPlan
}

// jsonConverter is the SDK's JSON converter, which also marks what foreign
// clients read as inline.
type jsonConverter struct {
	*converter.JSONPayloadConverter
}

func (c jsonConverter) ToPayload(value any) (*commonpb.Payload, error) {
	p, err := c.JSONPayloadConverter.ToPayload(value)
	if err != nil || p == nil {
		return p, err
	}
	switch value.(type) {
	case contract.Result, contract.State, *contract.State, contract.Failure, *contract.Failure, contract.ErrorDetails:
		p.Data = append(p.Data, inlineMark)
	}
	return p, nil
}

// planConverter carries *plan.Loaded.
type planConverter struct{ plans *Plans }

func (planConverter) Encoding() string { return encodingPlan }

func (c planConverter) ToPayload(value any) (*commonpb.Payload, error) {
	loaded, ok := value.(*plan.Loaded)
	if !ok || loaded == nil {
		return nil, nil
	}
	head, err := json.Marshal(loaded.Head)
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
	compiled, err := c.plans.decode(head.Digest, p.GetData())
	if err != nil {
		return err
	}
	*loaded = &plan.Loaded{Plan: compiled, Head: head}
	return nil
}

func (planConverter) ToString(p *commonpb.Payload) string {
	return string(p.GetMetadata()[metadataHead])
}

// errDigest reports plan bytes that are not what their head says.
var errDigest = errors.New("plan bytes do not have the digest that their head names")
