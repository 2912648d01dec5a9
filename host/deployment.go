package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Deployment is the worker deployment and the build of a host's workers, in the terms
// of Temporal's worker versioning. A run stays with the build that began it, even when
// it continues as new; new runs go to the deployment's current build. The zero value
// is an unversioned worker, which takes every run.
type Deployment struct {
	// Name is the same for all builds and all roles of a deployment. "" means
	// unversioned.
	Name string
	// Build is the build id, which differs whenever the workflow code does. All roles of
	// a release have the same one.
	Build string
	// MakeCurrent makes the host's build the current one once the host polls, unless the
	// build was current before and was replaced.
	MakeCurrent bool
}

// maxDeploymentName bounds name and build together, in bytes: the server makes a
// workflow id of the two.
const maxDeploymentName = 200

// Check reports what is wrong with a deployment, or returns nil.
func (d Deployment) Check() error {
	switch {
	case d.Name == "" && d.MakeCurrent:
		return errors.New("a build is made the current one of a worker deployment (worker.deployment), and none is named")
	case d.Name == "":
		return nil
	case d.Build == "":
		return fmt.Errorf("the worker deployment %s has builds, and this build has no id: set worker.build, or build with a version", d.Name)
	case strings.ContainsAny(d.Name, ".:"):
		return fmt.Errorf("the worker deployment %q has a . or : in its name, which Temporal reserves", d.Name)
	case strings.HasPrefix(d.Name, "__"):
		return fmt.Errorf("the name of the worker deployment %q begins with __, which Temporal reserves", d.Name)
	case len(d.Name)+len(d.Build) > maxDeploymentName:
		return fmt.Errorf("the worker deployment and its build have more than %d bytes together", maxDeploymentName)
	}
	return nil
}

// version is the deployment version in Temporal's terms.
func (d Deployment) version() worker.WorkerDeploymentVersion {
	return worker.WorkerDeploymentVersion{DeploymentName: d.Name, BuildID: d.Build}
}

// options returns the versioning options of a worker.
func (d Deployment) options() worker.DeploymentOptions {
	if d.Name == "" {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{UseVersioning: true, Version: d.version(), DefaultVersioningBehavior: workflow.VersioningBehaviorPinned}
}

// String formats a build for people.
func (d Deployment) String() string {
	if d.Name == "" {
		return "unversioned"
	}
	return d.Name + ":" + d.Build
}

// Bounds of the time between two checks of the deployment.
const (
	soonest = 100 * time.Millisecond
	latest  = 10 * time.Second
)

// place makes this build the current one if asked to, and otherwise logs whether new
// runs go to it. It returns once that is known, or when ctx is done.
func (h *Host) place(ctx context.Context) {
	d, log := h.options.Deployment, h.options.Logger
	handle := h.client.WorkerDeploymentClient().GetHandle(d.Name)
	var said bool
	for wait := soonest; ; wait = min(2*wait, latest) {
		done, err := h.placed(ctx, handle)
		if done || ctx.Err() != nil {
			return
		}
		var unknown *serviceerror.NotFound // until the first poll has registered the build
		if err != nil && !errors.As(err, &unknown) && !said {
			said = true
			log.WarnContext(ctx, "the worker deployment does not take this build yet; trying again", "build", d, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (h *Host) placed(ctx context.Context, handle client.WorkerDeploymentHandle) (done bool, err error) {
	d, log := h.options.Deployment, h.options.Logger
	version, err := handle.DescribeVersion(ctx, client.WorkerDeploymentDescribeVersionOptions{BuildID: d.Build})
	if err != nil {
		return false, err
	}
	deployment, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return false, err
	}
	current := deployment.Info.RoutingConfig.CurrentVersion
	byHand := fmt.Sprintf("temporal worker deployment set-current-version --deployment-name %s --build-id %s", d.Name, d.Build)
	switch {
	case current != nil && current.BuildID == d.Build:
		log.InfoContext(ctx, "new runs come to this build", "build", d)
		return true, nil
	case d.MakeCurrent && version.Info.DrainageInfo != nil:
		log.WarnContext(ctx, "this build was current and was replaced: it does not make itself current again", "build", d, "command", byHand)
		return true, nil
	case d.MakeCurrent:
		_, err := handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: d.Build, ConflictToken: deployment.ConflictToken})
		if err == nil {
			log.InfoContext(ctx, "this build is the current one now: new runs come to it", "build", d)
		}
		return err == nil, err
	case current == nil:
		log.WarnContext(ctx, "no build of this worker deployment is current, so no run begins: make one current", "build", d, "command", byHand)
	default:
		log.InfoContext(ctx, "new runs go to another build; this one works on its own", "build", d, "current", current.BuildID)
	}
	return true, nil
}
