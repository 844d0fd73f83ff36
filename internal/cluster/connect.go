package cluster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

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
	said, err := claimsOf(token)
	if err != nil {
		return "", err
	}
	return said.Kubernetes.Node.Name, nil
}

// claims are what a token of a service account says of itself.
type claims struct {
	// Expires is in seconds since 1970, 0 for never.
	Expires    float64 `json:"exp"`
	Kubernetes struct {
		Node struct{ Name string } `json:"node"`
	} `json:"kubernetes.io"`
}

// claimsOf returns what a token says of itself, nothing where it is of another kind.
func claimsOf(token string) (said claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return said, nil
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	if err != nil {
		return said, fmt.Errorf("claims of the token: %w", err)
	}
	return said, nil
}

// Requests a second. Watches, the Lease and reviews do not wait behind writes.
const (
	writesPerSecond = 10
	writesAtOnce    = 30
)

// clients are connections to the API server, which share their transport.
type clients struct {
	reads, notes *apiclient.Core
	events       *apiclient.Events
	leases       leaseClient
	reviews      reviewer
	topologies   rest.Interface
}

func connections(config *rest.Config, leaseNamespace string) (clients, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = writesPerSecond, writesAtOnce
	writes := rest.CopyConfig(config)
	writes.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(writesPerSecond, writesAtOnce) // one for both kinds
	var c clients
	var failed [7]error
	c.reads, failed[0] = apiclient.NewCore(config)
	c.notes, failed[1] = apiclient.NewCore(writes)
	c.events, failed[2] = apiclient.NewEvents(writes)
	c.leases, failed[3] = apiclient.NewLeases(config, leaseNamespace)
	c.reviews.tokens, failed[4] = apiclient.NewTokenReviews(config)
	c.reviews.accesses, failed[5] = apiclient.NewAccessReviews(config)
	c.topologies, failed[6] = apiclient.New(config)
	if err := errors.Join(failed[:]...); err != nil {
		return clients{}, err
	}
	return c, nil
}
