package metrics_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/metrics"
)

// scrape is what Prometheus gets.
func scrape(t *testing.T, r *metrics.Registry) string {
	t.Helper()
	s := httptest.NewServer(r.HTTP())
	defer s.Close()
	answer, err := http.Get(s.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

func TestScrape(t *testing.T) {
	r := metrics.New()
	h := r.Handler()
	a := h.WithTags(map[string]string{"queue": "a"})
	a.Counter("polls").Inc(2)
	a.Counter("polls").Inc(1)
	// Other labels under the same name, one of them said anew.
	a.WithTags(map[string]string{"queue": "b", "kind": `say "x"`}).Counter("polls").Inc(5)
	h.Counter("polls").Inc(-1)
	h.Gauge("slots").Update(3.5)
	h.Gauge(metrics.HeadAge).Update(1)
	h.Gauge(metrics.Waiting).Update(2)
	h.Timer("latency").Record(40 * time.Millisecond)
	text := scrape(t, r)
	require.Contains(t, text, "# HELP "+metrics.HeadAge+" Seconds since the last checkpoint")
	require.Contains(t, text, "# HELP "+metrics.Waiting+" Seconds for which the entry")
	for _, line := range []string{
		"polls_total{queue=\"a\"} 3", `polls_total{kind="say \"x\"",queue="b"} 5`, "polls_total 0", "slots 3.5",
		`latency_seconds_bucket{le="0.01"} 0`, `latency_seconds_bucket{le="0.05"} 1`, "latency_seconds_sum 0.04", "latency_seconds_count 1",
		"go_goroutines ", "process_resident_memory_bytes ", metrics.Dropped + " 0",
	} {
		require.Contains(t, text, "\n"+line)
	}
}

// TestSeriesAreBounded: whoever makes up names does not fill the memory, and what is
// known is counted on.
func TestSeriesAreBounded(t *testing.T) {
	r := metrics.New()
	h := r.Handler()
	h.Counter("known").Inc(1)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range metrics.MaxSeries / 2 {
				own := h.WithTags(map[string]string{"type": fmt.Sprint(w, "/", i)})
				own.Counter("calls").Inc(1)
				own.Gauge("slots").Update(1)
				own.Timer("latency").Record(time.Second)
			}
		})
	}
	all.Wait()
	h.Counter("known").Inc(1)
	text := scrape(t, r)
	require.Contains(t, text, "\nknown_total 2")
	kept := strings.Count(text, "\ncalls_total{") + strings.Count(text, "\nslots{") + strings.Count(text, "\nlatency_seconds_count{")
	require.Equal(t, metrics.MaxSeries-1, kept)
	require.Contains(t, text, fmt.Sprintf("\n%s %d", metrics.Dropped, 4*3*metrics.MaxSeries/2-kept))
}

// TestOneNameTwoKinds: a name that is taken by another kind is counted as dropped.
func TestOneNameTwoKinds(t *testing.T) {
	r := metrics.New()
	h := r.Handler()
	h.Counter("x").Inc(1)
	h.Gauge("x_total").Update(7)
	text := scrape(t, r)
	require.Contains(t, text, "\nx_total 1")
	require.Contains(t, text, "\n"+metrics.Dropped+" 1")
}
