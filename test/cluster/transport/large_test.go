package transport

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/nri"
)

// paths resolves groups without a host.
type paths struct{}

func (paths) RuntimeGroup(cgroupsPath string, _ int) (string, error) {
	return cgroup.RuntimePath(cgroupsPath)
}

// TestLargeNode synchronizes a plugin with the runtime's side of NRI for a node whose state does not fit into one
// message.
func TestLargeNode(t *testing.T) {
	const pods, perPod = 250, 4
	var state []*api.PodSandbox
	var containers []*api.Container
	for i := range pods {
		id := fmt.Sprintf("pod-%d", i)
		state = append(state, &api.PodSandbox{Id: id, Name: id, Uid: id, Annotations: map[string]string{"a": strings.Repeat("x", 8<<10)}})
		for j := range perPod {
			containers = append(containers, &api.Container{
				Id: fmt.Sprintf("%s-%d", id, j), PodSandboxId: id, Name: fmt.Sprint(j), Env: []string{"E=" + strings.Repeat("y", 12<<10)},
				Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/" + id + "/" + fmt.Sprint(j)},
			})
		}
	}
	updated := make(chan []*api.ContainerUpdate, 2)
	socket := t.TempDir() + "/nri.sock"
	runtime, err := adaptation.New("test", "v1.0.0", func(ctx context.Context, sync adaptation.SyncCB) error {
		updates, err := sync(ctx, state, containers)
		if err != nil {
			t.Errorf("synchronize: %v", err)
		}
		updated <- updates
		return err
	}, func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		t.Error("a change that no call asked for")
		return nil, nil
	}, adaptation.WithSocketPath(socket), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.Start(); err != nil {
		t.Fatal(err)
	}
	defer runtime.Stop()

	n := &node{t: t}
	a := &agent{}
	a.says(func(_ context.Context, e nri.Event) (nri.Reply, error) {
		return nri.Reply{Updates: []nri.Change{{ContainerID: e.Containers[len(e.Containers)-1].ID, Settings: nri.Settings{CPUs: set(t, "3")}}}}, nil
	})
	n.connect(a, nri.Options{Socket: socket, Handler: a, Groups: paths{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	e, _ := a.last(nri.Synchronize)
	if len(e.Pods) != pods || len(e.Containers) != pods*perPod {
		t.Fatalf("received %d pods, %d containers", len(e.Pods), len(e.Containers))
	}
	for i, c := range e.Containers {
		if c.ID != containers[i].GetId() || c.CgroupPath != "kubepods/"+c.PodID+"/"+c.Name {
			t.Fatalf("container %d: %+v", i, c)
		}
	}
	<-updated // of the plugins that the runtime starts itself: there are none
	if updates := <-updated; len(updates) != 1 || updates[0].GetContainerId() != "pod-249-3" || updates[0].GetLinux().GetResources().GetCpu().GetCpus() != "3" {
		t.Errorf("updates %v", updates)
	}
	t.Logf("answered within %v", slices.Max(a.waited()))
}
