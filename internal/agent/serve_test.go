package agent

import "testing"

// An agent in a cluster requires tokens at its address. Without Kubernetes no API server can review a token.
func TestTokensInClusterOnly(t *testing.T) {
	if (*connections)(nil).review() != nil {
		t.Error("a host without Kubernetes wants tokens")
	}
	if (&connections{}).review() == nil {
		t.Error("an agent of a cluster shows workloads to all who reach its address")
	}
}
