// Package monitoring holds the dashboards and alert rules of deploy/monitoring to
// the metrics that the programs export: it parses each query as Prometheus does, and
// compares metrics and labels with the reference pages, which test/docs and the tests
// of the scheduler hold to the code. It is a module of its own, so that nothing of
// Prometheus' server gets into the programs. It has tests only.
package monitoring
