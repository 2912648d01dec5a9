package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/dial"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/redact"
)

const (
	// askedAtOnce bounds the servers that are started and asked side by side.
	askedAtOnce = 8
	// patience is how long people wait before they are told for which server.
	patience = 2 * time.Second
	// askTime bounds how long one server may take to start and to say what it offers.
	askTime = time.Minute
)

// askedPool is the pool of one server, as it is configured, with the tokens that it was sent, and its secrets.
type askedPool struct {
	*mcp.Pool
	server          mcp.Server
	issued, secrets *redact.Secrets
}

// asking asks one server, which must not print. Its context ends when the server has had its time.
type asking[T any] func(ctx context.Context, pool askedPool, name string) (T, error)

// askEach starts servers of the configuration, and asks them side by side, each for askTime at most. failed
// has why others did not answer: one whose secrets are not there is one of these.
func askEach[T any](ctx context.Context, p *Program, names []string, ask asking[T]) (answers map[string]T, failed map[string]error, err error) {
	c, err := p.settings()
	if err != nil {
		return nil, nil, err
	}
	if names, err = serversNamed(&c, names); err != nil {
		return nil, nil, err
	}
	type result struct {
		name   string
		answer T
		err    error
	}
	results, slots := make(chan result, len(names)), make(chan struct{}, askedAtOnce)
	for _, name := range names {
		go func() {
			r := result{name: name}
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				r.answer, r.err = askIt(ctx, c, name, ask)
			case <-ctx.Done():
				r.err = unanswered("it was not asked: interrupted")
			}
			results <- r
		}()
	}
	answers, failed = map[string]T{}, map[string]error{}
	slow := time.NewTimer(patience)
	defer slow.Stop()
	for len(answers)+len(failed) < len(names) {
		select {
		case r := <-results:
			if failed[r.name] = r.err; r.err == nil {
				delete(failed, r.name)
				answers[r.name] = r.answer
			}
		case <-slow.C:
			open := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				_, ok := answers[name]
				return ok || failed[name] != nil
			})
			p.say("waiting for %s", foreign(strings.Join(open, ", ")))
		}
	}
	return answers, failed, nil
}

// askOne asks one server of the configuration.
func askOne[T any](ctx context.Context, p *Program, name string, ask asking[T]) (answer T, err error) {
	answers, failed, err := askEach(ctx, p, []string{name}, ask)
	return answers[name], cmp.Or(err, failed[name])
}

// askIt asks a server of a configuration, which may take askTime.
func askIt[T any](ctx context.Context, c config.Config, name string, ask asking[T]) (answer T, err error) {
	server, secrets, err := serverOf(c, name)
	if err != nil {
		return answer, err
	}
	issued := redact.New(nil)
	pool := askedPool{mcp.NewPool(map[string]mcp.Server{name: server}, mcp.Options{Logger: slog.New(slog.DiscardHandler), Issued: issued.Add}), server, issued, secrets}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err = ask(ctx, pool, name)
	late := err != nil && ctx.Err() == context.DeadlineExceeded
	if closed := pool.Close(); err == nil && closed != nil {
		err = closed
	}
	if known := (*contract.Error)(nil); !errors.As(err, &known) {
		return answer, err
	}
	f := noAnswer(err, issued, secrets)
	if late {
		f = f.withHint("A server has %s to start, and to say what it offers.", askTime)
	}
	if denied := (*dial.Denied)(nil); errors.As(err, &denied) {
		f = f.withHint("If the server is meant to be there, set mcpServers.%s.addresses, such as [\"%s/%d\"].", name, denied.Addr, denied.Addr.BitLen())
	}
	return answer, f
}

// serversNamed are the servers of the configuration that are named, sorted.
func serversNamed(c *config.Config, names []string) ([]string, error) {
	known := slices.Sorted(maps.Keys(c.MCPServers))
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, misuse("the configuration has no MCP server %s", foreign(name)).meant("", name, known, "Servers stand in mcpServers.")
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), nil
}

// configured are the names of all servers of the configuration, of which there must be one.
func (p *Program) configured() ([]string, error) {
	c, err := p.settings()
	if err != nil {
		return nil, err
	}
	if len(c.MCPServers) == 0 {
		return nil, misuse("the configuration has no MCP server").withHint("Servers stand in mcpServers of chimera.yaml.")
	}
	return slices.Sorted(maps.Keys(c.MCPServers)), nil
}

// serverOf is a server of a configuration, with its secrets, which are to be hidden.
func serverOf(c config.Config, name string) (mcp.Server, *redact.Secrets, error) {
	c.MCPServers, c.Skills = map[string]config.Server{name: c.MCPServers[name]}, nil
	c, err := c.Resolve(string(host.RoleTools), string(host.RoleEffects))
	if err != nil {
		return mcp.Server{}, nil, unanswered("%s", err)
	}
	var secrets []string
	for _, x := range c.Secrets() {
		secrets = append(secrets, x.Reveal())
	}
	return host.Servers(c)[name], redact.New(secrets), nil
}

// silent is a server that did not answer, and why.
type silent struct {
	Server string `json:"server"`
	Error  string `json:"error"`
}

// silence are the servers that did not answer, by name.
func silence(failed map[string]error) []silent {
	all := []silent{}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, silent{name, failed[name].Error()})
	}
	return all
}

// unheard says which servers did not answer and why, and is the failure of it, or nil. If nothing else was
// asked, it is the failure of the one server.
func (p *Program) unheard(failed map[string]error, asked int) error {
	if len(failed) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if asked == 1 {
			return failed[name]
		}
		p.say("%s: %s", foreign(name), failed[name])
		if f := (*failure)(nil); errors.As(failed[name], &f) && f.hint != "" {
			p.say("  %s", f.hint)
		}
	}
	return unanswered("%s did not answer: %s", plural(len(failed), "server"), foreign(strings.Join(slices.Sorted(maps.Keys(failed)), ", ")))
}

// introduced is what a server says of itself, and what it offers.
type introduced struct {
	live.Server
	// place identifies where it is: see [mcp.Server.Endpoint].
	place map[string]any
	// files are those among its arguments, if nothing pins what they hold.
	files []string
	// print is the fingerprint of all that, where it was asked for.
	print string
}

// introduce asks a server what it says of itself, and what it offers.
func introduce(ctx context.Context, pool askedPool, name string) (s introduced, err error) {
	if s.Server, err = live.Ask(ctx, pool.Pool, name, nil); err != nil {
		return s, err
	}
	if err := pool.resources(ctx, name, &s.Server); err != nil {
		return s, err
	}
	if s.place, err = pool.server.Endpoint(); err != nil {
		return s, negative("the server %s: %s", foreign(name), foreign(err.Error()))
	}
	s.files = loaded(pool.server, s.place)
	return s, pool.clean(name, &s.Server)
}

// loaded are the files among the arguments of a server that is started here, unless it has pins: relative
// to the folder of the configuration if they are in it.
func loaded(s mcp.Server, place map[string]any) (files []string) {
	if len(s.Pin) > 0 {
		return nil
	}
	dir, _ := place["cwd"].(string)
	for _, arg := range s.Args {
		file := arg
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if at, err := filepath.Abs(file); err == nil {
			file = at
		}
		if near, err := filepath.Rel(s.Base, file); err == nil && filepath.IsLocal(near) {
			file = near
		}
		files = append(files, file)
	}
	return files
}

// pins says what of where a server is counts for who calls it, and what does not.
func (i introduced) pins(server string) string {
	if _, ok := i.place["url"]; ok {
		return "are its address, and the keys and names that the configuration has of it"
	}
	what := fmt.Sprintf("are the program %s, its arguments and its environment", i.place["command"])
	if i.place["pin"] != nil {
		return what + fmt.Sprintf(", and what mcpServers.%s.pin names", server)
	}
	if len(i.files) == 0 {
		return what + fmt.Sprintf(". What that loads is not, unless mcpServers.%s.pin names it", server)
	}
	return what + fmt.Sprintf(". What it loads is not: for that set pin: [%s] in mcpServers.%s, and import again", strings.Join(i.files, ", "), server)
}

// clean fails if a server repeats a token in what it declares, which is printed, or written to files. Why
// resources are not known is printed without secrets.
func (a askedPool) clean(server string, s *live.Server) error {
	if s.Unlisted != nil {
		s.Unlisted = noAnswer(s.Unlisted, a.issued, a.secrets)
	}
	where := ""
	if said := s.Introduction.Raw; !bytes.Equal(a.issued.JSON(said), said) {
		where = "what it says of itself"
	}
	for _, t := range s.Tools {
		if !bytes.Equal(a.issued.JSON(t.Raw), t.Raw) {
			where = "the definition of a tool"
		}
	}
	for _, r := range s.Resources {
		for _, text := range []string{r.URI, r.Name, r.MIMEType, r.Description} {
			if a.issued.Text(text) != text {
				where = "what it says of a resource"
			}
		}
	}
	for _, t := range s.Templates {
		for _, text := range []string{t.URITemplate, t.Name, t.MIMEType, t.Description} {
			if a.issued.Text(text) != text {
				where = "what it says of a template of resources"
			}
		}
	}
	if where == "" {
		return nil
	}
	return negative("the server %s repeats a token that it was sent, in %s", foreign(server), where)
}

// whereabouts is where a server is, for people: its command line, or its address.
func whereabouts(place map[string]any) string {
	if url, ok := place["url"].(string); ok {
		return url
	}
	command, _ := place["command"].(string)
	words := []string{command}
	args, _ := place["args"].([]any)
	for _, arg := range args {
		text, _ := arg.(string)
		words = append(words, text)
	}
	return strings.Join(words, " ")
}
