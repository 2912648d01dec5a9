package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	cookieName = "chimera-codec"
	// visit is how long the page's cookie is valid.
	visit = 12 * time.Hour
	// maxForm bounds what the page sends, in bytes.
	maxForm = 8 << 10
)

// These are the page. It has no script.
const (
	frame = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Chimera payloads</title>
<h1>Payloads of Chimera</h1>
%SAID%</html>
`
	form = `<form method="post" action="/codec">
<label>Token <input type="password" name="token" autocomplete="off" required autofocus></label>
<button>Open payloads</button>
</form>
`
	asked = `<p>Show the token of the codec endpoint. For twelve hours, this browser may then read payloads in Temporal's web pages.</p>
` + form
	refused = `<p>This is not the token.</p>
` + form
	visiting = `<p>This browser may read payloads, for up to twelve hours.</p>
<p>If Temporal's web pages do not show them, tell the pages of this endpoint. They remember it.</p>
<ol>
<li>Open them under this page's host. <code>localhost</code> and <code>127.0.0.1</code> are two hosts.</li>
<li>Press the glasses, at the top right.</li>
<li>Where there is a choice: <b>Use my browser setting and ignore Cluster-level setting</b>.</li>
<li>Put the address of this page into <b>Codec Server browser endpoint</b>.</li>
<li>Turn on <b>Include cross-origin credentials</b>, and apply.</li>
<li>Load the page again.</li>
</ol>
`
)

// page serves the page, and sets a cookie for a browser that sends the token.
func (c *codec) page(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		said := asked
		if c.visited(r) {
			said = visiting
		}
		show(w, http.StatusOK, said)
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if !c.right(r.PostFormValue("token")) {
			show(w, http.StatusUnauthorized, refused)
			return
		}
		until := c.Now().Add(visit)
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: c.stamp(strconv.FormatInt(until.Unix(), 10)), Path: codecRoot, Expires: until,
			// Secure: browsers send it over TLS, or to the local machine.
			Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
		show(w, http.StatusOK, visiting)
	default:
		h.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "use GET to read the page", http.StatusMethodNotAllowed)
	}
}

func show(w http.ResponseWriter, status int, said string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, strings.Replace(frame, "%SAID%", said, 1)) // said is ours
}

// visited reports whether a request has a cookie of the page that is still valid.
func (c *codec) visited(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	until, _, ok := strings.Cut(cookie.Value, ".")
	if !ok || !hmac.Equal([]byte(cookie.Value), []byte(c.stamp(until))) {
		return false
	}
	seconds, err := strconv.ParseInt(until, 10, 64)
	return err == nil && c.Now().Before(time.Unix(seconds, 0))
}

// stamp returns a time with a MAC, which only a holder of the token can compute.
func (c *codec) stamp(until string) string {
	mac := hmac.New(sha256.New, []byte(c.Token))
	_, _ = mac.Write([]byte("chimera codec cookie v1\n" + until)) // never fails
	return until + "." + hex.EncodeToString(mac.Sum(nil))
}
