package contract

import "encoding/json"

// Permit is what a guardian gives for one call of an effect.
type Permit struct {
	// Envelope is the signed permit, and Salt that of the digest in it.
	Envelope json.RawMessage `json:"envelope"`
	Salt     []byte          `json:"salt"`
	// Approved is what people have approved, or nil.
	Approved *Approved `json:"approved,omitempty"`
}

// Approved is what people have approved, or stated about a call, with their signatures.
type Approved struct {
	// Request is what they were asked, and Envelopes are what they signed.
	Request   json.RawMessage   `json:"request"`
	Envelopes []json.RawMessage `json:"envelopes"`
}

// Decided is the answer of guard.decide, which has the same request as the activity
// that makes the call. Neither Permit nor Waiting, Recheck nor WaitMS means that there was a call
// before, of which the role of effects knows or finds out what it did; or people have stated
// that.
type Decided struct {
	Request string  `json:"request"`
	Permit  *Permit `json:"permit,omitempty"`
	// Waiting says that people must approve the effect first.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Stated is what people have stated about the call before, or nil.
	Stated *Approved `json:"stated,omitempty"`
	// Recheck is the barrier at which people have approved the effect, for which its prechecks
	// have to be called once more first.
	Recheck string `json:"recheck,omitempty"`
	// WaitMS is how long another call may still run, in milliseconds.
	WaitMS int64 `json:"wait_ms,omitempty"`
	// Unopened reports that the ledger does not know the run: it was reset, and nothing was
	// written since.
	Unopened bool `json:"unopened,omitempty"`
}

// Held is the answer of guard.hold, which has the same request as the activity that makes
// the call. Hold is the id of the hold; Unopened is as in [Decided].
type Held struct {
	Request  string `json:"request"`
	Hold     string `json:"hold,omitempty"`
	Unopened bool   `json:"unopened,omitempty"`
}

// MaxPosts is how many holds one request of guard.post ends.
const MaxPosts = 500

// PostRequest asks guard.post to end holds of calls that have no effect.
type PostRequest struct {
	Run Identity `json:"run"`
	// Request names this request, and is repeated by the answer.
	Request string `json:"request"`
	Posts   []Post `json:"posts"`
}

// Post says what a call has cost for which there is a hold.
type Post struct {
	Hold string `json:"hold"`
	// Spent is as in [Outcome], and Unsent reports that by its failure the call has sent
	// nothing. Both are the word of the worker that made the call.
	Spent  string `json:"spent,omitempty"`
	Unsent bool   `json:"unsent,omitempty"`
	// Unstarted reports that no worker took the call.
	Unstarted bool `json:"unstarted,omitempty"`
}

// Posted is the answer to a [PostRequest].
type Posted struct {
	Request string `json:"request"`
}
