package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/payload"
)

// Dial connects a client that speaks the engine's payloads: its converter, and
// large values by reference to blobs.
func Dial(ctx context.Context, o client.Options, blobs blob.Store, sealing payload.Sealing, logger *slog.Logger) (client.Client, error) {
	c, _, err := dial(ctx, o, blobs, sealing, 0, logger)
	return c, err
}

func dial(ctx context.Context, o client.Options, blobs blob.Store, sealing payload.Sealing, cache int, logger *slog.Logger) (client.Client, *payload.Plans, error) {
	plans := payload.NewPlans(blobs, cache)
	o.DataConverter = payload.NewConverter(plans, sealing)
	o.FailureConverter = payload.NewFailureConverter(o.DataConverter)
	o.ExternalStorage = payload.NewStorage(blobs, sealing)
	o.ContextPropagators = append(slices.Clone(o.ContextPropagators), payload.Asking{})
	o.ConnectionOptions.DialOptions = append(slices.Clone(o.ConnectionOptions.DialOptions), grpc.WithChainUnaryInterceptor(payload.References(sealing.Keys), routable))
	if o.ConnectionOptions.GrpcCompression == nil {
		// Most messages are smaller than the tables that gzip clears for each, on both
		// sides, and sealed payloads do not compress.
		o.ConnectionOptions.GrpcCompression = new(client.GrpcCompressionNone)
	}
	if logger != nil {
		o.Logger = log.NewStructuredLogger(slog.New(library{logger.Handler()}))
	}
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to Temporal: %w", err)
	}
	return c, plans, nil
}
