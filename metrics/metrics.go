// Package metrics is what a worker counts, in the form that Prometheus reads: what
// Temporal's library counts of its tasks, polls and requests, what the process
// itself is like, and what the engine adds.
package metrics

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.temporal.io/sdk/client"
)

// Retried counts workflow tasks that a worker has got again, since the attempt
// before failed or was not answered in time: a run whose tasks are tried again and
// again does not go on. Its label workflow_type is that of the run.
const Retried = "chimera_workflow_task_retried"

// MaxSeries bounds the series of a registry: who may ask a queue for activities
// names their types, each of which has its own. What comes after them is counted in
// one, [Dropped], and nowhere else.
const MaxSeries = 10_000

// Dropped counts what was recorded of series beyond [MaxSeries].
const Dropped = "chimera_metrics_dropped_total"

// Registry has the metrics of a process.
type Registry struct {
	registry *prometheus.Registry
	dropped  prometheus.Counter
	mu       sync.Mutex
	series   map[string]prometheus.Collector
}

// New gives a registry with the metrics of the process.
func New() *Registry {
	r := &Registry{
		registry: prometheus.NewRegistry(),
		dropped:  prometheus.NewCounter(prometheus.CounterOpts{Name: Dropped, Help: "Records of more series than are kept."}),
		series:   map[string]prometheus.Collector{},
	}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), r.dropped, (*series)(r))
	return r
}

// Handler gives what Temporal's library records by. A counter's name gets the ending
// _total, and a timer is a histogram of seconds, whose name ends so.
func (r *Registry) Handler() client.MetricsHandler { return handler{r: r} }

// HTTP answers Prometheus.
func (r *Registry) HTTP() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// series collects what the library records. Its metrics of one name need not have
// the same labels, so that nothing can be said of them beforehand.
type series Registry

// Describe implements [prometheus.Collector].
func (*series) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (s *series) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.series))
	s.mu.Unlock()
	for _, c := range all {
		c.Collect(to)
	}
}

// handler records with tags.
type handler struct {
	r    *Registry
	tags prometheus.Labels
}

// WithTags implements [client.MetricsHandler].
func (h handler) WithTags(tags map[string]string) client.MetricsHandler {
	all := prometheus.Labels{}
	maps.Copy(all, h.tags)
	maps.Copy(all, tags)
	return handler{r: h.r, tags: all}
}

// Counter implements [client.MetricsHandler].
func (h handler) Counter(name string) client.MetricsCounter {
	name = strings.TrimSuffix(name, "_total") + "_total"
	c, ok := get(h, name, func() prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: h.tags})
	})
	if !ok {
		c = h.r.dropped
	}
	return counter{c}
}

// Gauge implements [client.MetricsHandler].
func (h handler) Gauge(name string) client.MetricsGauge {
	g, ok := get(h, name, func() prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: h.tags})
	})
	if !ok {
		return dropped{h.r.dropped}
	}
	return gauge{g}
}

// Timer implements [client.MetricsHandler].
func (h handler) Timer(name string) client.MetricsTimer {
	name = strings.TrimSuffix(name, "_seconds") + "_seconds"
	t, ok := get(h, name, func() prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: h.tags, Buckets: buckets})
	})
	if !ok {
		return dropped{h.r.dropped}
	}
	return timer{t}
}

const help = "As Temporal's library counts it."

// buckets are from a local answer to a call that takes all day, in seconds.
var buckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600, 3600, 86_400}

// get gives the series of a name and tags. It reports whether there is room for it,
// and whether what is there under the name is of that kind.
func get[C prometheus.Collector](h handler, name string, fresh func() C) (c C, ok bool) {
	key := keyOf(name, h.tags)
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	have, there := h.r.series[key]
	if !there {
		if len(h.r.series) == MaxSeries {
			return c, false
		}
		have = fresh()
		h.r.series[key] = have
	}
	c, ok = have.(C)
	return c, ok
}

// keyOf tells series apart. No tag has a NUL byte that would matter: two keys that
// are alike would share a series.
func keyOf(name string, tags prometheus.Labels) string {
	var b strings.Builder
	b.WriteString(name)
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		b.WriteString("\x00" + k + "\x00" + tags[k])
	}
	return b.String()
}

type counter struct{ prometheus.Counter }

// Inc implements [client.MetricsCounter].
func (c counter) Inc(n int64) { c.Add(float64(max(n, 0))) }

type gauge struct{ prometheus.Gauge }

// Update implements [client.MetricsGauge].
func (g gauge) Update(v float64) { g.Set(v) }

type timer struct{ prometheus.Histogram }

// Record implements [client.MetricsTimer].
func (t timer) Record(d time.Duration) { t.Observe(d.Seconds()) }

// dropped counts what has no series.
type dropped struct{ counter prometheus.Counter }

func (d dropped) Update(float64)       { d.counter.Inc() }
func (d dropped) Record(time.Duration) { d.counter.Inc() }
