package payload

import (
	"encoding/json"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/contract"
)

// The form of a sealed payload: its metadata names the key and the context, its
// data are a nonce and what AES-256-GCM made of a byte (rawForm or zstdForm) and
// the payload that was sealed, in protobuf. Key id and context are associated
// data, and the key is derived for the context.
const (
	encodingSealed  = "binary/chimera-sealed"
	metadataKey     = "chimera-key"
	metadataContext = "chimera-context"
	// metadataRole is the role whose key it is, unless that is the engine's.
	metadataRole = "chimera-role"
	// metadataLarge marks a payload that had [Threshold] bytes or more before
	// it was sealed. It is stored even if compression has made it smaller, so
	// that readers that expect a reference, such as the interpreter, get one.
	metadataLarge = "chimera-large"

	rawForm  = 0
	zstdForm = 1
)

var (
	// errNoKey reports that this process lacks the key. Another process, or
	// another configuration, has it: nothing is wrong with the payload.
	errNoKey = errors.New("a sealed payload")
	// ErrRefused reports a payload that does not open, was sealed for another
	// context, or is not sealed where only sealed ones are accepted. Somebody
	// other than this deployment's workers has written or moved it.
	ErrRefused = errors.New("payload refused")
)

// refusal returns ErrRefused in the form that the interpreter reads: a refused
// answer counts as none.
func refusal(format string, args ...any) error {
	return contract.Errorf(contract.WorkerLost, "%w: "+format, append([]any{ErrRefused}, args...)...)
}

// kinded assigns an error of a ring the kind for which the interpreter waits until
// a worker has the key, as for a store.
func kinded(err error) error {
	if errors.Is(err, errNoKey) {
		return contract.Errorf(contract.StoreUnavailable, "%w", err)
	}
	return refusal("%w", err)
}

// The places where payloads are converted, by the SDK's serialization context.
const (
	placeNone     = "none"
	placeWorkflow = "workflow"
	placeActivity = "activity"
	placeNexus    = "nexus"
)

// scope is the context of a conversion.
type scope struct {
	place string
	// names are namespace, workflow id and, of an activity, its type.
	names [3]string
	// local reports that the workflow's own worker runs the activity, and role is the one
	// of the queue that it is asked on.
	local bool
	role  role
}

func scopeOf(ctx converter.SerializationContext) scope {
	switch c := ctx.(type) {
	case converter.WorkflowSerializationContext:
		return scope{place: placeWorkflow, names: [3]string{c.Namespace, c.WorkflowID}}
	case converter.ActivitySerializationContext:
		return scope{place: placeActivity, names: [3]string{c.Namespace, c.WorkflowID, c.ActivityType}, local: c.IsLocal, role: roleOfQueue(c.TaskQueue)}
	case converter.NexusSerializationContext:
		return scope{place: placeNexus, names: [3]string{c.Endpoint, c.Service, c.Operation}}
	}
	return scope{place: placeNone}
}

// context is the text that a payload of a sort is bound to.
func (s scope) context(of sort) string {
	b, err := json.Marshal([]string{s.place, s.names[0], s.names[1], s.names[2], string(of)})
	if err != nil {
		panic(fmt.Sprintf("strings have no JSON: %v", err))
	}
	return string(b)
}

// String is the scope in an error.
func (s scope) String() string {
	switch s.place {
	case placeActivity:
		return fmt.Sprintf("activity %s of workflow %s", s.names[2], s.names[1])
	case placeWorkflow:
		return "workflow " + s.names[1]
	}
	return "place " + s.place
}

func isSealed(p *commonpb.Payload) bool { return encodingOf(p) == encodingSealed }

// keyOf is the id of the key with which a payload claims to be sealed, or "".
func keyOf(p *commonpb.Payload) string {
	if !isSealed(p) {
		return ""
	}
	return string(p.GetMetadata()[metadataKey])
}

// madeBy returns the role whose key sealed a payload, as it claims.
func madeBy(p *commonpb.Payload) role { return role(p.GetMetadata()[metadataRole]) }

// seal encrypts p for a role and a context, with the key of an id; small says that it is
// compressed first, where that makes it smaller.
func seal(ring *Keyring, id string, of role, p *commonpb.Payload, context string, small bool) (*commonpb.Payload, error) {
	b, err := encode(p)
	if err != nil {
		return nil, err
	}
	form := byte(rawForm)
	if small {
		if shrunk, ok := shrink(b); ok {
			form, b = zstdForm, shrunk
		}
	}
	data, err := ring.seal(id, of, append([]byte{form}, b...), context)
	if err != nil {
		return nil, kinded(err)
	}
	sealed := &commonpb.Payload{
		Metadata: map[string][]byte{
			converter.MetadataEncoding: []byte(encodingSealed),
			metadataKey:                []byte(id),
			metadataContext:            []byte(context),
		},
		Data: data,
	}
	if of != roleEngine {
		sealed.Metadata[metadataRole] = []byte(of)
	}
	if proto.Size(p) >= Threshold {
		sealed.Metadata[metadataLarge] = []byte("1")
	}
	return sealed, nil
}

// open decrypts a sealed payload. Its context must be the wanted one; with "" any
// context that it names is accepted, which the seal authenticates. Whose key it may be
// sealed with is the caller's to say: see [madeBy].
func open(ring *Keyring, p *commonpb.Payload, wanted string, limit int) (*commonpb.Payload, error) {
	id, context := string(p.GetMetadata()[metadataKey]), string(p.GetMetadata()[metadataContext])
	if ring == nil {
		return nil, kinded(fmt.Errorf("%w: this process has no keys (payload.keys), and it needs %.64q", errNoKey, id))
	}
	if wanted != "" && context != wanted {
		return nil, refusal("it was sealed for %.300q, not for %s", context, wanted)
	}
	b, err := ring.open(id, madeBy(p), p.GetData(), context)
	if err != nil {
		return nil, kinded(err)
	}
	if len(b) == 0 {
		return nil, refusal("it is empty")
	}
	form, b := b[0], b[1:]
	switch form {
	case rawForm:
	case zstdForm:
		if b, err = grow(b, limit); err != nil {
			return nil, refusal("%w", err)
		}
	default:
		return nil, refusal("its form %d is not known", form)
	}
	inner, err := decode(b)
	if err != nil {
		return nil, refusal("%w", err)
	}
	return inner, nil
}
