package cluster

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cli/restoration"
)

// uninstalls makes a node report that everything is restored, and reads that report with the rights of the uninstall.
// It also checks that these rights permit nothing else.
func (s *stand) uninstalls(t *testing.T) {
	ctx := t.Context()
	config := s.tokenOf(t, "berth-uninstall", nil)
	asked := func(timeout time.Duration) (live, down restoration.State, err error) {
		nodes, err := restoration.Run(ctx, restoration.Options{Config: config, Timeout: timeout, Now: time.Now})
		states := map[string]restoration.State{}
		for _, n := range nodes {
			states[n.Name] = n.State
		}
		return states["live"], states["down"], err
	}
	s.putTopology(t, topologyObject("live", recorded(t, "two-socket-ht")))
	s.putTopology(t, topologyObject("down", recorded(t, "two-socket-ht")))
	_, err := s.client.CoordinationV1().Leases(leaseNamespace).Create(ctx, leaseObject("live"), metav1.CreateOptions{})
	must(t, err)
	if live, down, err := asked(5 * time.Second); !errors.Is(err, restoration.ErrNotRestored) || live != restoration.Waiting || down != restoration.Absent {
		t.Errorf("before the agent answers: %s, %s, %v", live, down, err)
	}
	found, err := s.client.CoreV1().ConfigMaps("berth-system").Get(ctx, "berth-config", metav1.GetOptions{})
	must(t, err)
	if found.Data["state"] != "restore" {
		t.Errorf("berth-config says %v", found.Data)
	}
	var status v1alpha1.NodeTopologyStatus
	status.SetCondition(v1alpha1.ConditionPinnable, false, v1alpha1.PinnableRestored, "m")
	status.Conditions[0].LastTransitionTime = metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": status.Conditions}})
	must(t, err)
	_, err = s.dynamic.Resource(nodeTopologies()).Patch(ctx, "live", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	must(t, err)
	if live, down, err := asked(time.Minute); err != nil || live != restoration.Restored || down != restoration.Absent {
		t.Errorf("after the agent answered: %s, %s, %v", live, down, err)
	}
	client, _ := clients(t, config)
	for what, try := range map[string]func() error{
		"read the agent's file": func() error {
			_, err := client.CoreV1().ConfigMaps("berth-system").Get(ctx, "berth-agent", metav1.GetOptions{})
			return err
		},
		"list ConfigMaps": func() error {
			_, err := client.CoreV1().ConfigMaps("berth-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"write a ConfigMap of its name elsewhere": func() error {
			_, err := client.CoreV1().ConfigMaps("default").Patch(ctx, "berth-config", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		},
		"delete the configuration": func() error {
			return client.CoreV1().ConfigMaps("berth-system").Delete(ctx, "berth-config", metav1.DeleteOptions{})
		},
		"take a Lease": func() error {
			_, err := client.CoordinationV1().Leases(leaseNamespace).Update(ctx, leaseObject("live"), metav1.UpdateOptions{})
			return err
		},
		"see pods": func() error {
			_, err := client.CoreV1().Pods("berth-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"see Secrets": func() error {
			_, err := client.CoreV1().Secrets("berth-system").List(ctx, metav1.ListOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
}
