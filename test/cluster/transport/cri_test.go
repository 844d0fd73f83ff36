package transport

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/node/cri"
)

// TestList lists containers over CRI that were created over CRI, and compares them with the kernel.
func TestList(t *testing.T) {
	n := start(t)
	client, err := cri.Open("unix://"+n.path("containerd.sock"), n.host)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if r, err := client.Runtime(t.Context()); err != nil || r.Name != "containerd" || r.Version == "" {
		t.Errorf("runtime %+v, %v", r, err)
	}
	p := n.pod("web")
	running := p.start("running")
	created, err := p.create("created")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second list must not query known containers again
		list, err := client.List(t.Context())
		if err != nil || len(list.Problems) > 0 {
			t.Fatalf("%v, %v", err, list.Problems)
		}
		if len(list.Pods) != 1 || len(list.Containers) != 2 {
			t.Fatalf("%d pods, %d containers", len(list.Pods), len(list.Containers))
		}
		checkPod(t, n, p, list.Pods[0])
		path, _ := n.host.PathOf(running.pid)
		for _, c := range list.Containers {
			if c.PodID != p.id || c.PodUID != p.uid || c.PodName != "web" || c.Namespace != "test" {
				t.Errorf("pod of %+v", c)
			}
			switch c.Name {
			case "running":
				if c.ID != running.id || c.State != cri.Running || c.PID != running.pid || c.CgroupPath != path {
					t.Errorf("%+v; process %d, group %q", c, running.pid, path)
				}
			case "created":
				if c.ID != created || c.State != cri.Created || c.PID != 0 || c.CgroupPath != "" {
					t.Errorf("%+v", c)
				}
			default:
				t.Errorf("%+v", c)
			}
		}
	}
}

func checkPod(t *testing.T, n *node, p *pod, got cri.Pod) {
	t.Helper()
	path, err := n.host.PathOf(got.PID)
	if err != nil || got.CgroupPath != path {
		t.Errorf("sandbox: process %d, group %q; it is %q, %v", got.PID, got.CgroupPath, path, err)
	}
	if got.ID != p.id || got.UID != p.uid || got.Name != "web" || got.Namespace != "test" || !got.Ready || got.Annotations["berth.test/name"] != "web" {
		t.Errorf("pod %+v", got)
	}
}

// TestFollow follows the creation and removal of containers through the runtime's events, also after a restart.
func TestFollow(t *testing.T) {
	n := start(t)
	client, err := cri.Open(n.path("containerd.sock"), n.host)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var mu sync.Mutex
	var now []string
	var away error
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- client.Follow(ctx, time.Hour, func(l cri.Listing, err error) {
			mu.Lock()
			defer mu.Unlock()
			now, away = nil, err
			for _, c := range l.Containers {
				if c.State == cri.Running {
					now = append(now, c.ID)
				}
			}
		})
	}()
	runs := func(id string) bool {
		mu.Lock()
		defer mu.Unlock()
		return away == nil && slices.Contains(now, id)
	}
	p := n.pod("web")
	first := p.start("first")
	eventually(t, "the first container to be seen", func() bool { return runs(first.id) })
	n.kill()
	n.run()
	second := p.start("second")
	eventually(t, "the second container to be seen", func() bool { return runs(first.id) && runs(second.id) })
	if err := n.drop(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the containers to be gone", func() bool { return !runs(first.id) && !runs(second.id) })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
