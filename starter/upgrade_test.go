package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

const sleeper = `{apiVersion: chimera/v1, kind: Plan, name: sleeper, version: "1", agent: tester,
  input_schema: {type: object}, output_schema: {type: object},
  nodes: [{id: nap, template: engine/sleep, timeout_ms: 3600000, with: {ms: 3500000}}], edges: [nap -> $output]}`

// TestUpgrade moves a run to another build, as an operator does.
func TestUpgrade(t *testing.T) {
	lengthy.Skip(t)
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("CHIMERA_TEMPORAL_ADDRESS", server.Address)
	t.Setenv("CHIMERA_STORE_DIR", filepath.Join(dir, "store"))
	t.Setenv("CHIMERA_STORE_PATH", filepath.Join(dir, "ledger.db"))
	chimera := func(code int, args ...string) (string, string) {
		t.Helper()
		var out, messages bytes.Buffer
		require.Equal(t, code, run(args, strings.NewReader(""), &out, &messages), "%s%s", out.String(), messages.String())
		return out.String(), messages.String()
	}
	up := func(build string) sdk.Client {
		h, err := host.New(t.Context(), host.Options{
			Client: sdk.Options{HostPort: server.Address}, Store: store.Options{Dir: filepath.Join(dir, "store"), Path: filepath.Join(dir, "ledger.db")},
			Deployment: host.Deployment{Name: "test", Build: build, MakeCurrent: true}, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, h.Close()) })
		require.NoError(t, h.Start())
		require.Eventually(t, func() bool {
			d, err := h.Client().WorkerDeploymentClient().GetHandle("test").Describe(t.Context(), sdk.WorkerDeploymentDescribeOptions{})
			return err == nil && d.Info.RoutingConfig.CurrentVersion != nil && d.Info.RoutingConfig.CurrentVersion.BuildID == build
		}, 5*time.Minute, 10*time.Millisecond)
		return h.Client()
	}
	status := func() (r client.Status) {
		out, _ := chimera(0, "status", "nap", "--format", "json")
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		return r
	}

	_, said := chimera(2, "upgrade", "nap")
	require.Contains(t, said, "worker.deployment")
	t.Setenv("CHIMERA_WORKER_DEPLOYMENT", "test")
	t.Setenv("CHIMERA_WORKER_BUILD", "b")
	_, said = chimera(2, "upgrade")
	require.Contains(t, said, "--all")

	c := up("a")
	_, err = c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "nap", TaskQueue: contract.QueueEngine},
		contract.WorkflowType, contract.Start{Source: sleeper})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r := status()
		return r.Detail != nil && r.Detail.Counts.Running == 1
	}, 5*time.Minute, 10*time.Millisecond)
	require.Equal(t, &client.Build{Deployment: "test", ID: "a"}, status().Build)
	out, _ := chimera(0, "status", "nap")
	require.Regexp(t, `(?m)^build +test:a$`, out)
	_, said = chimera(1, "upgrade", "nap")
	require.Contains(t, said, "no worker of the build test:b")

	_, said = chimera(0, "upgrade", "nap", "--check")
	require.Contains(t, said, "there is no worker of the build test:b")

	up("b")
	out, said = chimera(0, "upgrade", "nap", "--check")
	require.Regexp(t, `^nap +fits +test:a`, out)
	require.NotContains(t, said, "no worker")
	require.Equal(t, "a", status().Build.ID, "a check moves nothing")
	require.Eventually(t, func() bool { // lists lag behind
		out, _ = chimera(0, "upgrade", "--all", "--format", "json")
		return strings.Contains(out, `"moved": true`)
	}, 5*time.Minute, 10*time.Millisecond)
	require.Contains(t, out, `"from": "test:a"`)
	require.Equal(t, &client.Build{Deployment: "test", ID: "b"}, status().Build)
	out, _ = chimera(0, "upgrade", "--all", "--format", "json")
	require.Contains(t, out, `"runs": []`, "it is moved once")

	_, said = chimera(1, "upgrade", "nobody")
	require.Contains(t, said, "run nobody")

	// A build without a worker.
	_, err = c.UpdateWorkflowExecutionOptions(t.Context(), sdk.UpdateWorkflowExecutionOptionsRequest{
		WorkflowId: "nap",
		WorkflowExecutionOptionsChanges: sdk.WorkflowExecutionOptionsChanges{VersioningOverride: &sdk.VersioningOverrideChange{
			Value: &sdk.PinnedVersioningOverride{Version: worker.WorkerDeploymentVersion{DeploymentName: "test", BuildID: "gone"}},
		}},
	})
	require.NoError(t, err)
	_, said = chimera(0, "status", "nap")
	require.Contains(t, said, "waits for a worker of the build test:gone")
	require.True(t, status().Build.Alone)
	require.NoError(t, c.TerminateWorkflow(t.Context(), "nap", "", "the test is over"))
	out, _ = chimera(1, "upgrade", "nap")
	require.Regexp(t, `^nap +stays .*the run has ended`, out)

	// A list that lags behind names it all the same.
	conn := &connection{Client: c, namespace: sdk.DefaultNamespace}
	for _, id := range []string{"nap", "removed"} {
		one, err := upgrade(t.Context(), conn, nil, id, host.Deployment{Name: "test", Build: "b"}, true, true)
		require.NoError(t, err)
		require.True(t, one.Ended)
	}
}

// TestCallsAreUpgraded: a run waits for its long call, whose workflow is of a build as
// well.
func TestCallsAreUpgraded(t *testing.T) {
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	c, err := sdk.Dial(sdk.Options{HostPort: server.Address})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "nap/call", TaskQueue: contract.QueueEngine}, contract.WorkflowCall)
	require.NoError(t, err)
	conn, to := &connection{Client: c, namespace: sdk.DefaultNamespace}, host.Deployment{Name: "test", Build: "b"}
	require.Eventually(t, func() bool { // lists lag behind
		ids, err := openRuns(t.Context(), conn, to)
		require.NoError(t, err)
		return slices.Equal(ids, []string{"nap/call"})
	}, 5*time.Minute, 10*time.Millisecond)
	one, err := upgrade(t.Context(), conn, host.NewReplayer(nil, payload.Sealing{}), "nap/call", to, true, true)
	require.NoError(t, err)
	require.True(t, one.Fits)
}

// TestWhatUpgradeCounts: a run that has ended meanwhile is not refused, and a check
// that could not be made is no negative answer.
func TestWhatUpgradeCounts(t *testing.T) {
	fit, ended := moved{Run: "fit", Fits: true, Moved: true}, moved{Run: "over", Ended: true}
	stays, unknown := moved{Run: "stays"}, moved{Run: "unknown", Unchecked: true}
	for name, c := range map[string]struct {
		runs []moved
		all  bool
		code int
		said string
	}{
		"ended meanwhile": {[]moved{fit, ended}, true, exitDone, "1 of 1 runs are now of test:b"},
		"named":           {[]moved{fit, ended}, false, exitNegative, "1 of 2 runs"},
		"refused":         {[]moved{fit, ended, stays}, true, exitNegative, "1 of 2 runs"},
		"unknown":         {[]moved{fit, stays, unknown}, true, exitUnanswered, "1 of 3 runs"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, said bytes.Buffer
			p := &Program{Stdout: &out, Stderr: &said}
			err := p.upgraded(host.Deployment{Name: "test", Build: "b"}, c.runs, c.all, false)
			code := exitDone
			var f *failure
			if errors.As(err, &f) {
				code = f.code
			}
			require.Equal(t, c.code, code)
			require.Contains(t, said.String(), c.said)
		})
	}
}
