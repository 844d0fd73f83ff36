package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/patience"
)

// long is how long a test waits for an expected event, in time during which the machine gave it CPU.
const long = 60 * time.Second

// node is a containerd that belongs to the test.
type node struct {
	t        *testing.T
	programs cluster.Programs
	dir      string // of all files
	group    string // parent of the groups of all pods
	host     *cgroup.Host
	daemon   *exec.Cmd
	conn     *grpc.ClientConn
	cri      runtime.RuntimeServiceClient
	pods     int
}

// start starts a containerd with the images that the tests use.
func start(t *testing.T) *node {
	t.Helper()
	if os.Getuid() != 0 {
		skip(t, errors.New("needs root"))
	}
	programs, err := cluster.Find()
	if err != nil {
		skip(t, err)
	}
	dir, err := os.MkdirTemp("/run", "berth-test-") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, programs: programs, dir: dir, group: filepath.Base(dir), host: host}
	t.Cleanup(func() {
		n.clear()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		root.Close()
	})
	if err := os.WriteFile(n.path("config.toml"), []byte(n.config()), 0o600); err != nil {
		t.Fatal(err)
	}
	n.run()
	n.image("pause", programs.Contained["pause"])
	n.image("mask", programs.Contained["berth-mask"])
	return n
}

// skip skips the test, or fails it with BERTH_CLUSTER=require.
func skip(t *testing.T, why error) {
	t.Helper()
	if os.Getenv("BERTH_CLUSTER") == "require" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// nri returns the socket of the runtime's plugins.
func (n *node) nri() string { return n.path("nri.sock") }

func (n *node) config() string {
	return fmt.Sprintf(`version = 3
root = '%[1]s/root'
state = '%[1]s/state'
[grpc]
address = '%[1]s/containerd.sock'
[plugins.'io.containerd.internal.v1.opt']
path = '%[1]s/opt'
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'native'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'berth.test/pause:1'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '%[2]s'
SystemdCgroup = false
[plugins.'io.containerd.nri.v1.nri']
socket_path = '%[1]s/nri.sock'
plugin_path = '%[1]s/plugins'
plugin_config_path = '%[1]s/conf.d'
`, n.dir, n.programs.Runc)
}

// run starts the daemon and waits until it answers.
func (n *node) run() {
	n.t.Helper()
	log, err := os.OpenFile(n.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.daemon = exec.Command(n.programs.Containerd, "--config", n.path("config.toml"))
	n.daemon.Stdout, n.daemon.Stderr = log, log
	n.daemon.Env = append(os.Environ(), "PATH="+filepath.Dir(n.programs.Shim)+":"+os.Getenv("PATH"))
	n.daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.daemon.Start(); err != nil {
		n.t.Fatal(err)
	}
	if n.conn == nil {
		if n.conn, err = grpc.NewClient("unix://"+n.path("containerd.sock"), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			n.t.Fatal(err)
		}
		n.cri = runtime.NewRuntimeServiceClient(n.conn)
	}
	eventually(n.t, "containerd to answer", func() bool {
		ctx, cancel := context.WithTimeout(n.t.Context(), time.Second)
		defer cancel()
		status, err := n.cri.Status(ctx, &runtime.StatusRequest{})
		return err == nil && len(status.GetStatus().GetConditions()) > 0
	})
}

// kill kills the daemon; containers continue to run.
func (n *node) kill() {
	_ = n.daemon.Process.Kill()
	_ = n.daemon.Wait()
}

// clear removes all pods, the daemon and the groups.
func (n *node) clear() {
	if n.t.Failed() {
		if log, err := os.ReadFile(n.path("log")); err == nil {
			lines := strings.Split(string(log), "\n")
			n.t.Logf("end of containerd's log:\n%s", strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	}
	ctx, _, cancel := patience.WithLimit(context.WithoutCancel(n.t.Context()), long)
	defer cancel()
	if list, err := n.cri.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{}); err == nil {
		for _, pod := range list.GetItems() {
			if err := n.drop(ctx, pod.GetId()); err != nil {
				n.t.Errorf("remove pod %s: %v", pod.GetId(), err)
			}
		}
	}
	n.conn.Close()
	_ = n.daemon.Process.Signal(syscall.SIGTERM)
	_ = n.daemon.Wait()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		tops, _ := filepath.Glob(filepath.Join(mount, n.group))
		for _, top := range tops {
			removeGroups(n.t, top)
		}
	}
}

// drop stops and removes a pod with its containers.
func (n *node) drop(ctx context.Context, id string) error {
	if _, err := n.cri.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return err
	}
	_, err := n.cri.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// removeGroups removes empty groups from the leaves up.
func removeGroups(t *testing.T, top string) {
	entries, err := os.ReadDir(top)
	if err != nil {
		return // the hierarchy is mounted twice
	}
	for _, e := range entries {
		if e.IsDir() {
			removeGroups(t, filepath.Join(top, e.Name()))
		}
	}
	if err := os.Remove(top); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// logger returns the log of a test's plugins.
func logger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := patience.Until(context.WithoutCancel(t.Context()), 10*time.Millisecond, func() string {
		if ok() {
			return ""
		}
		return what
	})
	if err != nil {
		t.Fatal(err)
	}
}
