package activities

import (
	"errors"
	"strings"

	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// subject is what engine/load knows about a run so far.
type subject struct {
	source string
	plan   string
	agent  string
}

// is records the plan of a run.
func (s *subject) is(p *plan.Plan) { s.plan, s.agent = p.Name+"@"+p.Version, p.Agent }

// about adds what is known about the run to the failure of a start.
func (e *Engine) about(err error, s *subject) error {
	var failed *temporal.ApplicationError
	if !errors.As(err, &failed) {
		return err
	}
	if s.plan == "" && s.source != "" && e.Named != nil {
		// Its reader may be the compiler that has just panicked.
		_ = recovered("the reading of a plan's name", func() error {
			name, version, agent := e.Named(s.source)
			if name != "" {
				s.plan = strings.TrimSuffix(name+"@"+version, "@")
			}
			s.agent = agent
			return nil
		})
	}
	var details contract.ErrorDetails
	if failed.HasDetails() && failed.Details(&details) != nil {
		return err
	}
	details.Attempts = max(details.Attempts, 1)
	details.Loading = &contract.Loading{Plan: s.plan, Agent: s.agent, Attributes: e.Attributes}
	return temporal.NewApplicationErrorWithOptions(failed.Message(), failed.Type(), temporal.ApplicationErrorOptions{
		NonRetryable: failed.NonRetryable(), NextRetryDelay: failed.NextRetryDelay(), Details: []any{details},
	})
}
