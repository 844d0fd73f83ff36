// Package chart renders deploy/chart with Helm's own libraries and holds it to the manifests below
// deploy/, to the types that an API server has, to its schema and to its page. No cluster is asked:
// what an API server makes of the manifests, test/cluster says. It has tests only.
package chart
