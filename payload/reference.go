package payload

import (
	"bytes"
	"encoding/json"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"chimera.ai/engine/contract"
)

// referenceMark ends the JSON of a reference in place of a run's result. No result
// ends that way: [contract.Result] is compact JSON with one [inlineMark].
var referenceMark = []byte{inlineMark, inlineMark}

// The forms of the SDK's own references, of which it writes the newer one, a message.
const encodingReferenceOld = "json/external-storage-reference"

var messageReference = string((*sdkpb.ExternalStorageReference)(nil).ProtoReflect().Descriptor().FullName())

func isReference(p *commonpb.Payload) bool {
	switch encodingOf(p) {
	case encodingReferenceOld:
		return true
	case converter.MetadataEncodingProtoJSON:
		return string(p.GetMetadata()[converter.MetadataMessageType]) == messageReference
	}
	return false
}

// referred reads a reference: the name of the driver, and the claim.
func referred(p *commonpb.Payload) (name string, claim map[string]string, err error) {
	var ref sdkpb.ExternalStorageReference
	if encodingOf(p) == encodingReferenceOld {
		old := struct {
			DriverName  string                       `json:"driver_name"`
			DriverClaim converter.StorageDriverClaim `json:"driver_claim"`
		}{}
		err = json.Unmarshal(p.GetData(), &old)
		ref.DriverName, ref.ClaimData = old.DriverName, old.DriverClaim.ClaimData
	} else {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(p.GetData(), &ref)
	}
	return ref.GetDriverName(), ref.GetClaimData(), err
}

// referenceOf returns the claim of a reference to a payload in our store.
func referenceOf(p *commonpb.Payload) (claim map[string]string, ok bool) {
	if !isReference(p) {
		return nil, false
	}
	name, claim, err := referred(p)
	return claim, err == nil && name == driverName
}

// readable turns the SDK's references in a run's result into ours.
func readable(c *commandpb.Command) {
	for _, p := range c.GetCompleteWorkflowExecutionCommandAttributes().GetResult().GetPayloads() {
		claim, ok := referenceOf(p)
		if !ok || claim[claimReport] != "" {
			continue
		}
		var size int64
		for _, external := range p.GetExternalPayloads() {
			size += external.GetSizeBytes()
		}
		data, err := json.Marshal(contract.Reference{Ref: contract.Ref{
			Digest: claim[claimDigest], Bytes: size, How: contract.RefHow,
		}})
		if err != nil {
			continue // it has no such field
		}
		p.Metadata = map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}
		p.Data = append(data, referenceMark...)
	}
}

// resolvable undoes readable.
func resolvable(ps []*commonpb.Payload, keys *Keyring) {
	for _, p := range ps {
		if encodingOf(p) != converter.MetadataEncodingJSON || !bytes.HasSuffix(p.GetData(), referenceMark) {
			continue
		}
		var ours contract.Reference
		if json.Unmarshal(p.GetData(), &ours) != nil || ours.Ref.Digest == "" {
			continue
		}
		claim := map[string]string{claimDigest: ours.Ref.Digest}
		keys.vouch(claim)
		data, err := protojson.Marshal(&sdkpb.ExternalStorageReference{DriverName: driverName, ClaimData: claim})
		if err != nil {
			continue // it has no such field
		}
		p.Metadata = map[string][]byte{
			converter.MetadataEncoding:    []byte(converter.MetadataEncodingProtoJSON),
			converter.MetadataMessageType: []byte(messageReference),
		}
		p.Data = data
	}
}
