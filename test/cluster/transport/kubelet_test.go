package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// accounts are two clients of the kubelet: one with the rights of the node agent, and one without.
const accounts = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules:
- {apiGroups: [""], resources: [nodes/pods, nodes/configz], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: default}]
`

// staticPod is a pod that no API server knows.
const staticPod = `
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: default, annotations: {cpuset-scheduler: "true"}}
spec:
  hostNetwork: true
  containers:
  - {name: mask, image: "berth.test/mask:1", imagePullPolicy: Never, resources: {limits: {cpu: 500m}}}
`

const kubeletConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %d
healthzPort: 0
staticPodPath: %s
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: /%s
cpuManagerPolicy: static
reservedSystemCPUs: "0"
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
enforceNodeAllocatable: []
evictionHard: {memory.available: 1Mi}
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}}
authorization: {mode: Webhook}
`

// TestKubelet queries a real kubelet, which asks a real API server for authorization, and reads its files.
func TestKubelet(t *testing.T) {
	n := start(t)
	plane, err := controlplane.Start(t.Context(), n.path("plane"), n.programs.Programs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop() })
	if err := plane.Apply(t.Context(), []byte(accounts)); err != nil {
		t.Fatal(err)
	}
	o := n.kubelet(plane)
	token := func(account string) {
		t.Helper()
		config, err := plane.AsServiceAccount(t.Context(), "default", account)
		if err != nil {
			t.Fatal(err)
		}
		write(t, o.TokenFile, config.BearerToken)
	}
	token("agent")
	client, err := kubelet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	var pods []corev1.Pod
	eventually(t, "the static pod to run", func() bool {
		pods, err = client.Pods(t.Context())
		return err == nil && len(pods) == 1 && pods[0].Status.Phase == corev1.PodRunning
	})
	if p := pods[0]; !strings.HasPrefix(p.Name, "static-") || p.Annotations["cpuset-scheduler"] != "true" ||
		p.UID == "" || len(p.Spec.Containers) != 1 || p.Spec.Containers[0].Resources.Limits.Cpu().MilliValue() != 500 {
		t.Errorf("pod %+v", p)
	}

	got, err := client.Configz(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file, err := kubelet.ReadConfig(n.path("kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	want := file // the fields of the file, and defaults for the other fields
	want.MemoryManagerPolicy, want.TopologyManagerPolicy = "None", "none"
	want.CgroupsPerQOS, want.CPUCFSQuota, want.CPUCFSQuotaPeriod = &yes, &yes, "100ms"
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if got.CPUManagerPolicy != "static" || got.ReservedSystemCPUs != set(t, "0") || got.CgroupRoot != "/"+n.group {
		t.Errorf("configuration %+v", got)
	}
	all, _ := online(t)
	state, err := kubelet.ReadState(n.path("kubelet"))
	if err != nil || state.Policy != "static" || state.Shared != set(t, all) || !state.Exclusive.IsEmpty() {
		t.Errorf("state %+v, %v", state, err)
	}

	token("nobody")
	if _, err := client.Pods(t.Context()); !errors.Is(err, kubelet.ErrForbidden) {
		t.Errorf("pods without rights: %v", err)
	}
	if _, err := client.Configz(t.Context()); !errors.Is(err, kubelet.ErrForbidden) {
		t.Errorf("configuration without rights: %v", err)
	}
	write(t, o.TokenFile, "forged")
	if _, err := client.Pods(t.Context()); !errors.Is(err, kubelet.ErrUnauthorized) {
		t.Errorf("pods with a forged token: %v", err)
	}
}

// kubelet starts a kubelet on the node, and returns the options for its clients. The kubelet makes its own certificate.
func (n *node) kubelet(plane *controlplane.ControlPlane) kubelet.Options {
	t := n.t
	t.Helper()
	restoreSysctls(t)
	n.makeGroups()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	if err := os.MkdirAll(n.path("manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, n.path("manifests/static.yaml"), staticPod)
	write(t, n.path("kubelet.yaml"), fmt.Sprintf(kubeletConfig, port, n.path("manifests"), n.path("containerd.sock"), n.group))
	t.Cleanup(func() { // the kubelet makes its directory a mount
		if err := unix.Unmount(n.path("kubelet"), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("unmount: %v", err)
		}
	})
	child, err := controlplane.StartChild(n.dir, "kubelet", n.programs.Kubelet,
		"--config", n.path("kubelet.yaml"), "--kubeconfig", plane.Kubeconfig(), "--root-dir", n.path("kubelet"),
		"--cert-dir", n.path("pki"), "--hostname-override", n.group, "--v", "1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Terminate()
		if log, err := os.ReadFile(child.Log()); err == nil && t.Failed() {
			lines := strings.Split(string(log), "\n")
			t.Logf("end of the kubelet's log:\n%s", strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
	return kubelet.Options{
		Address:   fmt.Sprintf("127.0.0.1:%d", port),
		TokenFile: n.path("token"),
		CertFiles: []string{n.path("pki/kubelet.crt")},
	}
}

// makeGroups creates the group below which the kubelet puts its pods.
func (n *node) makeGroups() {
	mounts, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, mount := range append(mounts, "/sys/fs/cgroup/cgroup.procs") {
		if _, err := os.Stat(mount); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Join(filepath.Dir(mount), n.group), 0o755); err != nil {
			n.t.Fatal(err)
		}
	}
}

// restoreSysctls restores the host's settings that a kubelet changes, at the end of the test.
func restoreSysctls(t *testing.T) {
	t.Helper()
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		name = filepath.Join("/proc/sys", name)
		before, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.WriteFile(name, before, 0); err != nil {
				t.Errorf("restore %s: %v", name, err)
			}
		})
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
