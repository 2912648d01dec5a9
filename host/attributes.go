package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

// searchAttributes registers the engine's search attributes if the server allows it,
// and returns those that the server knows. A run sets only known ones: setting an
// unknown one would make its workflow tasks fail.
func searchAttributes(ctx context.Context, c client.Client, namespace string, logger *slog.Logger) ([]string, error) {
	wanted := []string{contract.AttributePlan, contract.AttributeAgent, contract.AttributeState}
	types := map[string]enumspb.IndexedValueType{}
	for _, name := range wanted {
		types[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: types,
	})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		logger.InfoContext(ctx, "search attributes were not registered; those that exist are used", "error", err)
	}
	listed, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	var denied *serviceerror.PermissionDenied
	var unimplemented *serviceerror.Unimplemented
	if errors.As(err, &denied) || errors.As(err, &unimplemented) {
		logger.InfoContext(ctx, "search attributes cannot be listed; runs set none", "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list search attributes: %w", err)
	}
	var known []string
	for _, name := range wanted {
		if listed.GetCustomAttributes()[name] == enumspb.INDEXED_VALUE_TYPE_KEYWORD {
			known = append(known, name)
		}
	}
	return known, nil
}

// keepAttributes periodically, until ctx ends, registers known search attributes that
// were removed from the namespace: a run sets those that were known when it began, and
// its workflow tasks fail until they are back.
func keepAttributes(ctx context.Context, c client.Client, namespace string, known []string, every time.Duration, logger *slog.Logger) {
	if len(known) == 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A failure is retried; the worker's start has logged the cause.
		listed, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		if err != nil {
			continue
		}
		missing := map[string]enumspb.IndexedValueType{}
		for _, name := range known {
			if _, ok := listed.GetCustomAttributes()[name]; !ok {
				missing[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
			}
		}
		if len(missing) == 0 {
			continue
		}
		if _, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: missing,
		}); err != nil {
			logger.WarnContext(ctx, "search attributes that runs set were removed, and cannot be registered again", "error", err)
			continue
		}
		logger.WarnContext(ctx, "search attributes that runs set were removed, and are registered again", "count", len(missing))
	}
}
