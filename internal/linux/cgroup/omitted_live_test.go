package cgroup_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/scratch"
)

// blindEnv makes the test binary a process that reports whether the groups in its arguments have processes, on the host
// below this directory. waitEnv makes it a process that waits for the end of its input.
const (
	blindEnv = "BERTH_TEST_BLIND"
	waitEnv  = "BERTH_TEST_WAIT"
)

func lookBlind() {
	root, err := hostfs.Open(os.Getenv(blindEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	host, err := cgroup.Open(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, group := range os.Args[1:] {
		some, err := cgroup.HasProcesses(host, group)
		fmt.Println(group, some, err != nil)
	}
	os.Exit(0)
}

// occupied returns whether groups of a host have processes, as seen from a separate pid namespace: "true", "false", or
// "error".
func occupied(t *testing.T, root string, groups ...string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], groups...)
	cmd.Env = append(os.Environ(), blindEnv+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		var group, some, failed string
		if _, err := fmt.Sscan(line, &group, &some, &failed); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if found[group] = some; failed == "true" {
			found[group] = "error"
		}
	}
	return found
}

// hold starts a process that waits to be ended. It moves the process into the group, and into the group's counterpart
// in the hierarchy of the pids controller if that exists.
func (l *live) hold(g *scratch.Group) (end func()) {
	l.Helper()
	cmd := exec.CommandContext(l.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), waitEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	l.must(err)
	l.must(cmd.Start())
	l.Cleanup(func() { _ = cmd.Process.Kill() })
	l.must(g.Attach(cmd.Process.Pid))
	if dir := l.counting(g.Path()); dir != "" {
		err := os.WriteFile(dir+"/cgroup.procs", fmt.Append(nil, cmd.Process.Pid), 0)
		if !errors.Is(err, fs.ErrNotExist) {
			l.must(err)
		}
	}
	return func() {
		l.must(in.Close())
		l.must(cmd.Wait())
	}
}

// counting returns the directory of a group in the v1 hierarchy of the pids controller, if that hierarchy is separate.
func (l *live) counting(group string) string {
	hier, err := l.host.Hierarchy(cgroup.PIDs)
	if err != nil || hier.Version != 1 {
		return ""
	}
	for _, c := range cgroup.Controllers() {
		if other, err := l.host.Hierarchy(c); err != nil || other.Mount == hier.Mount {
			return ""
		}
	}
	return hier.Mount + "/" + group
}

// omitted reads groups from a pid namespace in which no process of the group has an id. v2 lists such processes as 0,
// v1 omits them.
func (l *live) omitted() {
	sub, err := l.group.Sub("sub")
	l.must(err)
	top, below := l.group.Path(), sub.Path()
	check := func(when, wantTop, wantBelow string) {
		l.Helper()
		want := map[string]string{top: wantTop, below: wantBelow, top + "/none": "false"}
		if diff := cmp.Diff(want, occupied(l.T, "/", top, below, top+"/none")); diff != "" {
			l.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	uncounted := l.version == 1
	if dir := l.counting(top); uncounted && dir != "" {
		check("v1, not counted by pids", "true", "true")
		for _, made := range []string{dir, l.counting(below)} {
			l.must(os.Mkdir(made, 0o755))
			l.Cleanup(func() { _ = os.Remove(made) }) // one is removed earlier
		}
		uncounted = false
	}
	empty := fmt.Sprint(uncounted)
	check("no process yet", empty, empty)
	end := l.hold(sub)
	check("a process runs below", "true", "true")
	end()
	check("it has ended", empty, empty)
	end = l.hold(l.group)
	check("a process runs", "true", empty)
	end()
	if dir := l.counting(below); l.version == 1 && dir != "" {
		l.must(os.Remove(dir))
		check("the hierarchy of pids has lost the group below", "false", "false")
	}
	l.must(sub.Close())
	check("it is removed", empty, "false")
}

func wait() {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// TestOmitted checks how the hierarchies of a host appear to a reader that does not see all threads.
func TestOmitted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a pid namespace; runs in the VM: make test")
	}
	const (
		v1    = "31 23 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu\n32 23 0:29 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
		pids1 = "33 23 0:30 / /cg/pids rw - cgroup cgroup rw,pids\n"
		pids2 = "34 23 0:31 / /cg/unified rw - cgroup2 cgroup2 rw\n"
	)
	for name, tt := range map[string]struct {
		mounts string
		files  map[string]string
		want   map[string]string
	}{
		"counted": {v1 + pids1, map[string]string{
			"cpu/a/cgroup.procs": "", "pids/a/pids.current": "3\n", "cpu/b/cgroup.procs": "", "pids/b/pids.current": "0\n",
			"cpu/own/cgroup.procs": "7\n", "pids/own/pids.current": "1\n",
		}, map[string]string{"a": "true", "b": "false", "own": "true"}},
		"without the controller": {v1, map[string]string{"cpu/a/cgroup.procs": ""}, map[string]string{"a": "true", "gone": "false"}},
		"no group there":         {v1 + pids1, map[string]string{"cpu/a/b/cgroup.procs": "", "cpu/a/cgroup.procs": ""}, map[string]string{"a": "true", "a/b": "true"}},
		"left by systemd": {v1 + pids1, map[string]string{
			"cpuset/pods/pod/box/cgroup.procs": "", "pids/pods/pids.current": "9\n",
		}, map[string]string{"pods/pod/box": "false"}},
		"by v2":           {v1 + pids2, map[string]string{"cpu/a/cgroup.procs": "", "unified/a/pids.current": "1\n"}, map[string]string{"a": "true"}},
		"none by v2":      {v1 + pids2, map[string]string{"cpu/a/cgroup.procs": "", "unified/a/pids.current": "0\n"}, map[string]string{"a": "false"}},
		"not on in v2":    {v1 + pids2, map[string]string{"cpu/a/b/cgroup.procs": "", "unified/a/pids.current": "0\n", "unified/a/b/cgroup.procs": ""}, map[string]string{"a/b": "true"}},
		"torn list":       {v1 + pids1, map[string]string{"cpu/a/cgroup.procs": "4x\n", "pids/a/pids.current": "0\n"}, map[string]string{"a": "error"}},
		"unreadable file": {v1 + pids1, map[string]string{"cpu/a/cgroup.procs": "", "pids/a/pids.current/x": ""}, map[string]string{"a": "true"}},
	} {
		files := map[string]string{"proc/self/mountinfo": tt.mounts, "cg/unified/cgroup.controllers": "pids\n"}
		for file, text := range tt.files {
			files["cg/"+file] = text
		}
		var groups []string
		for group := range tt.want {
			groups = append(groups, group)
		}
		root := written(t, files).Root().Path()
		if diff := cmp.Diff(tt.want, occupied(t, root, groups...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
