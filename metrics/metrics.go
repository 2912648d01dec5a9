// Package metrics collects the metrics of a worker for Prometheus: those of Temporal's
// library about tasks, polls and requests, those of the process, and those that the
// engine adds.
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

// Retried counts the workflow tasks that a worker has received again, because the previous
// attempt failed or timed out: a run whose tasks are retried again and again makes no
// progress. The label workflow_type is the type of the run.
const Retried = "chimera_workflow_task_retried"

// HeadAge is how many seconds ago the log's last checkpoint was signed, and Waiting how many
// seconds the entry that waits longest has waited for its place in the log, as far as this
// process has seen. Workers that have the log's key measure both.
const (
	HeadAge = "chimera_ledger_head_age_seconds"
	Waiting = "chimera_ledger_waiting_seconds"
)

// ToolsChanged counts how often an MCP server has said that its list of tools has changed. The label
// server is its name in the configuration.
const ToolsChanged = "chimera_mcp_tools_changed"

// MaxSeries bounds the series of a registry: whoever may schedule activities on a queue
// chooses their types, each of which has its own series. [Dropped] alone counts what
// exceeds the bound.
const MaxSeries = 10_000

// Dropped counts the records of series beyond [MaxSeries].
const Dropped = "chimera_metrics_dropped_total"

// Registry holds the metrics of a process.
type Registry struct {
	registry *prometheus.Registry
	dropped  prometheus.Counter
	mu       sync.Mutex
	series   map[string]prometheus.Collector
}

// New returns a registry with the metrics of the process.
func New() *Registry {
	r := &Registry{
		registry: prometheus.NewRegistry(),
		dropped:  prometheus.NewCounter(prometheus.CounterOpts{Name: Dropped, Help: "Records of more series than are kept."}),
		series:   map[string]prometheus.Collector{},
	}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), r.dropped, (*series)(r))
	return r
}

// Handler returns the handler with which Temporal's library records. The names of counters
// get the suffix _total; timers become histograms of seconds, with the suffix _seconds.
func (r *Registry) Handler() client.MetricsHandler { return handler{r: r} }

// HTTP returns the handler that serves Prometheus.
func (r *Registry) HTTP() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// series collects what the library records. Metrics of one name need not have the same
// labels, so they cannot be described in advance.
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
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: helpOf(name), ConstLabels: h.tags})
	})
	if !ok {
		c = h.r.dropped
	}
	return counter{c}
}

// Gauge implements [client.MetricsHandler].
func (h handler) Gauge(name string) client.MetricsGauge {
	g, ok := get(h, name, func() prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: helpOf(name), ConstLabels: h.tags})
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
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: helpOf(name), ConstLabels: h.tags, Buckets: buckets})
	})
	if !ok {
		return dropped{h.r.dropped}
	}
	return timer{t}
}

// helpOf describes a metric.
func helpOf(name string) string {
	switch name {
	case Retried + "_total":
		return "Workflow tasks that came again, because the attempt before failed or was not answered in time."
	case ToolsChanged + "_total":
		return "Times that an MCP server has said that its list of tools has changed."
	case HeadAge:
		return "Seconds since the last checkpoint of the audit log was signed."
	case Waiting:
		return "Seconds for which the entry of the audit log that waits longest has waited for its place."
	}
	return "As Temporal's library counts it."
}

// buckets range from a local call to one that takes all day, in seconds.
var buckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600, 3600, 86_400}

// get returns the series of a name and tags. ok is false if there is no room for it, or if
// the name has series of another kind.
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

// keyOf returns a key that identifies a series. Tags with NUL bytes do no harm: in the worst
// case, two keys share a series.
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

// dropped counts records without a series.
type dropped struct{ counter prometheus.Counter }

func (d dropped) Update(float64)       { d.counter.Inc() }
func (d dropped) Record(time.Duration) { d.counter.Inc() }
