package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/lengthy"
)

// secret is what only activities see: it is in no argument and in no result.
const secret = "budgie-of-the-vault"

const sealedPlan = `
apiVersion: chimera/v1
kind: Plan
name: sealed
version: "1.0"
input_schema: {type: object, required: [x], properties: {x: {type: string, maxLength: 100}}}
output_schema: {type: object, required: [n], properties: {n: {type: integer}}}
nodes:
  - id: a
    provider_type: skill
    provider_name: engine
    operation: pass
    mode: deter
    effect_class: pure
    timeout_ms: 60000
    retry_policy: {max_retries: 0}
    trust_requirement: allow_auto
    input_schema: {type: object, required: [x], properties: {x: {type: string}}}
    output_schema: {type: object, required: [x], properties: {x: {type: string}}}
edges:
  - {from_node: $input, from_port: x, to_node: a, to_port: x, edge_type: data, required: true, transform: "budgie-of-the-${value}"}
  - {from_node: a, from_port: x, to_node: $output, to_port: n, edge_type: data, required: true, transform: "${size(value)}"}
`

const (
	// browserTime bounds the whole visit.
	browserTime = 15 * time.Minute
	// stepTime bounds the wait for one thing to be seen.
	stepTime   = 5 * time.Minute
	codecToken = "a-token-of-enough-letters"
)

// TestABrowserReadsSealedRuns is a person's way through the codec endpoint, in a
// real browser and on Temporal's own web pages, in dev mode and beside it; and the
// ways of others, who do not get through.
func TestABrowserReadsSealedRuns(t *testing.T) {
	lengthy.Skip(t)
	temporal, err := devserver.Find(t.Context(), os.Stderr)
	require.NoError(t, err)
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(sealedPlan), 0o600))
	for name, value := range map[string]string{
		"HOME": dir, "CHIMERA_DEV_TEMPORAL": temporal, "CHIMERA_DEV_PORT": "0", "CHIMERA_DEV_UI_PORT": "0",
		"PAYLOAD":              "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		"CODEC":                codecToken,
		"CHIMERA_PAYLOAD_KEYS": "t1:${env:PAYLOAD}", "CHIMERA_CONSOLE_CODEC_TOKEN": "${env:CODEC}",
		"CHIMERA_CONSOLE_ADDRESS": "127.0.0.1:0",
	} {
		t.Setenv(name, value)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), browserTime)
	t.Cleanup(cancel)

	var dev local
	said := begin(t, ctx, &dev, "dev", "--format", "json")
	endpoint := regexp.MustCompile(`(?m)^codec +(http://\S+) `).FindStringSubmatch(said())
	require.NotNil(t, endpoint, said())
	require.Zero(t, run([]string{"start", "plan.yaml", "--input", `{"x":"vault"}`, "--wait", "--id", "sealed"}, strings.NewReader(""), io.Discard, t.Output()))
	page := dev.UI + "/namespaces/default/workflows/sealed"
	sealed := sealedPayloads(t, dev.Address)
	require.NotContains(t, sealed, secret)

	b := browse(t, ctx)
	b.configure(page, endpoint[1])
	b.sees("Codec Server could not connect")
	b.seesNot(secret)
	b.shot("refused")
	require.Contains(t, b.ask(endpoint[1], "application/json", "cors", sealed), "401")

	b.visit(endpoint[1] + "/") // the page is found with a stroke, too
	b.token("not-the-token-at-all")
	b.sees("This is not the token.")
	b.token(codecToken)
	b.sees("This browser may read payloads")
	b.shot("signed-in")
	b.visit(endpoint[1])
	b.sees("This browser may read payloads")
	require.NotContains(t, b.js(`document.cookie`), "chimera", "no script reads the cookie")

	b.visit(page)
	b.sees(secret)
	b.shot("opened")
	require.Contains(t, b.ask(endpoint[1], "application/json", "cors", sealed), "200")

	t.Run("others", func(t *testing.T) { others(t, b, endpoint[1], sealed) })

	t.Run("beside dev mode, by another name", func(t *testing.T) {
		ui := named(t, dev.UI, "localhost")
		t.Setenv("CHIMERA_CONSOLE_CODEC_ORIGINS", ui)
		var s served
		begin(t, ctx, &s, "console", "--format", "json")
		endpoint := named(t, s.Codec, "localhost")
		b.visit(endpoint)
		b.sees("Show the token", "a cookie is good for one host")
		b.token(codecToken)
		b.sees("This browser may read payloads")
		page := ui + "/namespaces/default/workflows/sealed"
		b.configure(page, endpoint)
		b.sees(secret)
		b.shot("beside")
		require.Contains(t, b.ask(s.Codec, "application/json", "cors", sealed), "401", "the other name is another site, and its cookie stays away")
	})
}

// others are pages that nobody has listed, in a browser that may read. Nothing
// of what they try gets past the endpoint.
func others(t *testing.T, b *browser, endpoint, sealed string) {
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>others</title>")
	}))
	defer evil.Close()
	for _, name := range []string{
		"127.0.0.1",  // of the same site, so that the cookie goes along
		"localhost",  // of another, on this machine
		"other.test", // of anybody
	} {
		t.Run(name, func(t *testing.T) {
			b := b.on(t)
			b.visit(named(t, evil.URL, name))
			require.Equal(t, "TypeError", b.ask(endpoint, "application/json", "cors", sealed))
			require.Equal(t, "TypeError", b.ask(endpoint, "text/plain", "cors", sealed), "without a preflight")
			require.Equal(t, "opaque 0 ", b.ask(endpoint, "text/plain", "no-cors", sealed))
			require.Equal(t, "TypeError", b.js(`fetch(`+quoted(endpoint)+`, {credentials: "include"}).catch(e => e.name)`))

			// A form goes where it likes, and brings its user there.
			body, value, _ := strings.Cut(sealed, "=")
			b.js(`(() => {
				const f = Object.assign(document.createElement("form"), {method: "post", enctype: "text/plain", action: ` + quoted(endpoint+"/decode") + `});
				f.append(Object.assign(document.createElement("input"), {name: ` + quoted(body) + `, value: ` + quoted(value) + `}));
				document.body.append(f); f.submit();
			})()`)
			b.sees("this origin may not ask")
			b.seesNot(secret)

			// Nor is the page with the token shown in another.
			b.visit(named(t, evil.URL, name))
			b.js(`new Promise(done => {
				const f = Object.assign(document.createElement("iframe"), {src: ` + quoted(endpoint) + `, onload: () => done("")});
				document.body.append(f);
			})`)
			require.Equal(t, "hidden", b.js(`(() => { try { return frames[0].document.body.innerText } catch (e) { return "hidden" } })()`))
		})
	}

	// A name that somebody else gives to this machine's address: the pages there are
	// of one origin with the endpoint, as the browser sees it.
	t.Run("rebound", func(t *testing.T) {
		b := b.on(t)
		rebound := named(t, endpoint, "other.test")
		b.visit(rebound)
		b.sees("Show the token", "the cookie is not for this name")
		require.Equal(t, "TypeError", b.ask(rebound, "application/json", "cors", sealed), "our page asks for nothing")
		b.visit(rebound + "/theirs")
		require.Contains(t, b.ask(rebound, "application/json", "cors", sealed), "403")
	})
}

// begin runs a command in this process until the test ends, once it has given its
// one document. It gives what the command tells people.
func begin(t *testing.T, ctx context.Context, document any, args ...string) (said func() string) {
	t.Helper()
	out, in := io.Pipe()
	messages := new(log)
	p := &Program{Stdin: strings.NewReader(""), Stdout: in, Stderr: messages}
	require.NoError(t, p.Parse(args))
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := p.Run(ctx)
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done, messages.String())
		require.NoError(t, p.Close())
	})
	require.NoError(t, json.NewDecoder(out).Decode(document), "%v", messages)
	return messages.String
}

// log is what is written, to be read while it goes on.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// sealedPayloads are what the run's activities have answered, as a request to a
// codec endpoint.
func sealedPayloads(t *testing.T, address string) string {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: address})
	require.NoError(t, err)
	defer c.Close()
	var all commonpb.Payloads
	history := c.GetWorkflowHistory(t.Context(), "sealed", "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		all.Payloads = append(all.Payloads, event.GetActivityTaskCompletedEventAttributes().GetResult().GetPayloads()...)
	}
	require.NotEmpty(t, all.GetPayloads())
	raw, err := protojson.Marshal(&all)
	require.NoError(t, err)
	return string(raw)
}

// named is an address on this machine, with another name of the machine.
func named(t *testing.T, address, host string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.Host = host + ":" + u.Port()
	return u.String()
}

// browser is a real one, with a page.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// browse starts it, without a window, and with nobody's profile. Its names of the
// machine are ours, and it is closed with the test.
func browse(t *testing.T, ctx context.Context) *browser {
	t.Helper()
	ctx, done := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)),
		chromedp.NoSandbox, // tests run as root, in containers that have none
		chromedp.WindowSize(1400, 1600),
		chromedp.Flag("host-resolver-rules", "MAP other.test 127.0.0.1"),
	)...)
	t.Cleanup(done)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		bounded, cancel := context.WithTimeout(ctx, stepTime)
		defer cancel()
		require.NoError(t, chromedp.Cancel(bounded))
	})
	require.NoError(t, chromedp.Do(ctx))
	return &browser{t, ctx}
}

// chromium is the browser that CHROME names, or one on PATH. tools/setup.sh
// installs one.
func chromium(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	if name := os.Getenv("CHROME"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.Fail(t, "a real browser is needed: none of "+strings.Join(names, ", ")+" is there; run tools/setup.sh, or set CHROME")
	return ""
}

func (b *browser) on(t *testing.T) *browser { return &browser{t, b.ctx} }

func (b *browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.shot("failed")
		require.NoError(b.t, err, "%s\n%.1500s", what, b.text())
	}
}

func (b *browser) visit(address string) {
	b.t.Helper()
	b.do("visit "+address, chromedp.Navigate(address))
}

func (b *browser) js(expression string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[any]("Promise.resolve("+expression+").then(v => String(v ?? ''))", chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return fmt.Sprint(value)
}

func (b *browser) text() string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// sees waits until the page shows a text.
func (b *browser) sees(text string, why ...any) {
	b.t.Helper()
	b.holds("!!document.body?.innerText.includes("+quoted(text)+")", why...)
}

// holds waits until an expression holds on the page.
func (b *browser) holds(expression string, why ...any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		// It fails while one page goes and another comes.
		value, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && value {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.shot("failed")
			require.Fail(b.t, "not on this page: "+expression, "%v %v\n%.1500s", why, err, b.text())
		}
	}
}

func (b *browser) seesNot(text string) {
	b.t.Helper()
	require.NotContains(b.t, b.js("document.documentElement.outerHTML"), text)
}

// token gives the endpoint's page a token, as a person does.
func (b *browser) token(token string) {
	b.t.Helper()
	b.do("give the token",
		chromedp.SendKeys(chromedp.CSS("input[name=token]"), token),
		chromedp.Click(chromedp.CSS("button")))
}

// configure opens Temporal's web pages and tells them of an endpoint, as our page
// says and docs/operate.md.
func (b *browser) configure(page, endpoint string) {
	b.t.Helper()
	b.visit(page)
	b.sees("Event History")
	b.do("press the glasses", chromedp.Click(chromedp.CSS(`button[data-testid^="data-encoder-status"]`)))
	b.do("name the endpoint", chromedp.Focus(chromedp.CSS("#data-encoder-endpoint-input")),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: endpoint})
			return err
		}))
	// What is pressed moves while the form opens: the mouse could miss it.
	b.js(`document.querySelector("#pass-access-credentials").click()`)
	b.shot("configured")
	b.js(`[...document.querySelectorAll("button")].find(b => b.innerText.trim() == "Apply").click()`)
	b.holds(`localStorage.getItem("includeCredentials") == "true"`)
	b.visit(page)
}

// ask sends payloads to the endpoint from a page, with its user's cookies, and
// gives what the page gets: a status and a text, or the name of the error.
func (b *browser) ask(endpoint, form, mode, body string) string {
	b.t.Helper()
	return b.js(fmt.Sprintf(`fetch(%s, {method: "POST", credentials: "include", mode: %q, headers: {"Content-Type": %q}, body: %s})
		.then(async r => (r.type == "opaque" ? "opaque " : "") + r.status + " " + await r.text()).catch(e => e.name)`,
		quoted(endpoint+"/decode"), mode, form, quoted(body)))
}

// shot keeps what the page looks like, where the test's output is kept.
func (b *browser) shot(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), picture, 0o600))
}

func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has JSON
	}
	return string(raw)
}
