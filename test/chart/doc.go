// Package chart renders deploy/chart with Helm's own libraries. It compares the result with the manifests below
// deploy/, the API server's types, the chart's schema and its documentation page. The tests use no cluster:
// test/cluster checks how an API server handles the manifests. The package has tests only.
package chart
