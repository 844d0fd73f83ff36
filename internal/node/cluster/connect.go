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

	"github.com/berth-project/berth/internal/node/apiclient"
)

// Connect returns how to reach the API server: by the file kubeconfig or, if that is empty, by the service account of
// the pod. agent is the program's name and version, for the API server's log. Connect sends no request. Errors are
// ErrNoCluster and unreadable files.
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

// NodeName returns the name of the Node object: the given name, else the node of config's token, else the host name in
// lower case. The kubelet uses the host name unless it is configured otherwise.
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

// NodeOfToken returns the name of the node that the token of config is bound to. The admission policy lets this agent
// write for that node only. The name is empty if there is no bound token, as with a kubeconfig. The API server, not
// this function, verifies the token.
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

// claims are the claims of a service account's token.
type claims struct {
	// Expires is in seconds since 1970, 0 for never.
	Expires    float64 `json:"exp"`
	Kubernetes struct {
		Node struct{ Name string } `json:"node"`
	} `json:"kubernetes.io"`
}

// claimsOf returns the claims of a token, none for another kind of token.
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

// The rate of requests, per second. Watches, the Lease and reviews do not wait behind writes.
const (
	writesPerSecond = 10
	writesAtOnce    = 30
)

// clients are connections to the API server with a shared transport.
type clients struct {
	reads, notes *apiclient.Core
	events       *apiclient.Events
	leases       leaseClient
	reviews      reviewer
	topologies   *apiclient.Topologies
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
	c.topologies, failed[6] = apiclient.NewTopologies(config)
	if err := errors.Join(failed[:]...); err != nil {
		return clients{}, err
	}
	return c, nil
}
