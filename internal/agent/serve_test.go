package agent

import "testing"

// An agent of a cluster asks for tokens at its address; without Kubernetes there is no API
// server that reviews one.
func TestTokensInClusterOnly(t *testing.T) {
	if (*connections)(nil).review() != nil {
		t.Error("a host without Kubernetes wants tokens")
	}
	if (&connections{}).review() == nil {
		t.Error("an agent of a cluster shows workloads to all who reach its address")
	}
}
