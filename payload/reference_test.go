package payload_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// sent gives what the server gets of a run's result, and read what a client of
// the engine's makes of it.
func sent(t *testing.T, p *commonpb.Payload) *commonpb.Payload {
	req := &workflowservice.RespondWorkflowTaskCompletedRequest{Commands: []*commandpb.Command{{
		CommandType: enums.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION,
		Attributes: &commandpb.Command_CompleteWorkflowExecutionCommandAttributes{CompleteWorkflowExecutionCommandAttributes: &commandpb.CompleteWorkflowExecutionCommandAttributes{
			Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{proto.CloneOf(p)}},
		}},
	}}}
	through(t, req, nil)
	through(t, req, nil) // tried again
	return req.GetCommands()[0].GetCompleteWorkflowExecutionCommandAttributes().GetResult().GetPayloads()[0]
}

func read(t *testing.T, p *commonpb.Payload) *commonpb.Payload {
	reply := &workflowservice.GetWorkflowExecutionHistoryResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{{
		EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{
			Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{proto.CloneOf(p)}},
		}},
	}}}}
	through(t, nil, reply)
	return reply.GetHistory().GetEvents()[0].GetWorkflowExecutionCompletedEventAttributes().GetResult().GetPayloads()[0]
}

func through(t *testing.T, req, reply any) {
	require.NoError(t, payload.References(nil)(t.Context(), "", req, reply, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }))
}

func sdkReference(driver, claims string) *commonpb.Payload {
	return &commonpb.Payload{
		Metadata: map[string][]byte{
			converter.MetadataEncoding:    []byte(converter.MetadataEncodingProtoJSON),
			converter.MetadataMessageType: []byte("temporal.api.sdk.v1.ExternalStorageReference"),
		},
		Data:             []byte(`{"driverName":"` + driver + `","claimData":` + claims + `}`),
		ExternalPayloads: []*commonpb.Payload_ExternalPayloadDetails{{SizeBytes: 300_000}},
	}
}

// TestReferences: a large result is JSON in the history, and the engine reads its
// value.
func TestReferences(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	original := sdkReference("chimera-blob", `{"digest":"`+digest+`","size":"10"}`)
	there := sent(t, original)
	require.Equal(t, "json/plain", string(there.GetMetadata()["encoding"]))
	require.Len(t, there.GetMetadata(), 1)
	var doc contract.Reference
	require.NoError(t, json.Unmarshal(there.GetData(), &doc))
	require.Equal(t, contract.Ref{Digest: digest, Bytes: 300_000, How: contract.RefHow}, doc.Ref)
	back := read(t, there)
	require.Equal(t, original.GetMetadata(), back.GetMetadata())
	require.JSONEq(t, `{"driverName":"chimera-blob","claimData":{"digest":"`+digest+`"}}`, string(back.GetData()))

	// What is not a reference stays as it is, above all an output that looks
	// like one.
	forged, err := payload.NewConverter(nil, payload.Sealing{}).ToPayload(contract.Result(`{"chimera_ref":{"digest":"` + digest + "\"}}\n\n\n"))
	require.NoError(t, err)
	for name, p := range map[string]*commonpb.Payload{
		"an output":        forged,
		"another driver's": sdkReference("s3", `{"key":"x"}`),
		"broken":           sdkReference("chimera-blob", `x`),
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(p, sent(t, p), protocmp.Transform()))
			require.Empty(t, cmp.Diff(p, read(t, p), protocmp.Transform()))
		})
	}
}
