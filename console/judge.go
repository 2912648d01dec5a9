package console

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// GuardianEvaluate is where other judges ask the guardian.
const GuardianEvaluate = "/v1/guardian/evaluate"

// maxQuestion bounds a question, in bytes: an action's inputs, and a little more.
const maxQuestion = 2 << 20

// Judge is the endpoint that says what the guardian would decide. What it says is
// advice: it records nothing, reserves nothing and permits nothing.
type Judge struct {
	// Token authorizes callers; see [MinToken].
	Token string
	// Decide answers a question, a JSON object. ok is false if there is no answer, since the
	// question is malformed, as the result says.
	Decide func(question []byte) (answer any, ok bool)
}

// Handler checks the settings and returns the endpoint.
func (j Judge) Handler() (http.Handler, error) {
	if len(j.Token) < MinToken {
		return nil, fmt.Errorf("the token of the guardian's endpoint has fewer than %d characters", MinToken)
	}
	return &judge{j, make(chan struct{}, maxRequests)}, nil
}

type judge struct {
	Judge
	slots chan struct{}
}

// ServeHTTP serves authorized requests, and refuses others before it reads their bodies.
func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	token, ok := bearer(r)
	switch {
	case r.URL.Path != GuardianEvaluate:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost:
		h.Set("Allow", http.MethodPost)
		http.Error(w, "use POST to send an action", http.StatusMethodNotAllowed)
		return
	case !ok || !equal(j.Token, token):
		h.Set("WWW-Authenticate", `Bearer realm="chimera"`)
		http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
		return
	}
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
	case <-r.Context().Done():
		return
	}
	question, ok := body(w, r, maxQuestion)
	if !ok {
		return
	}
	answer, ok := j.Decide(question)
	raw, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	_, _ = w.Write(append(raw, '\n')) // else the caller is gone
}
