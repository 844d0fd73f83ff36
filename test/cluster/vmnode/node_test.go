package vmnode_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster/vmnode"
)

// TestNode boots one machine, which everything is asked of in turn.
func TestNode(t *testing.T) {
	s := newStand(t)
	t.Run("topology", s.testTopology)
	t.Run("pod", s.testPod)
	t.Run("masks", s.testMasks)
	t.Run("commands", s.testCommands)
	t.Run("CPU offline", s.testOffline)
	t.Run("another process", s.testOpen)
	t.Run("power cut", s.testCut)
	t.Run("shutdown", s.testShutdown)
}

// testTopology wants the machine that QEMU was told to be, in Berth's own words.
func (s *stand) testTopology(t *testing.T) {
	got := s.sh(t, "berth topology")
	head, _, _ := strings.Cut(got, "\n")
	for _, want := range []string{"16 CPUs", "8 cores", "2 threads a core", "2 sockets", "2 NUMA nodes"} {
		if !strings.Contains(head, want) {
			t.Errorf("no %q in %q", want, head)
		}
	}
	if got := s.sh(t, "cat /sys/devices/system/node/node*/distance"); got != "10 21\n21 10" {
		t.Errorf("distances %q", got)
	}
	if got := s.sh(t, "stat -fc %T /sys/fs/cgroup"); got != "cgroup2fs" {
		t.Errorf("/sys/fs/cgroup is %s, want cgroup v2", got)
	}
}

// testPod wants a limited pod where the systemd driver puts it, with the right quota, and
// throttled in fact.
func (s *stand) testPod(t *testing.T) {
	pod := s.pod(t, "burn-limited", "500m", "spin")
	// It takes half of an emulated processor from all that comes after.
	now := int64(0)
	defer func() {
		check(t, s.client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}()
	uid := strings.ReplaceAll(string(pod.UID), "-", "_")
	slice := "/sys/fs/cgroup/kubepods.slice/kubepods-pod" + uid + ".slice"
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	scope := slice + "/cri-containerd-" + id + ".scope"
	for _, group := range []string{slice, scope} {
		if got := s.sh(t, "cat "+group+"/cpu.max"); got != "50000 100000" {
			t.Errorf("%s/cpu.max = %q, want half a CPU", group, got)
		}
	}
	deadline := time.Now().Add(time.Minute)
	for s.stat(t, scope, "nr_throttled") == 0 {
		if time.Now().After(deadline) {
			t.Fatalf("never throttled:\n%s", s.sh(t, "cat "+scope+"/cpu.stat"))
		}
		time.Sleep(time.Second)
	}
	if !strings.HasPrefix(pod.Status.PodIP, "198.18.129.") {
		t.Errorf("address of the pod is %s, want one of 198.18.129.0/24", pod.Status.PodIP)
	}
}

// stat reads one number of cpu.stat.
func (s *stand) stat(t *testing.T, group, field string) int {
	t.Helper()
	n, err := strconv.Atoi(s.sh(t, "awk '$1 == \""+field+"\" {print $2}' "+group+"/cpu.stat"))
	check(t, err)
	return n
}

// testMasks reads a container's log from the kubelet at the node's address.
func (s *stand) testMasks(t *testing.T) {
	s.pod(t, "mask", "1")
	deadline := time.Now().Add(time.Minute)
	for {
		got := s.kubelet(t, "/containerLogs/default/mask/main")
		if strings.Contains(got, "Cpus_allowed_list:\t0-15\n") && strings.Contains(got, "Mems_allowed_list:\t0-1\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("log of the container: %q", got)
		}
		time.Sleep(time.Second)
	}
}

// testCommands is about commands that fail, are given up, and come in numbers.
func (s *stand) testCommands(t *testing.T) {
	if _, err := s.node.Run(t.Context(), "echo no >&2; exit 7"); !errors.Is(err, vmnode.ErrCommand) || !strings.Contains(err.Error(), "7") || !strings.Contains(err.Error(), ": no") {
		t.Errorf("a failing script: %v", err)
	}
	if _, err := s.node.Exec(t.Context(), vmnode.Command{Argv: []string{"nothing-like-it"}}); !errors.Is(err, vmnode.ErrCommand) {
		t.Errorf("no such program: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := s.node.Run(short, "sleep 54321"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a script that was given up: %v", err)
	}
	deadline := time.Now().Add(time.Minute)
	for s.sh(t, "pgrep -cx -f 'sleep 54321' || true") != "0" {
		if time.Now().After(deadline) {
			t.Fatal("a script goes on after it was given up")
		}
		time.Sleep(time.Second)
	}
	large := strings.Repeat("0123456789abcdef", 1<<16)
	got, err := s.node.Exec(t.Context(), vmnode.Command{Argv: []string{"cat"}, Stdin: []byte(large)})
	if err != nil || string(got.Stdout) != large {
		t.Errorf("1 MiB comes back as %d bytes, %v", len(got.Stdout), err)
	}
}

func (s *stand) testOffline(t *testing.T) {
	const online = "/sys/devices/system/cpu/cpu15/online"
	s.sh(t, "echo 0 > "+online)
	if got := s.sh(t, "cat /sys/devices/system/cpu/online"); got != "0-14" {
		t.Errorf("online CPUs %s, want 0-14", got)
	}
	s.sh(t, "echo 1 > "+online)
	if got := s.sh(t, "cat /sys/devices/system/cpu/online"); got != "0-15" {
		t.Errorf("online CPUs %s, want 0-15", got)
	}
}

// testOpen finds the node as another process would.
func (s *stand) testOpen(t *testing.T) {
	if _, err := vmnode.Open(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open of nothing: %v", err)
	}
	same, err := vmnode.Open(s.dir)
	check(t, err)
	if !same.On() || same.Name() != name {
		t.Errorf("the same node: %s, on: %t", same.Name(), same.On())
	}
	if got, err := same.Run(t.Context(), "hostname"); err != nil || strings.TrimSpace(got) != name {
		t.Errorf("hostname of the same node: %q, %v", got, err)
	}
	if err := same.Boot(t.Context()); !errors.Is(err, vmnode.ErrOn) {
		t.Errorf("Boot of a node that is on: %v", err)
	}
}

// testCut takes the power away: what was synced is there afterwards, it is another boot, and
// the node becomes Ready again.
func (s *stand) testCut(t *testing.T) {
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	before := s.sh(t, "echo kept > /var/lib/kept; sync; "+bootID)
	check(t, s.node.Cut())
	if s.node.On() {
		t.Error("on after a power cut")
	}
	if _, err := s.node.Run(t.Context(), "true"); !errors.Is(err, vmnode.ErrGuest) {
		t.Errorf("a command without power: %v", err)
	}
	start := time.Now()
	check(t, s.node.Boot(t.Context()))
	t.Logf("first command after %v", time.Since(start).Round(100*time.Millisecond))
	s.ready(t)
	t.Logf("Ready after %v", time.Since(start).Round(100*time.Millisecond))
	if got := s.sh(t, "cat /var/lib/kept"); got != "kept" {
		t.Errorf("synced file holds %q", got)
	}
	if after := s.sh(t, bootID); after == before {
		t.Errorf("the same boot id %s", after)
	}
}

func (s *stand) testShutdown(t *testing.T) {
	check(t, s.node.Shutdown(t.Context()))
	if s.node.On() {
		t.Error("on after the shutdown")
	}
	check(t, s.node.Shutdown(t.Context()))
}
