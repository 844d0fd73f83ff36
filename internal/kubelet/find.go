package kubelet

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"github.com/berth-project/berth/api/v1alpha1"
)

// usualPort is where a kubelet serves unless it is configured otherwise.
const usualPort = "10250"

// Find returns a Client of the kubelet of this host, which has not asked anything yet.
// hostIP is an address at which the kubelet listens, empty for the loopback address. It
// needs a token, as a service account has, and the kubelet's own certificate on this
// host's disk, or the authority that signed it. The error is ErrOptions, or a URL that
// cannot be read.
func Find(c v1alpha1.ClusterConfig, node, hostIP, tokenFile string) (*Client, error) {
	address := net.JoinHostPort(cmp.Or(hostIP, "127.0.0.1"), usualPort)
	if c.KubeletURL != "" {
		u, err := url.Parse(c.KubeletURL)
		if err != nil {
			return nil, fmt.Errorf("cluster.kubeletURL: %w", err)
		}
		address = u.Host
	}
	options := Options{Address: address, TokenFile: tokenFile}
	if c.KubeletCA != "" {
		options.CAFile, options.ServerNames = c.KubeletCA, serverNames(node, hostIP)
	} else {
		options.CertFiles = ownCertificates(c.KubeletDir)
	}
	client, err := New(options)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return client, nil
}

// serverNames are those of which a signed certificate has to be for one: the loopback
// address is every node's.
func serverNames(node, hostIP string) []string {
	names := []string{node}
	if hostIP != "" {
		names = append(names, hostIP)
	}
	return names
}

// ownCertificates are the files of the kubelet's serving certificate: the one that
// the cluster's authority signed, which may come at any time, and the one the kubelet
// made itself.
func ownCertificates(dir string) []string {
	return []string{filepath.Join(dir, "pki", "kubelet-server-current.pem"), filepath.Join(dir, "pki", "kubelet.crt")}
}
