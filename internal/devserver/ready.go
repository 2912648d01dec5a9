package devserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// frontendService is the name under which the frontend reports its health.
const frontendService = "temporal.api.workflowservice.v1.WorkflowService"

// ready waits until the frontend is healthy, it and what keeps runs know the namespace, and
// the web pages answer.
func (s *Server) ready(ctx context.Context) error {
	conn, err := grpc.NewClient(s.Address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return fmt.Errorf("connecting to the Temporal server: %w", err)
	}
	defer func() { _ = conn.Close() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.probe(ctx, conn)
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return errors.New("the Temporal server ended at its start")
		case <-ctx.Done():
			return fmt.Errorf("waiting for the Temporal server at %s: %w (last answer: %w)", s.Address, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// probe asks once.
func (s *Server) probe(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	health, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: frontendService})
	if err != nil {
		return err
	}
	if health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("health is %s", health.GetStatus())
	}
	frontend := workflowservice.NewWorkflowServiceClient(conn)
	if _, err = frontend.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.Namespace}); err != nil {
		return err
	}
	// That reads the database. On a busy machine calls about runs, which look the namespace up
	// in memory, may still not find it.
	_, err = frontend.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: s.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: "none"},
	})
	var absent *serviceerror.NotFound
	if err = serviceerror.FromStatus(status.Convert(err)); err != nil && !errors.As(err, &absent) {
		return err
	}
	if s.UI == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.UI+"/", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: it is on this machine
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("the web pages answer %s", answer.Status)
	}
	return nil
}
