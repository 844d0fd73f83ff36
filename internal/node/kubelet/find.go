package kubelet

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"github.com/berth-project/berth/api/v1alpha1"
)

// usualPort is the kubelet's default port.
const usualPort = "10250"

// Find returns a Client of the kubelet of this host, and sends no request. hostIP is an address at which the kubelet
// listens, empty for the loopback address. Find needs a token, for example of a service account, and the kubelet's own
// certificate on this host's disk, or the authority that signed it. The errors are ErrOptions, or a malformed URL.
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

// serverNames returns the names of which a signed certificate must have at least one. The loopback address is not among
// them, because every node has it.
func serverNames(node, hostIP string) []string {
	names := []string{node}
	if hostIP != "" {
		names = append(names, hostIP)
	}
	return names
}

// ownCertificates returns the files of the kubelet's serving certificate: the certificate that the cluster's authority
// signed, which may appear at any time, and the self-signed one.
func ownCertificates(dir string) []string {
	return []string{filepath.Join(dir, "pki", "kubelet-server-current.pem"), filepath.Join(dir, "pki", "kubelet.crt")}
}
