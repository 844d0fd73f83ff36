package controlplane

import (
	"context"
	"fmt"
	"os"

	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is how long a service account's token is valid.
const tokenSeconds = 24 * 3600

// As returns a client configuration of a user in the given groups and in system:authenticated. The user has only the
// rights that RBAC objects grant.
func (c *ControlPlane) As(user string, groups ...string) (*rest.Config, error) {
	p, err := c.authority.client(user, groups)
	if err != nil {
		return nil, err
	}
	config := c.base()
	config.CertData, config.KeyData = p.cert, p.key
	return config, nil
}

// AsServiceAccount returns a client configuration with a token of an existing service account.
func (c *ControlPlane) AsServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("token of %s/%s: %w", namespace, name, err)
	}
	seconds := int64(tokenSeconds)
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, meta.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of %s/%s: %w", namespace, name, err)
	}
	config := c.base()
	config.BearerToken = answer.Status.Token
	return config, nil
}

// Authority returns the authority that signs the certificates of the cluster's users and servers.
func (c *ControlPlane) Authority() *Authority { return c.authority }

// Keys returns the files of the authority's certificate and of the key that signs service account tokens. A controller
// manager needs both.
func (c *ControlPlane) Keys() (authority, accounts string) {
	return c.pki("ca.crt"), c.pki("accounts.key")
}

// base returns a configuration without credentials.
func (c *ControlPlane) base() *rest.Config {
	return &rest.Config{
		Host:            "https://" + c.address(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem},
		QPS:             rate,
		Burst:           rate,
	}
}

// WriteKubeconfig writes a configuration of As, AsServiceAccount or Config, with its credentials, as a kubeconfig file
// for a program.
func WriteKubeconfig(config *rest.Config, path string) error {
	text, err := EncodeKubeconfig(config)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// EncodeKubeconfig returns the content of the file that WriteKubeconfig writes.
func EncodeKubeconfig(config *rest.Config) ([]byte, error) {
	const name = "berth"
	file := api.NewConfig()
	file.Clusters[name] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &api.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	file.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return clientcmd.Write(*file) // The caller names the file.
}

// unversioned prepares a configuration for paths outside the API groups, such as /readyz.
func unversioned(config *rest.Config) *rest.Config {
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	return config
}
