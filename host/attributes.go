package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

// searchAttributes registers the engine's search attributes where the server
// allows it, and lists those that the server knows. A run sets only known ones:
// an unknown one would wedge it.
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
