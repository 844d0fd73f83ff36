package cluster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-project/berth/internal/apiclient"
)

// Connect returns how to reach the API server: as the file kubeconfig says, or
// with an empty name as a pod does, by its service account. agent is the name of
// the program and its version, for the API server's log. It sends no request. Errors
// are ErrNoCluster, and files that cannot be read.
func Connect(kubeconfig, agent string) (*rest.Config, error) {
	config, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = agent
	return config, nil
}

func connect(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("%w: %w", ErrNoCluster, err)
	}
	if err != nil {
		return nil, fmt.Errorf("service account of the pod: %w", err)
	}
	return config, nil
}

// NodeName returns the name of the Node object: the given one, or that of config's token, or
// what the kubelet calls its Node unless it is configured otherwise, the name of the host.
func NodeName(given string, config *rest.Config) (string, error) {
	if given != "" {
		return given, nil
	}
	if node, err := NodeOfToken(config); err != nil || node != "" {
		return node, err
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the host: %w", err)
	}
	return strings.ToLower(host), nil
}

// NodeOfToken returns the name of the node that the token of config is bound to,
// which is the one that the admission policy lets this agent write for. It is
// empty where there is no such token, as with a kubeconfig. The token is not
// checked: that is the API server's business.
func NodeOfToken(config *rest.Config) (string, error) {
	token := config.BearerToken
	if config.BearerTokenFile != "" {
		text, err := os.ReadFile(config.BearerTokenFile)
		if err != nil {
			return "", fmt.Errorf("token of the service account: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", nil // no token, or one that says nothing
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Kubernetes struct {
			Node struct{ Name string } `json:"node"`
		} `json:"kubernetes.io"`
	}
	if err == nil {
		err = json.Unmarshal(body, &claims)
	}
	if err != nil {
		return "", fmt.Errorf("claims of the token: %w", err)
	}
	return claims.Kubernetes.Node.Name, nil
}

// Requests a second. Watches and the Lease do not wait behind writes.
const (
	writesPerSecond = 10
	writesAtOnce    = 30
)

// clients are connections to the API server, which share their transport.
type clients struct {
	reads, writes, leases kubernetes.Interface
	topologies            rest.Interface
}

func connections(config *rest.Config) (clients, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.QPS, config.Burst = writesPerSecond, writesAtOnce
	var c clients
	for _, client := range []*kubernetes.Interface{&c.reads, &c.writes, &c.leases} {
		made, err := kubernetes.NewForConfig(config)
		if err != nil {
			return clients{}, fmt.Errorf("client of the API server: %w", err)
		}
		*client = made
	}
	var err error
	if c.topologies, err = apiclient.New(config); err != nil {
		return clients{}, err
	}
	return c, nil
}
