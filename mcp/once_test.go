//go:build unix

package mcp

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/testca"
)

// A server that acts, and then refuses the call, may be another one than was looked at. What has an effect is
// sent once, and nothing is known of it unless it is still the pinned tool that refuses it.
func TestEffectsAreSentOnce(t *testing.T) {
	alone, other := listingOf(t, echoTool), listingOf(t, changed["input schema"])
	for name, c := range map[string]struct {
		status int
		// then is what happens with the call: "", or the tool that is listed from then on; "refuses" if
		// listings are refused, too, and "soon" if only the next one is.
		then     string
		unpinned bool
		pure     bool
		kind     contract.Kind
		calls    int
		after    string
	}{
		"unknown session":            {status: 404, kind: contract.OutcomeUnknown, calls: 1},
		"unknown session, another":   {status: 404, then: changed["input schema"], kind: contract.OutcomeUnknown, calls: 1},
		"unknown session, unpinned":  {status: 404, unpinned: true, kind: contract.OutcomeUnknown, calls: 1},
		"unknown session, pure":      {status: 404, pure: true, kind: contract.Unsent, calls: tries},
		"refused":                    {status: 401, kind: contract.Auth, calls: 1, after: alone},
		"forbidden":                  {status: 403, kind: contract.Auth, calls: 1, after: alone},
		"refused, unpinned":          {status: 401, unpinned: true, kind: contract.Auth, calls: 1},
		"refused, pure":              {status: 401, pure: true, then: changed["input schema"], kind: contract.Auth, calls: 1},
		"refused by another":         {status: 401, then: changed["input schema"], kind: contract.OutcomeUnknown, calls: 1, after: other},
		"refused, no look":           {status: 401, then: "refuses", kind: contract.OutcomeUnknown, calls: 1},
		"throttled":                  {status: 429, kind: contract.Throttled, calls: 1, after: alone},
		"unavailable":                {status: 503, kind: contract.Throttled, calls: 1, after: alone},
		"throttled, the look, too":   {status: 429, then: "soon", kind: contract.Throttled, calls: 1, after: alone},
		"throttled by another":       {status: 429, then: changed["input schema"], kind: contract.OutcomeUnknown, calls: 1, after: other},
		"throttled, no look in time": {status: 429, then: "refuses", kind: contract.OutcomeUnknown, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			p := s.pool(t)
			pin := pinOf(t, p, "echo", !c.pure)
			if c.unpinned {
				pin = Pin{Again: true}
			}
			var calls, refused atomic.Int64
			s.meanwhile(func(w http.ResponseWriter, _ *http.Request, m message) bool {
				switch m.Method {
				case callOf:
					if calls.Add(1) == 1 && strings.HasPrefix(c.then, "{") {
						s.with(func() { s.tools = c.then })
					}
				case "tools/list":
					if calls.Load() == 0 || c.then != "refuses" && c.then != "soon" || c.then == "soon" && refused.Add(1) > 1 {
						return false
					}
					w.Header().Set("Retry-After", map[string]string{"soon": "1", "refuses": "3600"}[c.then])
				default:
					return false
				}
				w.WriteHeader(c.status)
				return true
			})
			_, err := pinned(t, p, pin)
			e := requireKind(t, c.kind, err)
			require.EqualValues(t, c.calls, calls.Load())
			if c.kind == contract.OutcomeUnknown {
				require.Contains(t, e.Message, fmt.Sprintf("HTTP status %d", c.status))
			}
			if c.unpinned {
				require.Nil(t, e.Snapshots)
			} else {
				require.Equal(t, &contract.Snapshots{Before: alone, After: c.after}, e.Snapshots)
			}
		})
	}
}

// A session that the server has forgotten is noticed before an effect, also where nothing is pinned.
func TestForgottenBeforeAnEffect(t *testing.T) {
	s := newSite(t)
	p := s.pool(t)
	for i := range 3 {
		_, err := pinned(t, p, Pin{Again: true})
		require.NoError(t, err)
		require.Equal(t, i+1, s.beginnings())
		s.with(func() { clear(s.sessions) })
	}
	require.Equal(t, 3, s.called())
}

// Without a token nothing is sent, and so nothing looked at: that is no matter of the server.
func TestNoTokenForAnEffect(t *testing.T) {
	ours := testca.New(t, "authority")
	from := newIssuer(t, ours)
	s := newSite(t)
	secured := secure(t, s, &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server")}})
	p := openPool(t, Server{
		URL: secured.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File},
		OAuth: &OAuth{Issuer: from.URL, TokenURL: from.URL + "/token", ClientID: "client", ClientSecret: "secret-of-client", Scopes: []string{"tools:read", "tools:call"}},
	}, quiet)
	pin := pinOf(t, p, "echo", true)
	link := connOf(p).link.(*web)
	for status, kind := range map[int]contract.Kind{http.StatusBadRequest: contract.Auth, http.StatusTooManyRequests: contract.Throttled, http.StatusInternalServerError: contract.Unsent} {
		from.answer.Store(nil)
		s.meanwhile(func(_ http.ResponseWriter, _ *http.Request, m message) bool {
			if m.Method == "tools/list" {
				refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
				from.answer.Store(&refuse)
				link.peer.refused()
			}
			return false
		})
		_, err := pinned(t, p, pin)
		e := requireKind(t, kind, err)
		require.Equal(t, &contract.Snapshots{Before: listingOf(t, echoTool)}, e.Snapshots)
	}
	require.Zero(t, s.called())
}
