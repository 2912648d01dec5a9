package discover

import (
	"regexp"
	"strings"
)

var (
	commit      = regexp.MustCompile(`[@#][0-9a-f]{40}(?:[?#].*)?$`)
	npmSlug     = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+(?:#.*)?$`)
	pythonName  = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]*\])?)\s*(.*)$`)
	imageDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
)

// local reports whether a package is a file or folder of the machine.
func local(spec string) bool {
	return spec == "" || strings.HasPrefix(spec, ".") || strings.HasPrefix(spec, "/") || strings.HasPrefix(spec, "~") ||
		strings.HasPrefix(spec, "file:") || strings.Contains(spec, `\`)
}

// elsewhere reads a package that is in no registry but at an address.
func elsewhere(spec string) (pkg, bool) {
	git := strings.HasPrefix(spec, "git+") || strings.HasPrefix(spec, "git@") || strings.HasSuffix(strings.SplitN(spec, "#", 2)[0], ".git")
	for _, host := range []string{"github:", "gitlab:", "bitbucket:", "gist:"} {
		git = git || strings.HasPrefix(spec, host)
	}
	switch {
	case git:
		return pkg{Unpinned{Manager: "git", Package: spec}, commit.MatchString(spec)}, true
	case strings.Contains(spec, "://"):
		return pkg{Unpinned: Unpinned{Manager: "url", Package: spec}}, true
	}
	return pkg{}, false
}

func npmSpec(spec string) (pkg, bool) {
	if local(spec) {
		return pkg{}, false
	}
	if p, ok := elsewhere(spec); ok {
		return p, true
	}
	if npmSlug.MatchString(spec) {
		return pkg{Unpinned{Manager: "git", Package: spec}, commit.MatchString(spec)}, true
	}
	before := ""
	if i := strings.Index(spec, "@npm:"); i > 0 { // an alias
		before, spec = spec[:i+5], spec[i+5:]
	}
	name, version := spec, ""
	if i := strings.LastIndexByte(spec, '@'); i > 0 {
		name, version = spec[:i], spec[i+1:]
	}
	return pkg{Unpinned{Package: name, Have: version, before: before}, exact("npm", strings.TrimLeft(version, "=v"))}, true
}

func pypi(spec string) (pkg, bool) {
	if local(spec) {
		return pkg{}, false
	}
	// name @ git+https://…
	if _, address, ok := strings.Cut(spec, " @ "); ok {
		spec = strings.TrimSpace(address)
	}
	if p, ok := elsewhere(spec); ok {
		return p, true
	}
	spec, _, _ = strings.Cut(spec, ";")
	m := pythonName.FindStringSubmatch(strings.TrimSpace(spec))
	if m == nil {
		return pkg{Unpinned: Unpinned{Manager: "url", Package: spec}}, true
	}
	version := strings.TrimLeft(m[2], "=@ ")
	pinned := (strings.HasPrefix(m[2], "==") || strings.HasPrefix(m[2], "@")) && exact("pypi", version)
	return pkg{Unpinned{Package: m[1], Have: strings.TrimPrefix(m[2], "@")}, pinned}, true
}

func oci(image string) (pkg, bool) {
	if imageDigest.MatchString(image) {
		return pkg{Unpinned{Package: image[:strings.LastIndexByte(image, '@')]}, true}, true
	}
	name, tag := image, ""
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		name, tag = image[:i], image[i+1:]
	}
	return pkg{Unpinned: Unpinned{Package: name, Have: tag}}, true
}

func denoModule(spec string) (pkg, bool) {
	for _, manager := range []string{"npm", "jsr"} {
		rest, ok := strings.CutPrefix(spec, manager+":")
		if !ok {
			continue
		}
		rest = strings.TrimPrefix(rest, "/")
		p, ok := npmSpec(rest)
		if !ok || p.Manager != "" { // a file within the package, or nothing that is known
			return pkg{Unpinned: Unpinned{Manager: "url", Package: spec}}, true
		}
		// npm:name@version/path
		version, _, _ := strings.Cut(p.Have, "/")
		p.Manager, p.before, p.pinned = manager, strings.TrimSuffix(spec, rest), exact("npm", version)
		return p, true
	}
	return elsewhere(spec)
}

func nuget(spec string) (pkg, bool) {
	if local(spec) {
		return pkg{}, false
	}
	name, version, _ := strings.Cut(spec, "@")
	return pkg{Unpinned{Package: name, Have: version}, exact("nuget", version)}, true
}

func goModule(spec string) (pkg, bool) {
	name, version, ok := strings.Cut(spec, "@")
	if !ok {
		return pkg{}, false // a package of the module in the working directory
	}
	return pkg{Unpinned{Package: name, Have: version}, exact("go", version)}, true
}

var exactVersion = map[string]*regexp.Regexp{
	"npm":   regexp.MustCompile(`^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$`),
	"jsr":   regexp.MustCompile(`^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$`),
	"pypi":  regexp.MustCompile(`^(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?[A-Za-z]+[-_.]?\d*)*(?:\+[0-9A-Za-z.]+)?$`),
	"oci":   regexp.MustCompile(`^sha256:[0-9a-f]{64}$`),
	"nuget": regexp.MustCompile(`^\d+\.\d+(?:\.\d+){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$`),
	"go":    regexp.MustCompile(`^v\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$`),
}

// exact reports whether a version is exact for a manager: one that never means another
// package.
func exact(manager, version string) bool {
	form := exactVersion[manager]
	return form != nil && len(version) <= 256 && form.MatchString(version)
}
