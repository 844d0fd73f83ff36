// Package query answers PromQL over the history of this host, as Prometheus does over HTTP, for dashboards and scripts.
// Language and evaluation are Prometheus' own; this package has the series, the HTTP API and the limits.
//
// A measure of the history is a metric. It has the same name as at /metrics, if it is there. The workload is a label.
// Differences of the history become counters again, which begin with the first sample that a query reads. The results
// of rate and increase do not depend on that beginning. Where a workload or the agent was away, its series ends, like
// the series of a target that is gone.
//
// No query may cost the host more than a little. The text and the time of a query are limited, its samples are counted
// before they are read, and only a few queries run at a time. A long range is read in coarser steps, as long as its
// windows still have some samples; beyond that it is refused. The engine checks the clock only between series, so
// bound.go counts the steps of a query first.
//
// Files: server.go is the API, form.go its parameters, bound.go the cost limits, store.go the history as series,
// curve.go one series, metric.go the list of metrics.
package query
