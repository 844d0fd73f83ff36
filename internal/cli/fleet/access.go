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
	"github.com/berth-project/berth/internal/node/apiclient"
)

// The names of the agents, and of the account for viewers, in the manifests.
const (
	namespace = v1alpha1.DefaultLeaseNamespace
	agents    = "app.kubernetes.io/name=berth-agent"
	account   = "berth-viewer"
	// name is the host in requests to the agent: a port-forward reaches it as a program of its own host.
	name = "localhost"
)

// A token is valid for tokenFor, and is replaced renewBefore before its end.
const (
	tokenFor    = time.Hour
	renewBefore = 10 * time.Minute
)

// ErrNoAgent means that no agent runs on a node; the message says which pods of agents the node has.
var ErrNoAgent = errors.New("no agent of Berth runs there")

// access contains what a user's rights allow: connections to agents, and a token for them.
type access struct {
	client *apiclient.Core
	dialer dialer

	mu    sync.Mutex
	token string
	ends  time.Time
}

// newAccess returns the access of a configuration, which it does not change.
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

// dial opens a connection to the agent that now runs on a node. An agent that was replaced while its page is open is
// another pod. Dial calls at with each step that begins, and in the end with the step that follows. Its context ends
// after answerLimit.
func (a *access) dial(ctx context.Context, node string, at func(step string)) (net.Conn, error) {
	ctx, end := context.WithTimeout(ctx, answerLimit)
	defer end()
	at("find the agent")
	pods, err := a.client.Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: agents, FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		return nil, fmt.Errorf("find the agent: %w", err)
	}
	for i := range pods.Items {
		agent := &pods.Items[i]
		if agent.DeletionTimestamp != nil || agent.Status.Phase != v1.PodRunning {
			continue
		}
		to := target{pod: agent.Name, port: portOf(agent), lacks: lacks(agent)}
		at("port-forward to " + to.String())
		conn, err := a.dialer.dial(ctx, to)
		if err == nil {
			at("answer of the agent")
		}
		return conn, err
	}
	return nil, noAgent(node, pods.Items)
}

// portOf returns the port of an agent, from its readiness probe.
func portOf(agent *v1.Pod) string {
	_, port, _ := net.SplitHostPort(v1alpha1.DefaultListen) // a constant
	for i := range agent.Spec.Containers {
		if probe := agent.Spec.Containers[i].ReadinessProbe; probe != nil && probe.HTTPGet != nil {
			return probe.HTTPGet.Port.String()
		}
	}
	return port
}

// bearer returns a token that remains valid for a while.
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
