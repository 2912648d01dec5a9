package live

import (
	"encoding/json"
	"slices"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/mcp"
)

// What of a server differs, apart from the parts of a tool's definition.
const (
	EndpointPart     fingerprint.Part = "endpoint"
	InstructionsPart fingerprint.Part = "instructions"
	ResourcePart     fingerprint.Part = "resource"
)

// Changes lists what a template pins that the server does not offer just so. Nothing of a definition
// is compared if the server has no such tool. Of instructions and of a resource the template has only
// the digest.
func (s *Server) Changes(t *catalog.Template) (changes []fingerprint.Change, err error) {
	if i := slices.IndexFunc(s.Tools, func(tool mcp.Tool) bool { return tool.Name == t.Operation }); i >= 0 && t.Definition != nil {
		if changes, err = fingerprint.Compare(t.Definition, s.Tools[i].Raw); err != nil {
			return nil, err
		}
	}
	if at := s.Introduction.Endpoint; len(t.Endpoints) > 0 && !slices.Contains(t.Endpoints, at) {
		changes = append(changes, change(EndpointPart, t.Endpoints, []string{at}))
	}
	if t.Instructions != "" {
		is, err := fingerprint.Instructions(s.Introduction.Instructions)
		if err != nil {
			return nil, err
		}
		if is != t.Instructions {
			changes = append(changes, change(InstructionsPart, map[string]string{"digest": t.Instructions}, map[string]string{"digest": is, "text": s.Introduction.Instructions}))
		}
	}
	if !pinsResource(t) {
		return changes, nil
	}
	c := change(ResourcePart, map[string]string{"fingerprint": t.Fingerprint}, nil)
	for _, r := range s.Resources {
		switch is, err := r.Fingerprint(); {
		case err == nil && is == t.Fingerprint:
			return changes, nil
		case err == nil && slices.Contains(t.Resource.URIs, r.URI):
			c = change(ResourcePart, map[string]string{"fingerprint": t.Fingerprint}, map[string]string{"fingerprint": is, "mimeType": r.MIMEType, "name": r.Name, "uri": r.URI})
		}
	}
	return append(changes, c), nil
}

// change is a change of what strings are in; is may be nil.
func change(part fingerprint.Part, was, is any) fingerprint.Change {
	c := fingerprint.Change{Part: part}
	c.Was, _ = json.Marshal(was) // strings always have a form
	if is != nil {
		c.Is, _ = json.Marshal(is)
	}
	return c
}
