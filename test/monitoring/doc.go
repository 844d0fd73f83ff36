// Package monitoring compares the dashboards and alert rules of deploy/monitoring with the metrics that the programs
// export. It parses each query as Prometheus does, and compares metrics and labels with the reference pages, which
// test/docs and the scheduler's tests compare with the code. It is a separate module, so that no part of Prometheus'
// server gets into the programs. Program queries prints the queries for test/cluster/node, where a Prometheus answers
// them.
package monitoring
