package main

import (
	"context"
	"runtime"
	"runtime/debug"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/plan"
)

// version is set by the linker in releases (-X main.version=…).
var version string

// develBuild is the version of a build that has none.
const develBuild = "(devel)"

// build says which build this is.
type build struct {
	Version string `json:"version"`
	// Commit is the revision, and Modified whether files were changed, if Go knows.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// PlanFormat and Expr are the versions in compiled plans of this build.
	PlanFormat string `json:"plan_format"`
	Expr       int    `json:"expr"`
}

func versionCommand(p *Program, _ *flag.FlagSet) action { return p.version }

// version is the action of the command and of --version.
func (p *Program) version(context.Context, []string) error {
	b := thisBuild()
	if p.json() {
		return p.document(b)
	}
	p.printf("chimera %s\n", b.Version)
	if b.Commit != "" {
		changed := ""
		if b.Modified {
			changed = " (modified)"
		}
		p.printf("commit %s%s\n", b.Commit, changed)
	}
	p.printf("%s %s\nplans %s, expressions %d\n", b.Go, b.Platform, b.PlanFormat, b.Expr)
	return nil
}

func thisBuild() build {
	b := build{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		PlanFormat: plan.Format, Expr: plan.ExprVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if ok && b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = develBuild
	}
	if ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	return b
}
