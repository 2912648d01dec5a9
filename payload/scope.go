package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// metadataScope binds what is stored unsealed to the workflow that it was stored
// for. It lies in the store, under the digest that the history has, so that
// whoever writes to the history cannot write it anew: a reference that was copied
// from one run into another brings nothing there. What is sealed is bound by its
// seal.
const metadataScope = "chimera-scope"

// metadataOwner names the workflow for which a payload is to be stored, where that
// is not the one that the SDK names.
const metadataOwner = "chimera-owner"

// owned gives what a child workflow came to, with its owner: the SDK stores that on
// behalf of the parent, and reads it as the child's.
func (s scope) owned(value any, p *commonpb.Payload) *commonpb.Payload {
	if p == nil || s.place != placeWorkflow || sortOf(value) != sortReport {
		return p
	}
	out := &commonpb.Payload{Metadata: maps.Clone(p.GetMetadata()), Data: p.GetData()}
	out.Metadata[metadataOwner] = []byte(owner(s.names[0], s.names[1]))
	return out
}

// owner is the text that identifies a workflow; the text for no workflow differs
// from all others.
func owner(namespace, workflow string) string {
	if workflow == "" {
		return "none"
	}
	b, err := json.Marshal([]string{namespace, workflow})
	if err != nil {
		panic(fmt.Sprintf("strings have no JSON: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ownerOf is the workflow on whose behalf the SDK stores a payload. Continued and
// reset runs have the same; a child has its own, and what it is started with is
// stored on its behalf.
func ownerOf(target converter.StorageDriverTargetInfo) string {
	if w, ok := target.(converter.StorageDriverWorkflowInfo); ok {
		return owner(w.Namespace, w.WorkflowID)
	}
	return owner("", "")
}

// scoped returns a payload with its owner.
func scoped(p *commonpb.Payload, owner string) *commonpb.Payload {
	out := &commonpb.Payload{Metadata: make(map[string][]byte, len(p.GetMetadata())+1), Data: p.GetData()}
	maps.Copy(out.Metadata, p.GetMetadata())
	out.Metadata[metadataScope] = []byte(owner)
	return out
}

// unscoped returns a payload without its owner.
func unscoped(p *commonpb.Payload) *commonpb.Payload {
	if _, ok := p.GetMetadata()[metadataScope]; !ok {
		return p
	}
	out := &commonpb.Payload{Metadata: maps.Clone(p.GetMetadata()), Data: p.GetData()}
	delete(out.Metadata, metadataScope)
	return out
}

// within refuses, in a workflow or an activity of one, what was stored for
// another workflow. A process that reads for nobody, such as a client, may read
// what it is shown.
func (s scope) within(p *commonpb.Payload) error {
	of, ok := p.GetMetadata()[metadataScope]
	if !ok || s.place == placeNone {
		return nil
	}
	if (s.place == placeWorkflow || s.place == placeActivity) && string(of) == owner(s.names[0], s.names[1]) {
		return nil
	}
	return refusal("it was stored for another workflow (%s)", s)
}
