package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/local"
)

// chart installs the chart beside pods that ran before any agent, upgrades it, rolls it back and removes it, as Helm
// does. No upgrade may change a file of a pinned pod. In the end every file of every pod must be as it was before the
// agent came. The chart stays installed: it equals the cluster's installation from deploy/.
func (s *stage) chart(t *testing.T) {
	s.pinnable(t, true, "") // The scheduler uses it while there is no agent.
	s.witness.without()
	s.kubectl(t, "-n", berth, "delete", "daemonset", agents)
	s.noAgent(t)
	held := s.start(t, "held", pinned)
	still := s.start(t, "still", limited("300m"), annotated(burstKey, burstPolicy(20)))
	s.start(t, "neighbour")
	s.witness.unaskedPod(held)
	files := podFiles()
	before := contents(files)
	begin := time.Now()
	first, next := s.release(t, "{}"), s.release(t, "{burst: {maxPercent: 900}}")
	first.install(t)
	s.agentReady(t)
	s.settled(t)
	s.awaitBurst(t, s.groupOf(t, id(still, "app")).dir, 20)
	if now := contents(files); now == before {
		t.Fatal("the agent changed no file")
	}
	pins := []string{cpusets() + s.groupOf(t, id(held, "app")).dir + "/cpuset.cpus"}
	s.replaced(t, pins, func() { next.install(t) })
	s.replaced(t, pins, func() { first.install(t) })
	s.unchanged(t, held)
	s.witness.without()
	first.uninstall(t)
	s.noAgent(t)
	for i, now := range strings.Split(contents(files), "\n") {
		if was := strings.Split(before, "\n")[i]; now != was {
			t.Errorf("%s was %q, and is %q after the uninstall", files[i], was, now)
		}
	}
	s.figure(t, "chart: installed, upgraded, rolled back and removed in", time.Since(begin).Round(time.Second))
	first.install(t)
	s.agentReady(t)
	s.settled(t)
	s.unchanged(t, held)
}

// noAgent waits until no agent runs.
func (s *stage) noAgent(t *testing.T) {
	t.Helper()
	s.eventually(t, "no agent", func() string {
		list, err := s.client.CoreV1().Pods(berth).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth-agent"})
		if err != nil || len(list.Items) > 0 {
			return fmt.Sprintf("%d pods, %s", len(list.Items), text(err))
		}
		if metrics(t) != nil {
			return "there is one"
		}
		return ""
	})
}

// podFiles returns the files of all groups of pods that Berth may write.
func podFiles() []string {
	var dirs, files []string
	for _, pod := range podGroups() {
		dirs = append(dirs, strings.TrimPrefix(pod, cpusets()))
	}
	for _, g := range groups() {
		dirs = append(dirs, g.dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		for name, root := range map[string]string{
			"cpuset.cpus": cpusets(), "cpuset.mems": cpusets(), "cpu.cfs_quota_us": cpus(), "cpu.cfs_period_us": cpus(),
			"cpu.cfs_burst_us": cpus(), "cpu.max": cpus(), "cpu.max.burst": cpus(), "cpu.idle": cpus(), "cpu.bvt_warp_ns": cpus(),
		} {
			if file := root + dir + "/" + name; exists(file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// release is one set of values of the chart, with the objects that Helm applies.
type release struct {
	s   *stage
	dir string // Contains the files of program release.
}

// release renders a release with other fields of the agent's file.
func (s *stage) release(t *testing.T, config string) *release {
	t.Helper()
	root, err := cluster.Root()
	must(t, err)
	server, err := s.client.Discovery().ServerVersion()
	must(t, err)
	dir := t.TempDir()
	values := filepath.Join(dir, "values.yaml")
	must(t, os.WriteFile(values, fmt.Appendf(nil, "agent: {image: {tag: latest}, config: %s}\nscheduler: {mode: off}\n", config), 0o600))
	kubernetes := "v" + version.MustParseGeneric(server.GitVersion).String()
	cmd := exec.CommandContext(t.Context(), s.programs.Release, filepath.Join(root, "deploy", "chart"), kubernetes, berth, values, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &release{s, dir}
}

// install applies the release, as helm install, upgrade and rollback do.
func (r *release) install(t *testing.T) {
	t.Helper()
	r.s.kubectl(t, "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", filepath.Join(r.dir, "install.yaml"))
}

// uninstall runs the hooks in order, and then removes all objects that Helm does not keep.
func (r *release) uninstall(t *testing.T) {
	t.Helper()
	hooks, err := filepath.Glob(filepath.Join(r.dir, "pre-delete-*.yaml"))
	must(t, err)
	for _, hook := range hooks {
		r.s.kubectl(t, "create", "-f", hook)
	}
	r.s.eventually(t, "the Job of the uninstall", func() string {
		job, err := r.s.client.BatchV1().Jobs(berth).Get(t.Context(), "berth-uninstall", metav1.GetOptions{})
		if err != nil || job.Status.Succeeded == 1 {
			return text(err)
		}
		if job.Status.Failed > 0 {
			t.Fatalf("it failed:\n%s", r.s.kubectl(t, "-n", berth, "logs", "job/berth-uninstall"))
		}
		return fmt.Sprintf("%+v", job.Status)
	})
	if log := r.s.kubectl(t, "-n", berth, "logs", "job/berth-uninstall"); !strings.Contains(log, local.NodeName+"  Restored  ") {
		t.Errorf("the log is\n%s", log)
	}
	for _, hook := range hooks {
		r.s.kubectl(t, "delete", "--wait=false", "-f", hook)
	}
	r.s.kubectl(t, "delete", "--wait=false", "-f", filepath.Join(r.dir, "uninstall.yaml"))
}
