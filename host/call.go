package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/redact"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/trust"
)

// cleaned is a caller whose answers, whatever comes back, hold no secret that the
// configuration resolved. It is an activities.Caller.
type cleaned struct {
	caller
	secrets *redact.Secrets
}

// caller calls what a node says.
type caller interface {
	call(ctx context.Context, r activities.Request) (activities.Answer, error)
}

// Call implements activities.Caller.
func (c cleaned) Call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	answer, err := c.call(ctx, r)
	if err != nil {
		return activities.Answer{}, c.clean(err)
	}
	for i := range answer.Forms {
		answer.Forms[i] = c.secrets.JSON(answer.Forms[i])
	}
	return answer, nil
}

// clean takes secrets out of an error. Its cause keeps what it is, and tells no more.
func (c cleaned) clean(err error) error {
	var e *contract.Error
	if !errors.As(err, &e) {
		return c.secrets.Error(err)
	}
	safe := *e
	safe.Message, safe.Details = c.secrets.Text(e.Message), c.secrets.Details(e.Details)
	safe.Cause = c.secrets.Error(e.Cause)
	if !bytes.Equal(c.secrets.JSON(e.Listed), e.Listed) {
		safe.Listed = nil // nobody is asked about another definition
	}
	return &safe
}

// goSkills calls the Go skills of this process, and nothing else: all that the
// engine's role may call.
type goSkills struct{ registry *skills.Registry }

func (c goSkills) call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	n := r.Node
	if skill, ok := c.registry.Lookup(n.Provider, n.Operation); ok && n.ProviderType != plan.MCP {
		return one(skill.Run(ctx, r.Input))
	}
	return activities.Answer{}, contract.Errorf(contract.Contract, "this worker has no Go skill %s", n.Activity())
}

// children calls MCP servers and executables, and no Go skill.
type children struct {
	executables map[string]skills.Executable
	pool        *mcp.Pool
	callers     map[string][]Role
	role        Role
}

func (c children) call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	n := r.Node
	if by := c.callers[n.Provider]; len(by) > 0 && !slices.Contains(by, c.role) {
		return activities.Answer{}, contract.Errorf(contract.Contract, "the role %s does not call %s: the configuration gives it to %s", c.role, n.Activity(), by[0])
	}
	c.pool = c.pool.For(mcp.Principal{Agent: r.Agent, Run: r.Run})
	if r.Wanted != nil {
		c.pool = c.pool.While(r.Wanted)
	}
	if n.Resource != nil {
		return one(c.resource(ctx, n, r.Input))
	}
	if n.ProviderType == plan.MCP {
		return c.tool(ctx, r)
	}
	if executable, ok := c.executables[n.Provider]; ok {
		if n.Endpoints != nil {
			return one(executable.CallPinned(ctx, n.Operation, r.Input, n.Endpoints))
		}
		return one(executable.Call(ctx, n.Operation, r.Input))
	}
	return activities.Answer{}, contract.Errorf(contract.Contract, "this worker has no executable for %s: its configuration has no skills.%s", n.Activity(), n.Provider)
}

// all calls what a node says, in this process or outside it.
type all struct{ skills, tools activities.Caller }

// Call implements activities.Caller.
func (c all) Call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	if r.Node.InProcess {
		return c.skills.Call(ctx, r)
	}
	return c.tools.Call(ctx, r)
}

func one(output json.RawMessage, err error) (activities.Answer, error) {
	if err != nil {
		return activities.Answer{}, err
	}
	return activities.Answer{Forms: []json.RawMessage{output}}, nil
}

// fitting calls what servers and executables do for: operations may be registered after the process has begun.
type fitting struct {
	activities.Caller
	options *Options
}

// Call implements activities.Caller.
func (c fitting) Call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	n := r.Node
	err := c.options.unfit(n.Activity(), n.ProviderType, n.Provider, n.Effect, n.Relied || n.Called, n.Endpoints)
	if err == nil {
		err = c.options.shared(n.Activity(), n.ProviderType, n.Provider, n.Effect)
	}
	if err != nil {
		return activities.Answer{}, contract.Errorf(contract.Blocked, "%w", err)
	}
	return c.Caller.Call(ctx, r)
}

// believing calls what the admins let it call, now: the plan may have been compiled before they
// said so, and with another catalog.
type believing struct {
	activities.Caller
	said  *trust.Reader
	bench func() activities.Workbench
}

// Call implements activities.Caller.
func (c believing) Call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	s, err := c.said.State(ctx)
	switch {
	case errors.Is(err, trust.ErrInvalid):
		return activities.Answer{}, contract.Errorf(contract.Blocked, "%s is not called: %w", r.Node.Activity(), err)
	case err != nil:
		return activities.Answer{}, contract.Errorf(contract.Unsent, "%s is not called, since nobody knows what the admins have stated: %w", r.Node.Activity(), err)
	}
	now := c.bench()
	if now.Away != nil {
		return activities.Answer{}, contract.Errorf(contract.StoreUnavailable, "%s is not called: %w", r.Node.Activity(), now.Away)
	}
	if err := now.Stated(s, r.Node); err != nil {
		return activities.Answer{}, contract.Errorf(contract.Blocked, "%s is not called: %w", r.Node.Activity(), err)
	}
	return c.Caller.Call(ctx, r)
}

// pinOf is what a node pins of the MCP server that it calls.
func pinOf(n *plan.Node) mcp.Pin {
	return mcp.Pin{Fingerprint: n.Fingerprint, Parts: n.Parts, Endpoints: n.Endpoints, Instructions: n.Instructions, Again: n.Effect != plan.Pure}
}

// tool calls an MCP tool. The output of one that declares what it returns is its structured content,
// and no other. Otherwise it is the first of these that the node's schema takes: the structured content,
// the protocol's object {content: […]}, that with the structured content beside it, {content: […],
// structuredContent: …}, and without structured content the JSON of a single text block. Which of them is
// a matter of the contract, never of what the text happens to look like. A tool that the plan pins, by
// what it declares, where it is or what its server says of itself, is looked at before it is called, and
// again after an effect. The call of an effect is sent once, whether the plan pins anything or not.
func (c children) tool(ctx context.Context, r activities.Request) (activities.Answer, error) {
	n := r.Node
	pin := pinOf(n)
	pin.Fingerprint = cmp.Or(r.Fingerprint, n.Fingerprint)
	result, err := c.pool.CallPinned(ctx, n.Provider, n.Operation, r.Input, pin)
	if err != nil {
		return activities.Answer{}, err
	}
	var forms []json.RawMessage
	if result.Structured != nil {
		forms = append(forms, result.Structured)
	}
	if n.Structured {
		return activities.Answer{Forms: forms, Snapshots: result.Snapshots}, nil
	}
	forms = append(forms, bytes.Join([][]byte{[]byte(`{"content":`), result.Content, []byte(`}`)}, nil))
	if result.Structured != nil { // last, so that a schema that takes less gets no more than it did
		forms = append(forms, bytes.Join([][]byte{[]byte(`{"content":`), result.Content, []byte(`,"structuredContent":`), result.Structured, []byte(`}`)}, nil))
	} else if result.Text != nil && json.Valid([]byte(*result.Text)) {
		forms = append(forms, json.RawMessage(*result.Text))
	}
	return activities.Answer{Forms: forms, Snapshots: result.Snapshots}, nil
}
