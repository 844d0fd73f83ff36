package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An authority is a file by its whole path, since the agent's own directory says nothing
// of where a cluster keeps it.
func TestKubeletCA(t *testing.T) {
	for value, want := range map[string]string{
		"":                           "",
		"/etc/kubernetes/pki/ca.crt": "",
		"ca.crt": `field cluster.kubeletCA: value "ca.crt": ` +
			`allowed: the absolute path of a file with PEM certificates, for example /etc/kubernetes/pki/ca.crt`,
	} {
		c, problems := DecodeAgentConfig([]byte(`{"cluster":{"enabled":true,"kubeletCA":"` + value + `"}}`))
		got := ""
		for _, p := range append(problems, ValidateAgentConfig(c)...) {
			if p.Field == "cluster.kubeletCA" {
				got = p.Error()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || c.Cluster.KubeletCA != value {
			t.Errorf("%q: %q (-want +got):\n%s", value, c.Cluster.KubeletCA, diff)
		}
	}
}
