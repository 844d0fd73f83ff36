package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/test/cluster"
)

// found returns the programs, or skips the test if the programs or the rights are missing.
func found(t *testing.T) cluster.Programs {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	programs, err := cluster.Find()
	if err == nil {
		err = check()
	}
	if err != nil && os.Getenv("BERTH_CLUSTER") == "require" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	if !supervised() {
		return programs
	}
	const mine = "a cluster is up, and is not the test's to end; run: make cluster-down"
	if os.Getenv("BERTH_CLUSTER") == "require" {
		t.Fatal(mine)
	}
	t.Skip(mine)
	return programs
}

// fresh removes what a killed test left of its cluster, and takes a snapshot. The cluster's own directories and groups
// must be gone then; otherwise they would hide what this test leaves.
func fresh(t *testing.T) (cluster.Programs, snapshot) {
	t.Helper()
	programs := found(t)
	must(t, Down(t.Context(), t.Output()))
	now := takeSnapshot(t)
	if len(now.Groups) > 0 || slices.Contains(now.Dirs, Dir) {
		t.Fatalf("broken law: the end of a cluster leaves the groups %q, the directories %q", now.Groups, now.Dirs)
	}
	return programs, now
}

// localcluster runs the program as a user does and returns what it prints.
func localcluster(t *testing.T, program string, args ...string) (out, progress string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("localcluster %s: %v\n%s", args, err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// TestCluster starts the cluster, uses it, kills its servers and ends it. Nothing may be left on the machine.
func TestCluster(t *testing.T) {
	programs, before := fresh(t)
	t.Cleanup(func() { must(t, Down(context.WithoutCancel(t.Context()), t.Output())) })
	const line = "export KUBECONFIG=/var/lib/berth-cluster/kubeconfig\n"
	out, progress := localcluster(t, programs.LocalCluster, "up")
	t.Log(progress)
	if out != line {
		t.Errorf("localcluster up prints %q, want %q", out, line)
	}
	pid, _ := os.ReadFile(file("supervisor.lock"))
	out, progress = localcluster(t, programs.LocalCluster, "up")
	if again, _ := os.ReadFile(file("supervisor.lock")); out != line || !strings.Contains(progress, "up already") || string(again) != string(pid) {
		t.Errorf("the second localcluster up prints %q and %q", out, progress)
	}
	c, err := Running()
	must(t, err)
	client, err := kubernetes.NewForConfig(c.Config())
	must(t, err)
	u := use{c: c, client: client}
	t.Run("limit", u.limit)
	t.Run("images", u.seedImages)
	t.Run("servers come back", u.comeBack)
	t.Run("join", u.join)
	for guest := range strings.FieldsSeq(os.Getenv("BERTH_CLUSTER_GUESTS")) {
		t.Run(filepath.Base(guest), func(t *testing.T) { visit(t, guest) })
	}
	if !t.Run("down", func(t *testing.T) {
		if _, progress := localcluster(t, programs.LocalCluster, "down"); !strings.Contains(progress, "is down") {
			t.Errorf("localcluster down says %q", progress)
		}
		nothingLeft(t, before)
		if _, err := Running(); !errors.Is(err, ErrNotUp) {
			t.Errorf("Running() = %v, want %v", err, ErrNotUp)
		}
	}) {
		return
	}
	_, progress = localcluster(t, programs.LocalCluster, "down")
	if !strings.Contains(progress, "no cluster is up") {
		t.Errorf("the second localcluster down says %q", progress)
	}
	nothingLeft(t, before)
}

// visit runs the tests of another package, a directory of this module, in the running cluster, because a cluster takes
// a minute to start. TestCluster then also finds what these tests leave. They run once: a second run needs another
// cluster and thus another run of TestCluster.
func visit(t *testing.T, guest string) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-timeout=8h", "-run="+os.Getenv("BERTH_CLUSTER_RUN"), guest)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "BERTH_NODE_CLUSTER=running")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	must(t, cmd.Run())
}

// use is a running cluster under test.
type use struct {
	c      *Cluster
	client kubernetes.Interface
}

// start creates a pod of one container and waits until it is in a phase.
func (u use) start(t *testing.T, name, image string, phase v1.PodPhase, options ...func(*v1.Pod)) *v1.Pod {
	t.Helper()
	none := int64(0)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever, TerminationGracePeriodSeconds: &none,
			Containers: []v1.Container{{Name: "app", Image: image, ImagePullPolicy: v1.PullAlways}},
		},
	}
	for _, option := range options {
		option(pod)
	}
	_, err := u.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	must(t, until(t.Context(), func(ctx context.Context) string {
		got, err := u.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got.Status.Phase != phase {
			return fmt.Sprintf("pod %s is %s, want %s: %+v", name, got.Status.Phase, phase, got.Status.ContainerStatuses)
		}
		pod = got
		return ""
	}))
	return pod
}

// limit checks that the kernel enforces a pod's limits.
func (u use) limit(t *testing.T) {
	pod := u.start(t, "limited", "berth-mask", v1.PodRunning, func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("300m"), v1.ResourceMemory: resource.MustParse("64Mi")}
	})
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	dirs, err := groupDirs()
	must(t, err)
	var got []string
	for _, dir := range dirs {
		if filepath.Base(dir) != id {
			continue
		}
		for _, name := range []string{"cpu.cfs_quota_us", "cpu.max"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				got = append(got, strings.TrimSpace(string(text)))
			}
		}
	}
	if !slices.Equal(got, []string{"30000"}) && !slices.Equal(got, []string{"30000 100000"}) {
		t.Errorf("quota of a container with 300m is %q", got)
	}
	log, err := u.client.CoreV1().Pods("default").GetLogs("limited", &v1.PodLogOptions{}).DoRaw(t.Context())
	must(t, err)
	if !regexp.MustCompile(`^Cpus_allowed_list:\t[\d,-]+\nMems_allowed_list:\t[\d,-]+\n$`).Match(log) {
		t.Errorf("berth-mask says %q", log)
	}
}

// seedImages runs each image that a manifest of ACK's and Koordinator's documentation names.
func (u use) seedImages(t *testing.T) {
	seen := map[string]bool{}
	for _, manifest := range names(t, "../testdata/seeds/*.yaml") {
		text, err := os.ReadFile(manifest)
		must(t, err)
		for _, match := range regexp.MustCompile(`(?m)^[ -]*image: (\S+)$`).FindAllStringSubmatch(string(text), -1) {
			seen[match[1]] = true
		}
	}
	if len(seen) != 5 {
		t.Fatalf("the manifests name %d images, want 5: %v", len(seen), seen)
	}
	for image := range seen {
		name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(image, "-")
		t.Run(name, func(t *testing.T) {
			if strings.Contains(image, "java-pi") {
				u.start(t, name, image, v1.PodSucceeded)
				return
			}
			pod := u.start(t, name, image, v1.PodRunning)
			for text, url := range map[string]string{"apache": ":8010/static/file.1m.test", "go-demo": ":8080/", "nginx": ":80/"} {
				if strings.Contains(image, text) {
					must(t, until(t.Context(), func(ctx context.Context) string { return get(ctx, "http://"+pod.Status.PodIP+url) }))
				}
			}
		})
	}
}

// comeBack kills servers. The supervisor must restart them, and pods must continue to run.
func (u use) comeBack(t *testing.T) {
	u.start(t, "before", "berth-mask", v1.PodRunning)
	for _, name := range []string{"containerd", "kubelet", "kube-apiserver", "etcd"} {
		old, err := u.c.PID(name)
		must(t, err)
		must(t, syscall.Kill(-old, syscall.SIGKILL))
		must(t, until(t.Context(), func(context.Context) string {
			if pid, err := u.c.PID(name); err != nil || pid == old {
				return name + " does not come back"
			}
			return ""
		}))
	}
	must(t, u.c.Stop(t.Context(), "kubelet"))
	time.Sleep(2 * time.Second) // Longer than the supervisor's pause.
	if pid, err := u.c.PID("kubelet"); !errors.Is(err, ErrNotUp) {
		t.Errorf("a stopped kubelet runs as %d: %v", pid, err)
	}
	must(t, u.c.Start(t.Context(), "kubelet"))
	must(t, until(t.Context(), func(ctx context.Context) string { return lookNode(ctx, u.client) }))
	u.start(t, "after", "berth-mask", v1.PodRunning)
	pod, err := u.client.CoreV1().Pods("default").Get(t.Context(), "before", metav1.GetOptions{})
	must(t, err)
	if s := pod.Status; s.Phase != v1.PodRunning || s.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod that ran before: %+v", s)
	}
}

// join checks that another node can join, with only its own rights.
func (u use) join(t *testing.T) {
	n, err := u.c.Join("another")
	must(t, err)
	client, err := kubernetes.NewForConfig(n.Config)
	must(t, err)
	for name, ok := range map[string]bool{"another": true, "third": false} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); (err == nil) != ok {
			t.Errorf("node another creates %s: %v", name, err)
		}
	}
	must(t, u.client.CoreV1().Nodes().Delete(t.Context(), "another", metav1.DeleteOptions{}))
	for _, path := range []string{n.Programs.Kubelet, n.Programs.Runc, n.Programs.CNI + "/bridge"} {
		if !exists(path) {
			t.Errorf("there is no %s", path)
		}
	}
}

// TestInterrupted presses Ctrl-C at several moments of the start. Nothing may be left on the machine.
func TestInterrupted(t *testing.T) {
	programs, before := fresh(t)
	for _, steps := range []int{0, 1, 4} {
		t.Run(fmt.Sprint(steps, " steps"), func(t *testing.T) {
			var said bytes.Buffer
			cmd := exec.CommandContext(t.Context(), programs.LocalCluster, "up")
			cmd.Stderr = &said
			must(t, cmd.Start())
			must(t, until(t.Context(), func(context.Context) string {
				text, err := os.ReadFile(file("progress"))
				if done := bytes.Count(text, []byte("\n")); done < steps {
					return fmt.Sprintf("%d steps of the start are done, want %d (%v)", done, steps, err)
				}
				return ""
			}))
			must(t, cmd.Process.Signal(os.Interrupt))
			err := cmd.Wait()
			if err == nil || cmd.ProcessState.ExitCode() != 1 && steps > 0 {
				t.Errorf("an interrupted start ends with %v:\n%s", err, said.String())
			}
			must(t, Down(t.Context(), t.Output())) // A start that was just beginning leaves nothing to remove.
			nothingLeft(t, before)
		})
	}
}

// TestKilled kills the supervisor, which knows all other processes, while a pod runs. Down must still find and remove
// everything.
func TestKilled(t *testing.T) {
	programs, before := fresh(t)
	t.Setenv(withoutAgent, "1")
	must(t, Up(t.Context(), t.Output()))
	c, err := Running()
	must(t, err)
	client, err := kubernetes.NewForConfig(c.Config())
	must(t, err)
	use{c: c, client: client}.start(t, "left", "berth-mask", v1.PodRunning)
	text, err := os.ReadFile(file("supervisor.lock"))
	must(t, err)
	_, err = command(t.Context(), "kill", "-9", string(text))
	must(t, err)
	must(t, until(t.Context(), func(context.Context) string {
		if _, err := c.PID("kubelet"); err == nil {
			return "kubelet outlives the supervisor"
		}
		return ""
	}))
	if !slices.ContainsFunc(processes(t), func(line string) bool { return strings.HasPrefix(line, "/usr/bin/mask") }) {
		t.Error("the container ended with the supervisor: this test sees nothing")
	}
	localcluster(t, programs.LocalCluster, "down")
	nothingLeft(t, before)
}
