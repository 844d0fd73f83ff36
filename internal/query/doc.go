// Package query answers PromQL over the history of this host, as Prometheus does over HTTP, for
// dashboards and scripts. Language and evaluation are Prometheus' own; this package has the
// series, the HTTP API and the limits.
//
// A measure of the history is a metric, of the same name as at /metrics where there is one, and a
// workload a label. Differences of the history become counters again, which begin with the first
// sample that a query reads: rate and increase do not see the difference. Where a workload or the
// agent was away, its series ends, as one does whose target is gone.
//
// No query may cost the host more than a little, whoever asks. A query has a longest text and time,
// its samples are counted before they are read, and only a few run at a time. A long range is read
// in coarser steps, as far as its windows still have some samples; beyond that it is refused. The
// engine looks at the clock only between series, so bound.go counts the steps of a query first.
//
// Files: server.go is the API, form.go its parameters, bound.go what a query may cost, store.go
// the history as series, curve.go one of them, metric.go which there are.
package query
