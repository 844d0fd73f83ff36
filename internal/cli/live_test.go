package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/child"
	"github.com/berth-project/berth/test/patience"
)

// quay is a real group with a workload file, for tests that run the program as users do.
type quay struct {
	t     *testing.T
	host  *cgroup.Host
	group *scratch.Group
	dir   string
}

func newQuay(t *testing.T, name string) *quay {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("writes to cgroups: needs root; the VM runs it: make verify-kernels")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	group, err := scratch.New(host, "", scratch.Name(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Close() })
	q := &quay{t: t, host: host, group: group, dir: t.TempDir()}
	q.setMax(50000)
	q.write("agent.yaml", `workloadDir: workloads
stateDir: state
listen: 127.0.0.1:0
cpu-burst-config: {clusterStrategy: {sharePoolThresholdPercent: 100}}
`)
	q.policy("auto")
	return q
}

func (q *quay) write(name, content string) {
	q.t.Helper()
	path := filepath.Join(q.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		q.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		q.t.Fatal(err)
	}
}

func (q *quay) policy(policy string) {
	q.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, annotations: {koordinator.sh/cpuBurst: '{"policy":"%s"}'}}
spec: {cgroup: %s}
`, policy, q.group.Path()))
}

func (q *quay) setMax(quota int) {
	q.t.Helper()
	if err := q.group.SetMax(unit.Micros(quota), 100000); err != nil {
		q.t.Fatal(err)
	}
}

// command returns a command that runs the program with the arguments and the group's agent file.
func (q *quay) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		q.t.Fatal(err)
	}
	cmd := exec.CommandContext(q.t.Context(), self)
	cmd.Args = append([]string{"berth"}, append(args, "--config", filepath.Join(q.dir, "agent.yaml"))...)
	return cmd
}

// run runs the program and returns its output and exit code.
func (q *quay) run(args ...string) (output string, code int) {
	q.t.Helper()
	out, err := q.command(args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		q.t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(out), code
}

// agent starts the agent and waits until the quota is at its ceiling.
func (q *quay) agent() *exec.Cmd {
	q.t.Helper()
	cmd := q.command("agent")
	cmd.Stderr = q.t.Output()
	if err := cmd.Start(); err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	q.eventually("149998/100000 burst 50000")
	return cmd
}

func (q *quay) bandwidth() string {
	q.t.Helper()
	g, err := q.host.Group(q.group.Path())
	if err != nil {
		q.t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	b, err := g.Bandwidth()
	if err != nil {
		q.t.Fatal(err)
	}
	return fmt.Sprintf("%d/%d burst %d", b.Quota, b.Period, b.Burst)
}

func (q *quay) eventually(want string) {
	q.t.Helper()
	q.until(func() string {
		if got := q.bandwidth(); got != want {
			return fmt.Sprintf("bandwidth is %s, want %s", got, want)
		}
		return ""
	})
}

// until waits until look returns an empty string.
func (q *quay) until(look func() string) {
	q.t.Helper()
	if err := patience.Until(context.WithoutCancel(q.t.Context()), 50*time.Millisecond, look); err != nil {
		q.t.Fatal(err)
	}
}

func (q *quay) want(output string, code, wantCode int, words ...string) {
	q.t.Helper()
	if code != wantCode {
		q.t.Errorf("exit code %d, want %d:\n%s", code, wantCode, output)
	}
	for _, word := range words {
		if !strings.Contains(output, word) {
			q.t.Errorf("output lacks %q:\n%s", word, output)
		}
	}
}

func TestLiveKilledAgentIsRolledBack(t *testing.T) {
	q := newQuay(t, "kill")
	before := q.bandwidth()
	cmd := q.agent()
	out, code := q.run("rollback")
	q.want(out, code, 4, fmt.Sprint("process ", cmd.Process.Pid), "stop it")
	out, code = q.run("explain", "w")
	q.want(out, code, 0, "w is Active", "credit", "149998 us in every 100000 us")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	out, code = q.run("status", "-o", "json")
	q.want(out, code, 0)
	var status struct {
		Agent   struct{ Alive bool }
		Applied []struct{ State string }
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatal(err)
	}
	if status.Agent.Alive || len(status.Applied) != 2 || status.Applied[0].State != "applied" {
		t.Errorf("status of a killed agent: %s", out)
	}
	out, code = q.run("status")
	q.want(out, code, 0, "\nnext: berth agent --config ", " starts it; berth rollback --config ", "agent.yaml puts back what is applied\n")
	out, code = q.run("rollback", "--dry-run")
	q.want(out, code, 0, "would restore", "dry run")
	if got := q.bandwidth(); got != "149998/100000 burst 50000" {
		t.Errorf("a dry run changed the host: %s", got)
	}
	out, code = q.run("rollback")
	q.want(out, code, 0, "restored")
	if got := q.bandwidth(); got != before {
		t.Errorf("after rollback %s, before %s", got, before)
	}
	out, code = q.run("rollback")
	q.want(out, code, 0, "nothing to put back")
}

// A mistake in the agent's file must not prevent a rollback, neither by a user nor by the next agent that refuses the
// file. While an agent runs, neither changes anything.
func TestLiveRefusedFilePutsBack(t *testing.T) {
	q := newQuay(t, "slip")
	before := q.bandwidth()
	cmd := q.agent()
	raised := q.bandwidth()
	name := filepath.Join(q.dir, "agent.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	q.write("agent.yaml", string(text)+"slip: true\n")
	out, code := q.run("agent")
	q.want(out, code, 2, "slip")
	if got := q.bandwidth(); got != raised || strings.Contains(out, "note:") {
		t.Errorf("beside an agent that runs: %s, before %s:\n%s", got, raised, out)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	out, code = q.run("rollback", "--dry-run")
	q.want(out, code, 0, "slip", "looking in "+filepath.Join(q.dir, "state")+" all the same", "would restore")
	out, code = q.run("agent")
	q.want(out, code, 2, "slip", "note: cpu.max of "+q.group.Path()+" was 149998 100000 and is 50000 100000: restored")
	if got := q.bandwidth(); got != before {
		t.Errorf("after the agent refused its file %s, before %s", got, before)
	}
	out, code = q.run("rollback", "--owner", "burst")
	q.want(out, code, 0, "nothing to put back")
}

func TestLiveRollbackLeavesOthersValues(t *testing.T) {
	q := newQuay(t, "drift")
	cmd := q.agent()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	q.setMax(70000)
	out, code := q.run("status")
	q.want(out, code, 4, "drift")
	out, code = q.run("rollback")
	q.want(out, code, 4, "drifted", `is "70000`, "; its original is")
	if got := q.bandwidth(); got != "70000/100000 burst 0" {
		t.Errorf("bandwidth is %s, want the other's quota and no burst", got)
	}
}

// Without a terminal, top prints one plain frame or the agent's JSON.
func TestLiveTop(t *testing.T) {
	q := newQuay(t, "top")
	out, code := q.run("top")
	q.want(out, code, 1, "no agent runs")
	q.agent()
	out, code = q.run("top")
	q.want(out, code, 0, "berth top test", "NUMA node", "WORKLOAD", "1.5/0.5", "Active")
	if strings.Contains(out, "\x1b") {
		t.Errorf("it is not plain: %q", out)
	}
	out, code = q.run("top", "-o", "json")
	var seen view.View
	if err := json.Unmarshal([]byte(out), &seen); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if seen.Format != view.Format || seen.LoadSeconds <= 0 || len(seen.CPUs) == 0 || len(seen.Changes) == 0 || len(seen.Workloads) == 0 {
		t.Errorf("view %s", out)
	}
}

// TestChild is a process of a workload.
func TestChild(t *testing.T) { child.Serve(t, func(string) error { return nil }) }

// Explain names processes that follow the quota, but only while the quota moves.
func TestLiveExplainNamesPrograms(t *testing.T) {
	q := newQuay(t, "programs")
	q.agent()
	out, code := q.run("explain", "w")
	q.want(out, code, 0, "programs  none follows the quota while it runs; processes: 0")
	running := child.Start(t, q.group.Attach)
	out, code = q.run("explain", "w")
	q.want(out, code, 0, fmt.Sprintf("programs  exe (pid %d, %s) changes GOMAXPROCS", running.Process.Pid, runtime.Version()))
	out, code = q.run("explain", "w", "-o", "json")
	q.want(out, code, 0, `"answer": "follow"`, fmt.Sprintf(`"pid": %d`, running.Process.Pid))
	q.policy("cpuBurstOnly")
	q.eventually("50000/100000 burst 50000")
	q.until(func() string { // The view may lag.
		out, code = q.run("explain", "w")
		if q.want(out, code, 0); strings.Contains(out, "  programs  ") {
			return "programs are named that follow a quota that stays"
		}
		return ""
	})
}

func TestLiveSignals(t *testing.T) {
	q := newQuay(t, "signals")
	before := q.bandwidth()
	cmd := q.agent()
	q.policy("none")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	q.eventually(before)
	q.policy("auto")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	q.eventually("149998/100000 burst 50000")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("agent after SIGTERM: %v", err)
	}
	if got := q.bandwidth(); got != before {
		t.Errorf("after SIGTERM %s, before %s", got, before)
	}
}
