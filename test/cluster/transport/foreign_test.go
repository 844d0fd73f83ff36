package transport

import (
	"context"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/berth-project/berth/internal/node/nri"
)

// rival is another plugin that sets CPUs, built with the usual NRI stub.
type rival struct {
	only string // the name of the container whose CPUs it sets
	cpus string
}

func (r *rival) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

func (r *rival) CreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if c.GetName() != r.only {
		return nil, nil, nil
	}
	var adjust api.ContainerAdjustment
	adjust.SetLinuxCPUSetCPUs(r.cpus)
	return &adjust, nil, nil
}

// rival connects another plugin.
func (n *node) rival(index string, r *rival) {
	t := n.t
	t.Helper()
	s, err := stub.New(r, stub.WithSocketPath(n.nri()), stub.WithPluginName("rival"), stub.WithPluginIdx(index))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
}

// TestRival connects another plugin that sets CPUs of a container that Berth ignores and of a container that Berth
// pins. The runtime asks it before Berth or after.
func TestRival(t *testing.T) {
	for _, c := range []struct{ name, index string }{{"asked first", "10"}, {"asked last", "95"}} {
		t.Run(c.name, func(t *testing.T) {
			n := start(t)
			a := n.agent()
			a.says(pin(t))
			p := n.pod("web")
			before := p.start("before")
			if e, ok := a.last(nri.Foreign); ok {
				t.Fatalf("another plugin while there is none: %+v", e)
			}
			r := &rival{only: "theirs", cpus: "0"}
			n.rival(c.index, r)
			var theirs started
			eventually(t, "the other plugin to be asked", func() bool {
				theirs = p.start("theirs")
				return theirs.cpus == "0"
			})
			e, ok := a.last(nri.Foreign)
			if !ok || e.Owner != c.index+"-rival" || e.Container.ID != theirs.id || e.Pod.UID != p.uid || e.Requested.CPUs != set(t, "0") {
				t.Errorf("reported of the other plugin: %v %+v", ok, e)
			}
			if all, _ := online(t); before.cpus != all {
				t.Errorf("before: %s", before.cpus)
			}

			r.only = "pinned"
			id, err := p.create("pinned")
			if err == nil {
				t.Fatalf("both set CPUs of %s", id)
			}
			refused, ok := a.last(nri.Create)
			if !ok || refused.Container.Name != "pinned" {
				t.Fatalf("never asked: %+v", refused)
			}
			wantCPUs := ""
			if c.index < nri.DefaultIndex {
				wantCPUs = "0" // the agent sees the other plugin's CPUs, and could leave them alone
			}
			if got := refused.Container.Resources.CPUs.String(); got != wantCPUs {
				t.Errorf("asked with CPUs %q, want %q", got, wantCPUs)
			}
			kinds := a.kinds(refused.Container.ID)
			if len(kinds) != 3 || kinds[1] != nri.Stop || kinds[2] != nri.Remove {
				t.Errorf("a creation that failed: %v", kinds)
			}
			if s := a.plugin.Status(); s.State != nri.Connected || s.Connections != 1 {
				t.Errorf("status %+v", s)
			}
			t.Logf("the runtime says: %s", strings.TrimSpace(err.Error()))
		})
	}
}
