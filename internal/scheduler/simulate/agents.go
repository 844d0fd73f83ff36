package simulate

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// Agents is what the Leases of Berth's agents show in a live cluster. The zero value means that no Lease was read:
// every agent is then assumed alive.
type Agents struct {
	// At is when the Leases were read, by the clock of this host.
	At time.Time
	// Renewed is when each agent last renewed its Lease, by node.
	Renewed map[string]time.Time
	// Unknown is why the Leases could not be read, empty if they were.
	Unknown string
}

// known reports whether the Leases were read.
func (a *Agents) known() bool { return !a.At.IsZero() && a.Unknown == "" }

// silent returns why the agent of a node is not considered alive, "" if it is, or if that is unknown.
func (a *Agents) silent(node string) string {
	renewed, found := a.Renewed[node]
	if !a.known() {
		return ""
	}
	if !found {
		return fmt.Sprintf("no Lease %s/%s: does Berth's agent run there?", v1alpha1.DefaultLeaseNamespace, node)
	}
	if age, silent := apiclient.LeaseAge(renewed, a.At); silent {
		return fmt.Sprintf("the Lease %s/%s was renewed %v ago, which may be %v: does Berth's agent run there?",
			v1alpha1.DefaultLeaseNamespace, node, age.Round(time.Second), apiclient.LeaseAllowed)
	}
	return ""
}

// listAgents reads the Leases in the scheduler's default namespace. Without permission it sets Unknown and returns no
// error.
func listAgents(ctx context.Context, cfg *rest.Config) (Agents, error) {
	client, err := apiclient.NewLeases(cfg, v1alpha1.DefaultLeaseNamespace)
	if err != nil {
		return Agents{}, err
	}
	list, err := client.List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
		return Agents{At: time.Now(), Unknown: err.Error()}, nil
	}
	if err != nil {
		return Agents{}, err
	}
	return AgentsOf(time.Now(), list.Items), nil
}

// AgentsOf returns what the Leases show about the agents. The caller read the Leases at the time at.
func AgentsOf(at time.Time, leases []coordinationv1.Lease) Agents {
	a := Agents{At: at, Renewed: map[string]time.Time{}}
	for i := range leases {
		if renewed := leases[i].Spec.RenewTime; renewed != nil {
			a.Renewed[leases[i].Name] = renewed.Time
		}
	}
	return a
}
