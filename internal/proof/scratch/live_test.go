package scratch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
)

// sleepEnv makes the test binary a process that waits to be killed. leaveEnv makes it create a group below the named
// parent and kill itself.
const (
	sleepEnv = "BERTH_TEST_SLEEP"
	leaveEnv = "BERTH_TEST_LEAVE"
)

func TestMain(m *testing.M) {
	if os.Getenv(sleepEnv) != "" {
		time.Sleep(time.Hour)
		return
	}
	if parent := os.Getenv(leaveEnv); parent != "" {
		fmt.Println(leave(parent))
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	os.Exit(m.Run())
}

// leave makes a group below parent and returns its path.
func leave(parent string) (string, error) {
	root, err := hostfs.Open("/")
	if err != nil {
		return "", err
	}
	host, err := cgroup.Open(root)
	if err != nil {
		return "", err
	}
	g, err := scratch.New(host, parent, scratch.Name("left"))
	if err != nil {
		return "", err
	}
	return g.Path(), nil
}

func liveHost(t *testing.T) *cgroup.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make groups; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	host, err := cgroup.Open(root)
	if err != nil {
		t.Skipf("no cgroups here: %v; runs in the VM: make test", err)
	}
	for _, c := range cgroup.Controllers() {
		if hier, err := host.Hierarchy(c); err != nil || hier.ReadOnly {
			t.Skipf("controller %s: %+v, %v; runs in the VM: make test", c, hier, err)
		}
	}
	return host
}

// picture returns the state of the hierarchies: the groups of this test at the root, and the controllers that are
// enabled there on v2.
func picture(t *testing.T, host *cgroup.Host) map[string]string {
	t.Helper()
	seen := map[string]string{}
	for _, c := range cgroup.Controllers() {
		hier, err := host.Hierarchy(c)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := host.Root().ReadDir(hier.Mount)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), scratch.Prefix+"test-scratch") {
				seen[hier.Mount+"/"+e.Name()] = "group"
			}
		}
		data, err := host.Root().ReadFile(hier.Mount + "/cgroup.subtree_control")
		if err == nil {
			seen[hier.Mount] = string(data)
		}
	}
	return seen
}

func newGroup(t *testing.T, host *cgroup.Host, parent, name string) *scratch.Group {
	t.Helper()
	g, err := scratch.New(host, parent, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// sleeper starts a process in g that waits to be killed.
func sleeper(t *testing.T, g *scratch.Group) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), sleepEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if err := g.Attach(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestLifeLeavesNoTrace(t *testing.T) {
	host := liveHost(t)
	before := picture(t, host)
	g := newGroup(t, host, "", scratch.Name("test-scratch"))
	for _, c := range cgroup.Controllers() {
		if err := g.Handle().Has(c); err != nil {
			t.Error(err)
		}
	}
	sub, err := g.Sub("a")
	if err != nil {
		t.Fatal(err)
	}
	deep, err := sub.Sub("b")
	if err != nil {
		t.Fatal(err)
	}
	if err := deep.SetMax(10_000, 50_000); err != nil {
		t.Error(err)
	}
	b, err := deep.Handle().Bandwidth()
	if err != nil || b.Quota != 10_000 || b.Period != 50_000 {
		t.Errorf("%+v, %v", b, err)
	}
	if err := deep.SetMax(unit.NoLimit, 100_000); err != nil {
		t.Error(err)
	}
	cmd := sleeper(t, deep)
	if at, err := host.PathOf(cmd.Process.Pid); err != nil || at != g.Path()+"/a/b" {
		t.Errorf("process in %q, %v", at, err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if state, ok := exitOf(cmd); !ok || state.Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v", state)
	}
	if diff := cmp.Diff(before, picture(t, host)); diff != "" {
		t.Errorf("the hierarchies changed (-before +after):\n%s", diff)
	}
	for _, again := range []*scratch.Group{g, deep, sub} {
		if err := again.Close(); err != nil {
			t.Errorf("closing %s again: %v", again.Path(), err)
		}
	}
}

func exitOf(cmd *exec.Cmd) (syscall.WaitStatus, bool) {
	var exit *exec.ExitError
	if !errors.As(cmd.Wait(), &exit) {
		return 0, false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return status, ok
}

func TestBelowAParent(t *testing.T) {
	host := liveHost(t)
	outer := newGroup(t, host, "", scratch.Name("test-scratch"))
	inner := newGroup(t, host, outer.Path(), scratch.Name("inner"))
	if err := inner.Handle().Has(cgroup.CPU); err != nil {
		t.Error(err)
	}
	if want := outer.Path() + "/" + scratch.Name("inner"); inner.Path() != want {
		t.Errorf("path %q, want %q", inner.Path(), want)
	}
}

func TestNewRefuses(t *testing.T) {
	host := liveHost(t)
	name := scratch.Name("test-scratch")
	g := newGroup(t, host, "", name)
	for _, c := range []struct {
		parent, name string
		want         error
	}{
		{"", name, fs.ErrExist},
		{"", "other", scratch.ErrBadName},
		{"", "berth-a/b", scratch.ErrBadName},
		{"", "berth-test-scratch/../x", scratch.ErrBadName},
		{"/", "berth-test-scratch-x", cgroup.ErrBadPath},
		{"none-such", "berth-test-scratch-x", fs.ErrNotExist},
	} {
		if got, err := scratch.New(host, c.parent, c.name); !errors.Is(err, c.want) || got != nil {
			t.Errorf("New(%q, %q) = %v, %v, want %v", c.parent, c.name, got, err, c.want)
		}
	}
	if err := g.Handle().Has(cgroup.CPUSet); err != nil {
		t.Errorf("the group that was there: %v", err)
	}
	if _, err := g.Sub("a/b"); !errors.Is(err, scratch.ErrBadName) {
		t.Errorf("Sub: %v", err)
	}
}

// TestNewFailsHalfway checks that New leaves nothing behind if one hierarchy already has the group.
func TestNewFailsHalfway(t *testing.T) {
	host := liveHost(t)
	cpu, _ := host.Hierarchy(cgroup.CPU)
	cpuset, _ := host.Hierarchy(cgroup.CPUSet)
	name := scratch.Name("test-scratch-half")
	if err := hostwrite.MakeDir(host.Root(), cpuset.Mount+"/"+name); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hostwrite.RemoveDir(host.Root(), cpuset.Mount+"/"+name); err != nil {
			t.Errorf("somebody else's group: %v", err)
		}
	}()
	if _, err := scratch.New(host, "", name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("New: %v", err)
	}
	if cpu.Mount == cpuset.Mount { // the only hierarchy has that group
		return
	}
	if _, err := os.Stat(filepath.Join(cpu.Mount, name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left in the hierarchy of cpu: %v", err)
	}
}

func TestSweep(t *testing.T) {
	host := liveHost(t)
	base := newGroup(t, host, "", scratch.Name("test-scratch"))
	dead := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	left := newGroup(t, host, base.Path(), "berth-left-"+strconv.Itoa(dead.Process.Pid))
	unowned := newGroup(t, host, base.Path(), "berth-left-over")
	mine := newGroup(t, host, base.Path(), scratch.Name("left"))
	other := newGroup(t, host, base.Path(), "berth-other-"+strconv.Itoa(dead.Process.Pid))
	cmd := sleeper(t, left)

	removed, err := scratch.Sweep(host, base.Path(), "berth-left")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{left.Path(), unowned.Path()}
	slices.Sort(want)
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if _, ok := exitOf(cmd); !ok {
		t.Error("the process in it lives")
	}
	for _, g := range []*scratch.Group{mine, other} {
		if err := g.Handle().Has(cgroup.CPU); err != nil {
			t.Errorf("%s: %v", g.Path(), err)
		}
	}
	for _, prefix := range []string{"", "system", "bert"} {
		if _, err := scratch.Sweep(host, "", prefix); !errors.Is(err, scratch.ErrBadName) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	if removed, err := scratch.Sweep(host, "none-such", "berth-"); err != nil || len(removed) > 0 {
		t.Errorf("below a missing parent: %v, %v", removed, err)
	}
}

// TestEnabledStaysWhileReliedOn checks that closing a group does not disable controllers that a later sibling group
// uses. On v2 a plain undo of what was enabled for the first group would do that.
func TestEnabledStaysWhileReliedOn(t *testing.T) {
	host := liveHost(t)
	outer := newGroup(t, host, "", scratch.Name("test-scratch"))
	first, err := outer.Sub("first")
	if err != nil {
		t.Fatal(err)
	}
	second, err := outer.Sub("second")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Handle().Has(cgroup.CPU); err != nil {
		t.Error(err)
	}
}

// killed runs leave in another process and returns the path of the group that it left behind.
func killed(t *testing.T, parent string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), leaveEnv+"="+parent)
	out, err := cmd.Output()
	path, what, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !ok || what != "<nil>" {
		t.Fatalf("the process that leaves a group: %s, %v", out, err)
	}
	return path
}

// TestSweepUndoesWhatAKilledRunEnabled checks that Sweep disables on v2 what a killed run enabled. On v1 nothing is
// enabled.
func TestSweepUndoesWhatAKilledRunEnabled(t *testing.T) {
	host := liveHost(t)
	cpu, _ := host.Hierarchy(cgroup.CPU)
	outer := newGroup(t, host, "", scratch.Name("test-scratch"))
	handedDown := func() string {
		data, err := host.Root().ReadFile(cpu.Mount + "/" + outer.Path() + "/cgroup.subtree_control")
		if err != nil && cpu.Version == 2 {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	sweep := func(want ...string) {
		t.Helper()
		removed, err := scratch.Sweep(host, outer.Path(), "berth-left")
		if diff := cmp.Diff(want, removed); err != nil || diff != "" {
			t.Errorf("Sweep: %v, removed (-want +got):\n%s", err, diff)
		}
	}
	hasCPU := func(when string, want bool) {
		t.Helper()
		if got := slices.Contains(strings.Fields(handedDown()), "cpu"); got != (want && cpu.Version == 2) {
			t.Errorf("%s: %q is handed down", when, handedDown())
		}
	}
	before := picture(t, host)
	hasCPU("before", false)
	left := killed(t, outer.Path())
	hasCPU("after the run was killed", true)
	sweep(left)
	hasCPU("swept", false)

	// Another group that was made since then may rely on the controller.
	left = killed(t, outer.Path())
	other := newGroup(t, host, outer.Path(), scratch.Name("other"))
	sweep(left)
	hasCPU("swept beside a new group", true)
	if err := other.Handle().Has(cgroup.CPU); err != nil {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	sweep()
	hasCPU("swept again", false)

	// Sweep leaves the group of a living owner alone.
	mine := newGroup(t, host, outer.Path(), scratch.Name("left"))
	sweep()
	hasCPU("swept beside a living owner's group", true)
	if err := mine.Close(); err != nil {
		t.Error(err)
	}
	hasCPU("closed", false)
	if diff := cmp.Diff(before, picture(t, host)); diff != "" {
		t.Errorf("the hierarchies changed (-before +after):\n%s", diff)
	}
}
