package vmnode_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/internal/controlplane"
	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/vmnode"
	"github.com/berth-project/berth/test/kernel"
)

// address is the node's in these tests; make cluster has another one.
const address = "198.18.250.2"

// name is the node's.
const name = "vm-test"

// stand is an API server, a registry and a node.
type stand struct {
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
	node   *vmnode.Node
	dir    string // The node's.
}

// newStand starts all three, or skips where the machine cannot be had and nobody insists.
func newStand(t *testing.T) *stand {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a virtual machine; runs in: make kubernetes")
	}
	required := os.Getenv("CI") != "" || os.Getenv("BERTH_VM") == "require"
	programs, err := cluster.Find()
	if err == nil {
		err = vmnode.Check(t.Context())
	}
	if err == nil && os.Geteuid() != 0 {
		err = vmnode.ErrRoot
	}
	switch {
	case errors.Is(err, kernel.ErrMissing) && required, errors.Is(err, cluster.ErrNotBuilt) && required:
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	s := &stand{dir: filepath.Join(logs(t), "node")}
	if s.plane, err = controlplane.Start(t.Context(), logs(t), programs.Programs, "--authorization-mode=Node"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.plane.Stop()) })
	s.client, err = kubernetes.NewForConfig(s.plane.Config())
	check(t, err)
	s.start(t, programs)
	return s
}

// start starts the registry and the node.
func (s *stand) start(t *testing.T, programs cluster.Programs) {
	t.Helper()
	registry := freeAddress(t)
	blobs := t.TempDir()
	child, err := controlplane.StartChild(blobs, "registry", programs.Images, "serve",
		"-packed", programs.Packed, "-listen", registry, "-blobs", filepath.Join(blobs, "blobs"),
		"-program", "pause="+programs.Contained["pause"],
		"-program", "burn="+programs.Contained["berth-burn"], "-program", "mask="+programs.Contained["berth-mask"])
	check(t, err)
	t.Cleanup(func() { check(t, child.Kill()) })
	for { // It listens once it has every image.
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", registry)
		if err == nil {
			check(t, conn.Close())
			break
		}
		check(t, child.Alive())
		time.Sleep(100 * time.Millisecond)
	}
	config, err := s.plane.As("system:node:"+name, "system:nodes")
	check(t, err)
	file := filepath.Join(blobs, "kubeconfig")
	check(t, controlplane.WriteKubeconfig(config, file))
	kubeconfig, err := os.ReadFile(file)
	check(t, err)
	start := time.Now()
	t.Cleanup(func() {
		if s.node != nil {
			check(t, s.node.Remove(context.WithoutCancel(t.Context())))
		}
	})
	s.node, err = vmnode.Start(t.Context(), vmnode.Options{
		Name: name, Dir: s.dir, IP: address, Kubeconfig: kubeconfig, CA: config.CAData,
		Programs: vmnode.Programs{
			Containerd: programs.Containerd, Shim: programs.Shim, Runc: programs.Runc, Ctr: programs.Ctr,
			Kubelet: programs.Kubelet, Berth: programs.Berth, CNI: programs.CNI,
		},
		Registry: "http://" + registry, PodCIDR: "198.18.129.0/24",
	})
	check(t, err)
	t.Logf("first command after %v", time.Since(start).Round(100*time.Millisecond))
	s.ready(t)
	t.Logf("Ready after %v", time.Since(start).Round(100*time.Millisecond))
}

// ready waits for the node.
func (s *stand) ready(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	check(t, s.node.WaitReady(ctx, s.client))
}

// sh runs a script in the guest and returns its output without white space around it.
func (s *stand) sh(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := s.node.Run(ctx, script)
	check(t, err)
	return strings.TrimSpace(out)
}

// pod runs a container with a CPU limit on the node and waits until it does.
func (s *stand) pod(t *testing.T, name, limit string, args ...string) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	pods := s.client.CoreV1().Pods("default")
	noToken := false
	image, _, _ := strings.Cut(name, "-")
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: "vm-test", AutomountServiceAccountToken: &noToken, EnableServiceLinks: &noToken,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/" + image + ":1", Args: args,
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(limit), "memory": resource.MustParse("64Mi")}},
			}},
		},
	}, metav1.CreateOptions{})
	check(t, err)
	for pod.Status.Phase != corev1.PodRunning {
		select {
		case <-ctx.Done():
			state, _ := pod.Status.Marshal()
			t.Fatalf("pod %s: %v: %q\n%s", name, ctx.Err(), state, s.journal(t))
		case <-time.After(time.Second):
		}
		pod, err = pods.Get(ctx, name, metav1.GetOptions{})
		check(t, err)
	}
	return pod
}

// journal is the end of what the services in the guest said.
func (s *stand) journal(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, vmnode.JournalFile))
	check(t, err)
	return string(text[max(0, len(text)-8000):])
}

// kubelet asks the kubelet at the node's address, as the API server would.
func (s *stand) kubelet(t *testing.T, path string) string {
	t.Helper()
	config := s.plane.Config()
	config.Host = "https://" + net.JoinHostPort(address, "10250")
	config.CAData, config.Insecure = nil, true // It signed its certificate itself.
	client, err := rest.HTTPClientFor(config)
	check(t, err)
	answer, err := client.Get(config.Host + path)
	check(t, err)
	defer answer.Body.Close()
	var text strings.Builder
	_, err = fmt.Fprint(&text, answer.Status, "\n")
	check(t, err)
	buffer := make([]byte, 64<<10)
	for {
		n, err := answer.Body.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			return text.String()
		}
	}
}

// freeAddress returns an address on the loopback device that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// logs is the directory of a test's logs.
func logs(t *testing.T) string {
	t.Helper()
	if kept := os.Getenv("BERTH_CLUSTER_LOGS"); kept != "" {
		dir := filepath.Join(kept, t.Name())
		check(t, os.MkdirAll(dir, 0o755))
		return dir
	}
	return t.TempDir()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
