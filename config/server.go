package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// Server is an MCP server: one that runs as a child process and communicates over stdio, or a
// remote one.
type Server struct {
	// Type is "stdio", "http" or "sse".
	Type string
	// Command is what is started, or "" for a remote server.
	Command string
	Args    []string
	// Env is the child's environment, in addition to the few names that every child gets.
	Env map[string]Secret
	// Public are the names in Env whose values hold no reference, sorted. [Config.Resolve] sets it.
	Public []string
	// Dir is the child's working directory.
	Dir string
	// Pin are the files and folders that identify the child besides its executable.
	Pin []string
	// User is the user of the machine as whom the child runs, or "" for that of [Children].
	User string
	// Roles are those that call it, and have its secrets: tools, effects, or both if it is
	// empty.
	Roles []string
	// Manifest is the file of its publisher's manifest, or "".
	Manifest string
	// Sessions says whose calls share a session with it: "agent", "run" or "shared"; "" means
	// "agent".
	Sessions string
	// MaxSessions bounds the sessions with it; 0 means the default.
	MaxSessions int
	// Defaults are what an import says of its tools.
	Defaults ServerDefaults

	// URL is where a remote server is, or "". The rest is about remote servers alone.
	URL string
	// Addresses are networks that may be dialled although their addresses are not public.
	Addresses []netip.Prefix
	// Headers are sent with each request.
	Headers map[string]Secret
	// TLS is how both sides prove who they are.
	TLS ServerTLS
	// JWT and OAuth say who asks. JWT has a key, or OAuth a client, or neither is used.
	JWT   JWT
	OAuth OAuth
}

// ServerDefaults are what the catalog says of the tools of a server when they are imported.
type ServerDefaults struct {
	// Timeout is the longest time that one call may take.
	Timeout time.Duration
	// Retries are the calls after the first, of pure tools alone.
	Retries int
}

// ServerTLS is how a connection to a remote MCP server is secured. Paths name PEM files.
type ServerTLS struct {
	CAFile, CertFile, KeyFile string
	// ServerName overrides the name that the server's certificate must have.
	ServerName string
	// Pins are digests of keys, of which the server must have one if there are any.
	Pins []string
}

// JWT is how tokens are minted, if Key is not "".
type JWT struct {
	Key                              Secret
	Issuer, Subject, Audience, KeyID string
	Lifetime                         time.Duration
}

// OAuth is whom tokens are asked of, if ClientID is not "".
type OAuth struct {
	Issuer, TokenURL, ClientID string
	ClientSecret               Secret
	Scopes                     []string
}

// Environ returns Env as a child gets it. It is useful only after [Config.Resolve].
func (s Server) Environ() map[string]string { return reveal(s.Env) }

// Sent returns Headers as the server gets them. It is useful only after [Config.Resolve].
func (s Server) Sent() map[string]string { return reveal(s.Headers) }

// foreign holds the keys of mcpServers that other hosts know, or that later versions of
// this one will know.
var foreign = []string{"auth", "disabled", "autoApprove", "alwaysAllow", "timeout"}

// Keys that are about children alone, and about remote servers alone.
var (
	ofChildren = []string{"args", "env", "cwd", "pin", "user"}
	ofRemote   = []string{"addresses", "headers", "tls", "jwt", "oauth"}
)

func (l *loader) server(v *syntax.Value, name, at string) {
	s := Server{Env: map[string]Secret{}, Headers: map[string]Secret{}, Dir: l.dir, Defaults: ServerDefaults{Timeout: 30 * time.Second, Retries: 2}}
	for _, f := range v.Fields {
		if slices.Contains(foreign, f.Key.Text) {
			l.report(diag.ConfigNotSupported, f.Key.Range(), fmt.Sprintf("not supported yet: %s.%s", at, f.Key.Text), "")
		}
	}
	fields(l, serverKeys, &s, v, at, foreign)
	l.kind(&s, v, at)
	if s.URL != "" {
		l.remote(s, v, at)
	}
	l.config.MCPServers[name] = s
}

// kind checks that an entry is about a child or about a remote server, and not about both.
func (l *loader) kind(s *Server, v *syntax.Value, at string) {
	url, program := v.Get("url"), v.Get("command")
	wrong := func(key *syntax.Value, summary string) {
		l.report(diag.ConfigValue, key.Range(), summary, "A server is started (command), or it is reached (url).")
	}
	switch {
	case url == nil && program == nil:
		wrong(v, at+" has neither command nor url")
		return
	case url != nil && program != nil:
		wrong(url, at+" has both command and url")
		return
	}
	other, what := ofRemote, "command"
	if url != nil {
		other, what = ofChildren, "url"
	}
	for _, f := range v.Fields {
		if slices.Contains(other, f.Key.Text) {
			wrong(f.Key, fmt.Sprintf("%s has %s, which nothing with a %s has", at, f.Key.Text, what))
		}
	}
	switch {
	case s.Type == "" && url != nil:
		s.Type = "http"
	case s.Type == "":
		s.Type = "stdio"
	case (s.Type == "stdio") != (url == nil):
		if t := v.Get("type"); t != nil {
			wrong(t, fmt.Sprintf("%s is of type %s, and has a %s", at, s.Type, what))
		}
	}
}

// remote checks what the keys of a remote server say together.
func (l *loader) remote(s Server, v *syntax.Value, at string) {
	tls := v.Get("tls")
	if tls != nil && strings.HasPrefix(s.URL, "http:") {
		l.report(diag.ConfigValue, tls.Range(), at+" has tls, and its url is one without", "")
	}
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") && tls != nil {
		l.report(diag.ConfigValue, tls.Range(), at+".tls has one of cert_file and key_file", "A client's certificate and its key go together.")
	}
	first := ""
	for _, f := range v.Fields {
		at, name := f.Key, f.Key.Text
		switch name {
		case "headers":
			i := slices.IndexFunc(f.Value.Fields, func(f syntax.Field) bool { return strings.EqualFold(f.Key.Text, "Authorization") })
			if i < 0 {
				continue
			}
			at, name = f.Value.Fields[i].Key, "headers."+f.Value.Fields[i].Key.Text
		case "jwt", "oauth":
		default:
			continue
		}
		if first != "" {
			l.report(diag.ConfigValue, at.Range(), fmt.Sprintf("%s is a second credential beside %s", name, first), "A request has one of jwt, oauth and a header Authorization; a client's certificate may be there as well.")
		}
		first = name
	}
}

// The forms of URLs and pins, as an editor can check them.
const (
	webPattern = `^https?://[^/?#]`
	pinPattern = `^sha256:[0-9a-f]{64}$`
)

// checkURL says what is wrong with the address of a remote server.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return errors.New("must be an HTTPS address")
	case u.User != nil, u.Fragment != "":
		return errors.New("must have neither a user nor a fragment")
	case u.Scheme == "http" && !onLoopback(u.Hostname()):
		return errors.New("must be an HTTPS address: plain HTTP is allowed only on this machine")
	}
	return nil
}

// checkRegistry says what is wrong with the address of a registry. "" is none.
func checkRegistry(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be an HTTPS address without user, query and fragment")
	}
	return nil
}

func onLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

var pin = regexp.MustCompile(pinPattern)

func checkPin(text string) error {
	if !pin.MatchString(text) {
		return errors.New("must hold digests such as sha256:… with 64 small hexadecimal digits")
	}
	return nil
}
