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
	// visit is how long the page's cookie is good.
	visit = 12 * time.Hour
	// maxForm bounds what the page sends, in bytes.
	maxForm = 8 << 10
)

// form is the page. It has no script.
const form = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Chimera payloads</title>
<h1>Payloads of Chimera</h1>
<p>%SAID%</p>
<form method="post" action="/codec/">
<label>Token <input type="password" name="token" autocomplete="off" required autofocus></label>
<button>Open payloads</button>
</form>
</html>
`

// page takes the token of a browser, and gives a cookie for it.
func (c *codec) page(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		said := "Show the token of the codec endpoint. For twelve hours, the Temporal UI may then read payloads here, if its codec endpoint is this address and it includes cross-origin credentials."
		if c.visited(r) {
			said = "This browser may read payloads."
		}
		show(w, http.StatusOK, said)
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if !c.right(r.PostFormValue("token")) {
			show(w, http.StatusUnauthorized, "This is not the token.")
			return
		}
		until := c.Now().Add(visit)
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: c.stamp(strconv.FormatInt(until.Unix(), 10)), Path: codecRoot, Expires: until,
			// Secure: browsers send it over TLS, or to their own machine.
			Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
		show(w, http.StatusOK, "This browser may read payloads.")
	default:
		h.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "the page is read with GET", http.StatusMethodNotAllowed)
	}
}

func show(w http.ResponseWriter, status int, said string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, strings.Replace(form, "%SAID%", said, 1)) // said is ours
}

// visited reports whether a request has a cookie of the page that is still good.
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

// stamp is a time with proof that who has the token gave it.
func (c *codec) stamp(until string) string {
	mac := hmac.New(sha256.New, []byte(c.Token))
	_, _ = mac.Write([]byte("chimera codec cookie v1\n" + until)) // never fails
	return until + "." + hex.EncodeToString(mac.Sum(nil))
}
