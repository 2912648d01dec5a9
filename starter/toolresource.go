package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/intake"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// The operations that an import makes of the resources of a server.
const (
	readResource     = "read_resource"
	readJSONResource = "read_json_resource"
	listResources    = "list_resources"
)

// Bounds of what is shown of the resources of a server: how many, and the bytes of a URI, or of another text of its.
const (
	shownResources = 10
	maxShownURI    = 300
)

// shownURI is a URI, a template or a text of a server's about it, as it is shown.
func shownURI(s string) string { return excerpt.Clip(foreign(s), maxShownURI) }

// clippedURI is the same of what is yet to be shown with other text.
func clippedURI(s string) string { return excerpt.Clip(s, maxShownURI) }

// resources adds to what is known of a server its resources and their templates, if it says that it has some.
// Why they are not known is an error only where nothing else is.
func (a askedPool) resources(ctx context.Context, server string, s *live.Server) (err error) {
	v, bad := schemas.Decode(s.Introduction.Capabilities)
	if can, _ := v.(map[string]any); bad != nil || can["resources"] == nil || s.Unlisted != nil {
		s.Looked = bad == nil && s.Unlisted == nil
		return nil
	}
	if s.Resources, err = a.Resources(ctx, server, mcp.Pin{}); unknownMethod(err) {
		err = nil
	}
	if err == nil {
		if s.Templates, err = a.ResourceTemplates(ctx, server); unknownMethod(err) {
			err = nil
		}
	}
	if s.Looked = err == nil; err != nil && len(s.Tools)+len(s.Resources) > 0 && ctx.Err() != context.Canceled {
		s.Unlisted, err = err, nil
	}
	return err
}

// mayHave reports whether a server has something that a pattern matches, or may have: of a template that has no
// pattern nobody knows.
func mayHave(pattern string, listed []mcp.Resource, templates []mcp.ResourceTemplate) bool {
	return live.Matches(pattern, listed, live.Offered(templates)) || slices.ContainsFunc(templates, func(t mcp.ResourceTemplate) bool {
		_, err := t.Pattern()
		return err != nil
	})
}

// unknownMethod reports whether a server does not know the method that it was asked by.
func unknownMethod(err error) bool {
	known := (*contract.Error)(nil)
	return errors.As(err, &known) && known.Kind == contract.Contract
}

// resourceIntake is what operations on resources are made of.
type resourceIntake struct {
	where
	listed    []mcp.Resource
	templates []mcp.ResourceTemplate
	// wanted are patterns of URIs; without one they follow from what is listed, if offer is set.
	wanted []string
	offer  bool
}

// operations are those that the catalog has of the resources of a server, and those that read what
// none of these does. left says what cannot be read, or was not wanted.
func (r *resourceIntake) operations(tools []string, have map[string]catalog.Template, others map[string]bool) (all []*importedTool, left []string) {
	by := map[string]*importedTool{}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if t := have[name]; t.Provider == r.server && t.Resource != nil {
			x := r.operation(t.Operation, t.Resource.As)
			x.Resource.URIs, x.Fingerprint, x.was = slices.Clone(t.Resource.URIs), t.Fingerprint, &t
			by[t.Operation] = x
		}
	}
	more, flags := map[plan.ResourceForm][]string{}, map[plan.ResourceForm][]string{}
	var found []string
	if len(r.wanted) > 0 {
		for _, pattern := range r.wanted {
			if !mayHave(pattern, r.listed, r.templates) {
				left = append(left, "it has no resource and no template for --resources "+pattern)
				continue
			}
			form := r.formOf(pattern)
			more[form] = append(more[form], pattern)
		}
	} else {
		more, flags, left = r.patterns(by)
	}
	if len(r.wanted) == 0 && !r.offer {
		if n := len(more[plan.AsText]) + len(more[plan.AsJSON]); n > 0 {
			left = append(left, fmt.Sprintf("it has resources, which are not imported: --resources PATTERN does, such as %s", slices.Concat(more[plan.AsText], more[plan.AsJSON])[0]))
		}
		clear(more)
	}
	for _, form := range []plan.ResourceForm{plan.AsText, plan.AsJSON} {
		name := map[plan.ResourceForm]string{plan.AsText: readResource, plan.AsJSON: readJSONResource}[form]
		found = append(found, more[form]...)
		r.add(by, name, form, more[form])
		if x := by[name]; x != nil && len(more[form]) > 0 && len(flags[form]) > 0 {
			x.look, x.flagged, x.Warnings = true, true, append(x.Warnings, flags[form]...)
		}
	}
	r.add(by, listResources, "", found)
	for _, name := range slices.Sorted(maps.Keys(by)) {
		x := by[name]
		switch n := len(x.Resource.URIs); {
		case others[catalog.OperationName(r.server, name)]:
			x.State = toolElsewhere
		case slices.Contains(tools, name):
			x.State, x.Warnings = toolLeftOut, append(x.Warnings, "the server has a tool of this name")
		case n > plan.MaxURIPatterns:
			x.State, x.Warnings = toolLeftOut, append(x.Warnings, fmt.Sprintf("it would have %d patterns, and %d are the most: give wider ones with --resources", n, plan.MaxURIPatterns))
		default:
			r.examine(x)
		}
		all = append(all, x)
	}
	return all, left
}

func (r *resourceIntake) operation(name string, as plan.ResourceForm) *importedTool {
	return &importedTool{Name: name, Warnings: []string{}, Resource: &plan.Resource{As: as}, instructions: r.instructions}
}

// add adds patterns to an operation, which is made if it is not there.
func (r *resourceIntake) add(by map[string]*importedTool, name string, as plan.ResourceForm, patterns []string) {
	if len(patterns) == 0 {
		return
	}
	x := by[name]
	if x == nil {
		x = r.operation(name, as)
		by[name] = x
	}
	x.Resource.URIs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(x.Resource.URIs, patterns))))
}

// examine holds an operation against the catalog and what is listed.
func (r *resourceIntake) examine(x *importedTool) {
	fingerprint := ""
	for _, one := range r.listed {
		if is, err := one.Fingerprint(); err == nil && x.Resource.As != "" && x.Resource.Literal() == one.URI {
			fingerprint = is
		}
	}
	if x.was == nil {
		x.State, x.Fingerprint = toolNew, fingerprint
		return
	}
	x.Effect, x.Status = x.was.Effect, x.was.Status
	look := func(what string) { x.look, x.flagged, x.Warnings = true, true, append(x.Warnings, what) }
	held := x.hold(r.where, x.was)
	wider := x.widened()
	switch {
	case wider:
		if x.Fingerprint = ""; x.was.Fingerprint != "" && len(r.wanted) == 0 {
			look("it would read other resources, too, and no longer be pinned to one")
		}
	case x.Fingerprint != "" && fingerprint != "" && x.Fingerprint != fingerprint:
		x.Fingerprint = fingerprint
		look("the resource has changed since it was imported")
	}
	x.same = !wider && !x.flagged && x.was.Instructions == r.instructions
	if x.State = toolSame; wider || x.look || held {
		x.State, x.settled = toolChanged, x.same && !x.moved
	} else {
		x.was = nil
	}
}

// widened reports that an operation of the catalog would read other resources than it does.
func (x *importedTool) widened() bool {
	return !slices.Equal(slices.Sorted(slices.Values(x.was.Resource.URIs)), slices.Sorted(slices.Values(x.Resource.URIs)))
}

// patterns are those of the templates and of the URIs that are listed, and that no operation reads, by what they
// hold. flags are what people should see of the templates.
func (r *resourceIntake) patterns(by map[string]*importedTool) (out, flags map[plan.ResourceForm][]string, left []string) {
	var reading []*plan.Matcher
	for _, x := range by {
		if x.Resource.As != "" {
			reading = append(reading, x.Resource.Matcher())
		}
	}
	out, flags, left = r.templated(reading)
	covered := map[plan.ResourceForm]*plan.Matcher{}
	for form, patterns := range out {
		if len(patterns) <= plan.MaxURIPatterns { // with more there will be no operation
			covered[form] = (&plan.Resource{URIs: patterns}).Matcher()
		}
	}
	uris := map[plan.ResourceForm][]string{}
	for _, one := range r.listed {
		form, ok := formOf(one.MIMEType)
		switch {
		case slices.ContainsFunc(reading, func(m *plan.Matcher) bool { return m.Allows(one.URI) == nil }):
		case ok && covered[form] != nil && covered[form].Allows(one.URI) == nil:
		case !ok:
			left = append(left, fmt.Sprintf("the resource %s is %s, which is neither text nor JSON", clippedURI(one.URI), clippedURI(one.MIMEType)))
		case strings.Contains(one.URI, "*"):
			left = append(left, fmt.Sprintf("the resource %s has a `*`, which would be a pattern", clippedURI(one.URI)))
		default:
			if err := plan.CheckPattern(one.URI); err != nil {
				left = append(left, fmt.Sprintf("the resource %s cannot be read: %s", clippedURI(one.URI), err))
				continue
			}
			uris[form] = append(uris[form], one.URI)
		}
	}
	first, mixed := map[string]plan.ResourceForm{}, map[string]bool{} // by folder
	for _, one := range r.listed {
		folder := folderOf(one.URI)
		form, _ := formOf(one.MIMEType)
		if was, ok := first[folder]; ok && was != form {
			mixed[folder] = true
		}
		first[folder] = form
	}
	for form, all := range uris {
		of := inFolders(all, folderOf, "/*", mixed)
		if len(of) > plan.MaxURIPatterns {
			of = inFolders(all, rootOf, "/**", nil)
		}
		out[form] = slices.Compact(slices.Sorted(slices.Values(append(out[form], of...))))
	}
	return out, flags, left
}

// templated are the patterns of the templates that no operation reads.
func (r *resourceIntake) templated(reading []*plan.Matcher) (out, flags map[plan.ResourceForm][]string, left []string) {
	out, flags = map[plan.ResourceForm][]string{}, map[plan.ResourceForm][]string{}
	for _, one := range r.templates {
		form, ok := formOf(one.MIMEType)
		pattern, err := one.Pattern()
		switch {
		case err != nil:
			left = append(left, fmt.Sprintf("the template %s cannot be imported: %s", clippedURI(one.URITemplate), clippedURI(err.Error())))
		case slices.ContainsFunc(reading, func(m *plan.Matcher) bool { return live.Covers(m, pattern) }):
		case !ok:
			left = append(left, fmt.Sprintf("the template %s is of %s, which is neither text nor JSON", clippedURI(one.URITemplate), clippedURI(one.MIMEType)))
		case slices.Contains(out[form], pattern):
		default:
			found, err := looked(one)
			if err != nil {
				left = append(left, fmt.Sprintf("the template %s cannot be imported: %s", clippedURI(one.URITemplate), clippedURI(err.Error())))
				continue
			}
			out[form], flags[form] = append(out[form], pattern), append(flags[form], found...)
		}
	}
	return out, flags, left
}

// looked is what people should see of the name and the description of a template.
func looked(one mcp.ResourceTemplate) (flags []string, err error) {
	for what, text := range map[string]string{"name": one.Name, "description": one.Description} {
		definition, err := json.Marshal(map[string]any{"name": "template", "description": text})
		if err != nil {
			return nil, err
		}
		found, err := intake.Flags(definition)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			flags = append(flags, fmt.Sprintf("the %s of the template %s: %s: %s", what, clippedURI(one.URITemplate), strings.TrimSuffix(f.Reason, "."), f.Text))
		}
	}
	slices.Sort(flags)
	return flags, nil
}

// inFolders replaces URIs that share a folder by a pattern of all that is in it, unless that is mixed.
// The result is sorted.
func inFolders(uris []string, folder func(string) string, all string, mixed map[string]bool) (out []string) {
	in := map[string][]string{}
	for _, uri := range uris {
		f := folder(uri)
		in[f] = append(in[f], uri)
	}
	for f, of := range in {
		if f == "" || len(of) == 1 || mixed[f] {
			out = append(out, of...)
		} else {
			out = append(out, f+all)
		}
	}
	slices.Sort(out)
	return out
}

// folderOf is a URI without its last segment, or "" if it has none.
func folderOf(uri string) string {
	if i := strings.LastIndexByte(uri, '/'); i > strings.Index(uri, "://")+len("//") {
		return uri[:i]
	}
	return ""
}

// rootOf is the scheme and the authority of a URI, or "" if nothing follows.
func rootOf(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	authority, _, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return scheme + "://" + authority
}

// formOf is as what a resource of a media type is read. Without a type it counts as text.
func formOf(mimeType string) (plan.ResourceForm, bool) {
	kind, _, err := mime.ParseMediaType(mimeType)
	switch {
	case mimeType == "":
		return plan.AsText, true
	case err != nil:
		return "", false
	case kind == "application/json", strings.HasSuffix(kind, "+json"):
		return plan.AsJSON, true
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "+xml"),
		slices.Contains([]string{"application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/javascript", "application/sql"}, kind):
		return plan.AsText, true
	}
	return "", false
}

// formOf is as what a pattern is read: as JSON if all that it matches, of the resources that are listed and of
// the templates, is JSON.
func (r *resourceIntake) formOf(pattern string) plan.ResourceForm {
	var types []string
	wanted := (&plan.Resource{URIs: []string{pattern}}).Matcher()
	for _, one := range r.listed {
		if wanted.Allows(one.URI) == nil {
			types = append(types, one.MIMEType)
		}
	}
	for _, one := range r.templates {
		if is, err := one.Pattern(); err == nil && live.Covers(wanted, is) {
			types = append(types, one.MIMEType)
		}
	}
	for _, one := range types {
		if form, _ := formOf(one); form != plan.AsJSON {
			return plan.AsText
		}
	}
	if len(types) == 0 {
		return plan.AsText
	}
	return plan.AsJSON
}

// ofResources is what is proposed for operations on resources.
var ofResources = intake.Proposal{
	Effect: plan.Pure, Status: plan.AllowAuto, OpenWorld: true,
	Reason: "By the protocol resources are read without an effect. What they hold is the server's word, and tainted.",
}

// reads says what an operation on resources does.
func (x *importedTool) reads() string {
	how := "lists " + strings.Join(x.Resource.URIs, ", ")
	if x.Resource.As != "" {
		how = fmt.Sprintf("reads %s as %s", strings.Join(x.Resource.URIs, ", "), x.Resource.As)
	}
	if x.was != nil && x.was.Resource != nil && len(x.was.Resource.URIs) > 0 && x.widened() {
		how += fmt.Sprintf(" (so far only %s)", strings.Join(x.was.Resource.URIs, ", "))
	}
	return x.Name + " " + how
}

// sayLeft says which resources of a server are left out.
func (p *Program) sayLeft(server string, left []string) {
	for _, what := range left[:min(len(left), shownResources)] {
		p.say("%s: %s", foreign(server), foreign(what))
	}
	if n := len(left) - shownResources; n > 0 {
		p.say("%s: %s more", foreign(server), plural(n, "resource"))
	}
}
