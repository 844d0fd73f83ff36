package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apiclient"
)

// What the manifests call the agents, and the account that may look.
const (
	namespace = v1alpha1.DefaultLeaseNamespace
	agents    = "app.kubernetes.io/name=berth-agent"
	account   = "berth-viewer"
	// name is what the agent is called: at the other end it is a program of this host.
	name = "localhost"
)

// tokenFor is how long a token is good, and renewBefore how long before its end it is replaced.
const (
	tokenFor    = time.Hour
	renewBefore = 10 * time.Minute
)

// ErrNoAgent says that no agent runs on a node.
var ErrNoAgent = errors.New("no agent of Berth runs there: allowed: a node that kubectl berth status shows with an agent")

// access is what a user's rights open: ways to agents, and a token for them.
type access struct {
	client *apiclient.Core
	dialer dialer

	mu    sync.Mutex
	token string
	ends  time.Time
}

// newAccess has the rights of a configuration, which is not changed.
func newAccess(cfg *rest.Config) (*access, error) {
	client, err := apiclient.NewCore(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	d, err := newDialer(cfg)
	if err != nil {
		return nil, err
	}
	return &access{client: client, dialer: d}, nil
}

// dial opens a connection to the agent that runs on a node now: an agent that is replaced
// while its page is open is another pod.
func (a *access) dial(ctx context.Context, node string) (net.Conn, error) {
	pods, err := a.client.Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: agents, FieldSelector: "spec.nodeName=" + node + ",status.phase=Running",
	})
	if err != nil {
		return nil, fmt.Errorf("find the agent: %w", err)
	}
	for i := range pods.Items {
		if agent := &pods.Items[i]; agent.DeletionTimestamp == nil {
			return a.dialer.dial(agent.Name, portOf(agent))
		}
	}
	return nil, ErrNoAgent
}

// portOf is where an agent listens: its readiness is asked for there.
func portOf(agent *v1.Pod) string {
	_, port, _ := net.SplitHostPort(v1alpha1.DefaultListen) // a constant
	for i := range agent.Spec.Containers {
		if probe := agent.Spec.Containers[i].ReadinessProbe; probe != nil && probe.HTTPGet != nil {
			return probe.HTTPGet.Port.String()
		}
	}
	return port
}

// bearer is a token that is good for a while.
func (a *access) bearer(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Until(a.ends) > renewBefore {
		return a.token, nil
	}
	seconds := int64(tokenFor.Seconds())
	answer, err := a.client.Token(ctx, namespace, account, &authentication.TokenRequest{
		Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds},
	})
	if err != nil {
		return "", fmt.Errorf("token of the account %s/%s: %w", namespace, account, err)
	}
	a.token, a.ends = answer.Status.Token, cmp.Or(answer.Status.ExpirationTimestamp.Time, time.Now().Add(tokenFor))
	return a.token, nil
}
