package redact_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/redact"
)

const token = `s3cr/et+"tök en"\<&>` + "\tx"

func TestText(t *testing.T) {
	s := redact.New([]string{token})
	plain, err := json.Marshal(token)
	require.NoError(t, err)
	twice, err := json.Marshal(string(plain))
	require.NoError(t, err)
	var loose strings.Builder
	enc := json.NewEncoder(&loose)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(token))
	for name, form := range map[string]string{
		"as it is":          token,
		"JSON":              string(plain),
		"JSON without HTML": strings.TrimSpace(loose.String()),
		"JSON in JSON":      string(twice),
		"Go":                strconv.Quote(token),
		"ASCII":             strconv.QuoteToASCII(token),
		"HTML":              html.EscapeString(token),
		"a query":           "a=" + url.QueryEscape(token) + "&b=1",
		"a path":            url.PathEscape(token),
		"small percents":    strings.ToLower(url.QueryEscape(token)),
		"hex":               hex.EncodeToString([]byte(token)),
		"base64":            base64.StdEncoding.EncodeToString([]byte(token)),
		"basic":             base64.StdEncoding.EncodeToString([]byte("user:" + token)),
		"basic, longer":     base64.StdEncoding.EncodeToString([]byte("users:" + token + " ")),
		"JWT":               base64.RawURLEncoding.EncodeToString([]byte(`{"k":"` + token + `"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			got := s.Text("before " + form + " behind")
			require.Contains(t, got, redact.Mark)
			require.True(t, strings.HasPrefix(got, "before ") && strings.HasSuffix(got, " behind"), got)
			require.NotContains(t, got, "s3cr")
		})
	}
	require.Equal(t, "nothing of it", s.Text("nothing of it"))
}

func TestShortSecretsAreLeft(t *testing.T) {
	short := redact.New([]string{"", "true", "8080", "7 bytes"})
	short.Add("7 bytes", time.Time{})
	require.Equal(t, "true 8080 7 bytes", short.Text("true 8080 7 bytes"))
	var none *redact.Secrets
	none.Add("8 bytes.", time.Time{})
	require.Equal(t, "x", none.Text("x"))
	require.Equal(t, `{"a":1}`, string(none.JSON(json.RawMessage(`{"a":1}`))))
	require.Equal(t, io.EOF, none.Error(io.EOF))
	require.Equal(t, "[redacted]!", redact.New([]string{"8 bytes."}).Text("8 bytes.!"))
}

func TestSecretsDoNotPrintThemselves(t *testing.T) {
	s := redact.New([]string{"hunter22hunter22"})
	require.Equal(t, "[redacted] [redacted] [redacted]", fmt.Sprintf("%v %+v %#v", s, s, s))
	require.Equal(t, redact.Mark, s.LogValue().String())
}

func TestTheLongerSecretIsMeant(t *testing.T) {
	s := redact.New([]string{"password", "password-of-admin"})
	require.Equal(t, "[redacted], [redacted]s", s.Text("password-of-admin, passwords"))
}

// TestLines: a key in PEM comes back line by line, too.
func TestLines(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIK0f1ee0\nAAAA\n-----END PRIVATE KEY-----\n"
	s := redact.New([]string{pem})
	require.Equal(t, `["-----BEGIN PRIVATE KEY-----","[redacted]","AAAA"]`,
		string(s.JSON(json.RawMessage(`["-----BEGIN PRIVATE KEY-----","MC4CAQAwBQYDK2VwBCIEIK0f1ee0","AAAA"]`))))
	require.Equal(t, redact.Mark, s.Text(strings.TrimSpace(pem)))
}

func TestCuts(t *testing.T) {
	s := redact.New([]string{"abcdefghijklmnop"})
	for in, want := range map[string]string{
		"the key is abcdefgh…":                 "the key is [redacted]…",
		"…jklmnop is the key":                  "…[redacted] is the key",
		"x abcdefgh… (more)":                   "x [redacted]… (more)",
		"abc…":                                 "abc…",
		"the key is abcdefgh":                  "the key is abcdefgh",
		"abcdefghijklmnop…":                    "[redacted]…",
		strings.Repeat("…", 100) + "abcdefgh…": strings.Repeat("…", 100) + "abcdefgh…",
	} {
		require.Equal(t, want, s.Text(in))
	}
	require.Equal(t, `{"a":"[redacted]…"}`, string(s.Details(json.RawMessage(`{"a":"abcdefgh…"}`))))
	require.Equal(t, `{"a":"abcdefgh…"}`, string(s.JSON(json.RawMessage(`{"a":"abcdefgh…"}`))))
}

func TestJSON(t *testing.T) {
	s := redact.New([]string{"se\"cret-value", "1234567890"})
	for in, want := range map[string]string{
		`{"a": "x se\"cret-value y", "b": [1, null]}`: `{"a": "x [redacted] y", "b": [1, null]}`,
		`{"se\u0022cret-value": true}`:                `{"[redacted]": true}`,
		`"\u0073\u0065\"cret\u002dvalue"`:             `"[redacted]"`,
		`{"n": 1234567890, "m": -1234567890.5}`:       `{"n": "[redacted]", "m": "[redacted]"}`,
		`{"n": 123456789}`:                            `{"n": 123456789}`,
		`"{\"a\":\"se\\\"cret-value\"}"`:              `"{\"a\":\"[redacted]\"}"`,
		`{"a":1,"a":2}`:                               `{"a":1,"a":2}`,
		`not "json`:                                   `not "json`,
		`"unended 1234567890`:                         `"unended [redacted]"`,
		``:                                            ``,
	} {
		require.Equal(t, want, string(s.JSON(json.RawMessage(in))), in)
	}
	same := json.RawMessage(`{"a":"\u00e9"}`)
	require.Equal(t, same, s.JSON(same))
}

// TestNothingComesBack: whatever JSON a secret stands in, and however that is
// laid out, it is valid without it.
func TestNothingComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringN(8, 40, -1).Filter(func(s string) bool {
			return len(strings.TrimSpace(s)) >= redact.MinBytes && !strings.Contains(redact.Mark, s)
		}).Draw(t, "secret")
		around := rapid.String().Draw(t, "around")
		s := redact.New([]string{secret})
		raw, err := json.Marshal(map[string]any{"k" + secret: []string{around + secret, fmt.Sprintf("%q", secret)}})
		if err != nil {
			t.Fatal(err)
		}
		clean := s.JSON(raw)
		var v map[string][]string
		if err := json.Unmarshal(clean, &v); err != nil {
			t.Fatalf("%s: %s", clean, err)
		}
		for key, list := range v {
			for _, text := range append(list, key) {
				if strings.Contains(text, secret) {
					t.Fatalf("%q holds %q", text, secret)
				}
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":"hunter22hunter22","b":[1,2,"\u0068unter22"]}`))
	f.Add([]byte(`"\"`))
	f.Add([]byte(`{"a":` + strings.Repeat("[", 100)))
	s := redact.New([]string{"hunter22", "12345678"})
	f.Fuzz(func(t *testing.T, raw []byte) {
		clean := s.JSON(raw)
		if json.Valid(raw) && !json.Valid(clean) {
			t.Fatalf("%q became %q", raw, clean)
		}
		if json.Valid(raw) && bytes.Contains(clean, []byte("hunter22")) {
			t.Fatalf("%q holds the secret", clean)
		}
	})
}

func TestErrors(t *testing.T) {
	s := redact.New([]string{"hunter22hunter22"})
	err := s.Error(fmt.Errorf("dial with hunter22hunter22: %w", context.Canceled))
	require.EqualError(t, err, "dial with [redacted]: context canceled")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, errors.Unwrap(err), "the text of the cause stays inside")
	require.Equal(t, io.EOF, s.Error(io.EOF))
	require.NoError(t, s.Error(nil))
}

type hasSecret struct{ Password string }

func TestLog(t *testing.T) {
	const secret = "hunter22hunter22"
	s := redact.New([]string{secret, "123456789"})
	for name, handler := range map[string]func(io.Writer) slog.Handler{
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			log := slog.New(s.Handler(handler(&out)))
			log = log.With("with", secret).WithGroup("group").With("again", secret)
			log.Info("said "+secret, "text", secret, "err", errors.New(secret), "struct", hasSecret{secret}, "pointer", &hasSecret{secret},
				"raw", json.RawMessage(`"`+secret+`"`), "bytes", []byte(secret), "number", 123456789, "list", []any{secret}, "none", nil,
				slog.Group("inner", slog.String("deep", secret)), secret, "key", "plain", 7)
			require.NotContains(t, out.String(), "hunter22")
			require.NotContains(t, out.String(), base64.StdEncoding.EncodeToString([]byte(secret)))
			require.NotContains(t, out.String(), "123456789")
			require.Contains(t, out.String(), "7")
			require.Contains(t, out.String(), "group")
			require.True(t, log.Enabled(t.Context(), slog.LevelInfo))
		})
	}
}

func BenchmarkJSON(b *testing.B) {
	var secrets []string
	for i := range 40 {
		secrets = append(secrets, fmt.Sprintf("token-%d-%x", i, i*7919))
	}
	s := redact.New(secrets)
	raw := json.RawMessage(`["` + strings.Repeat(`ordinary text of a tool","`, 40_000) + `"]`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		s.JSON(raw)
	}
}

// TestAdd: what is added while it is in use is found like the rest, and forgotten when its time is
// over or others take its place.
func TestAdd(t *testing.T) {
	const first, second = "eyJhbGciOiJFUzI1NiJ9.e30.AAAAAAAAAAAAAAAA", "eyJhbGciOiJFUzI1NiJ9.e30.AAAAAAAAAAAAAAAAB"
	s := redact.New(nil)
	require.Equal(t, first, s.Text(first))
	s.Add(first, time.Now().Add(time.Hour))
	s.Add(second, time.Time{})
	s.Add(second, time.Time{})
	echoed := "Bearer " + second + ", Bearer " + first + "."
	require.Equal(t, "Bearer [redacted], Bearer [redacted].", s.Text(echoed))
	require.Equal(t, `{"a":"[redacted]","b":1}`, string(s.JSON(json.RawMessage(`{"a":"`+first+`","b":1}`))))
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
		for _, before := range []string{"", "u", "us"} {
			got := s.Text(encoding.EncodeToString([]byte(before + first + "x")))
			require.Contains(t, got, redact.Mark)
			require.NotContains(t, got, encoding.EncodeToString([]byte("FUzI1NiJ9"))[:8])
		}
	}
	require.Equal(t, redact.Mark+" and", s.Text(hex.EncodeToString([]byte(first))+" and"))
	require.Equal(t, "said [redacted]…", s.Text("said "+first[:30]+"…"))
	require.Equal(t, "…[redacted] said", s.Text("…"+first[30:]+" said"))
	require.Equal(t, io.EOF, s.Error(io.EOF))
	require.EqualError(t, s.Error(errors.New(echoed)), "Bearer [redacted], Bearer [redacted].")

	past := "a token of the past"
	s.Add(past, time.Now().Add(-time.Minute))
	s.Add("another token", time.Time{})
	require.Equal(t, past, s.Text(past))

	for i := range 3000 {
		s.Add(fmt.Sprintf("token number %d", i), time.Time{})
	}
	require.Equal(t, second, s.Text(second))
	require.Equal(t, redact.Mark, s.Text("token number 2999"))

	huge := redact.New(nil)
	for i := range 160 {
		huge.Add(fmt.Sprintf("%d %s", i, strings.Repeat("x", 64<<10)), time.Time{})
	}
	require.Equal(t, "0 "+strings.Repeat("x", 64<<10), huge.Text("0 "+strings.Repeat("x", 64<<10)))
	require.Equal(t, redact.Mark, huge.Text("159 "+strings.Repeat("x", 64<<10)))
}

// TestAddAgain: of several times until which a secret is in use the last one counts, and what is only a
// form of another secret is one, too.
func TestAddAgain(t *testing.T) {
	const token = "a token that is used again"
	past, future := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	for name, times := range map[string][]time.Time{
		"longer":       {past, future},
		"shorter":      {future, past},
		"indefinitely": {past, {}},
		"no longer":    {{}, past},
	} {
		t.Run(name, func(t *testing.T) {
			s := redact.New(nil)
			for _, until := range times {
				s.Add(token, until)
			}
			s.Add("another token", time.Time{})
			require.Equal(t, redact.Mark, s.Text(token))
		})
	}
	s := redact.New(nil)
	s.Add(token, past)
	s.Add(token, past)
	s.Add("another token", time.Time{})
	require.Equal(t, token, s.Text(token))

	s = redact.New(nil)
	form := hex.EncodeToString([]byte(token))
	s.Add(token, past)
	s.Add(form, future)
	s.Add("another token", time.Time{})
	require.Equal(t, redact.Mark, s.Text(form))
}

// TestManyOver: secrets that are over are taken away, although not all at once.
func TestManyOver(t *testing.T) {
	s := redact.New(nil)
	soon := time.Now().Add(100 * time.Millisecond)
	for i := range 100 {
		s.Add(fmt.Sprintf("token number %d", i), soon)
	}
	require.Eventually(t, func() bool {
		s.Add("another token", time.Time{})
		return s.Text("token number 99") == "token number 99"
	}, 10*time.Second, time.Millisecond)
}

// TestAddAndReplace: sets of secrets that are given at once and one by one find the same.
func TestAddAndReplace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-c]{8,12}`)
		secrets := rapid.SliceOfN(secret, 1, 4).Draw(t, "secrets")
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(secret, rapid.SampledFrom(secrets), rapid.StringMatching(`[a-d ]{0,9}`)), 0, 9).Draw(t, "texts"), "")
		added := redact.New(nil)
		for _, s := range secrets {
			added.Add(s, time.Time{})
		}
		require.Equal(t, redact.New(secrets).Text(text), added.Text(text))
	})
}

func BenchmarkAdded(b *testing.B) {
	s := redact.New(nil)
	for i := range 2048 {
		s.Add(fmt.Sprintf("eyJhbGciOiJFUzI1NiJ9.%0200d", i), time.Time{})
	}
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1<<20/45)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Text(text)
	}
}
