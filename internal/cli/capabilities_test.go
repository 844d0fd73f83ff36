package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent"
	"github.com/berth-project/berth/internal/agent/checkpoint"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/newcomer"
)

// TestNewCapability uses a capability that no file of this package names. An agent reported it and its owner changed a
// value, and every command must handle it.
func TestNewCapability(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.reportNewcomer()
	h.change()
	run := func(args ...string) string {
		t.Helper()
		out, err := h.withNewcomer(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"status": {[]string{"status"}, []string{
			"; node use 31 % of 3 CPUs; 1 bunks\n", "\nbunks: all made\n", "THROTTLED  BUNK   SINCE", "no. 1", "problem: a bunk squeaks",
		}},
		"status as JSON":  {[]string{"status", "-o", "json"}, []string{`"newcomerNode": {`, `"newcomer": {`, `"owner": "newcomer"`}},
		"status as YAML":  {[]string{"status", "-o", "yaml"}, []string{"newcomerNode:\n  bunks: 1\n", "  newcomer:\n    bunk: 1\n"}},
		"explain":         {[]string{"explain", "app"}, []string{"  bunk      no. 1\n", "  warning   it snores\n", "first reason: it was there"}},
		"explain as JSON": {[]string{"explain", "app", "-o", "json"}, []string{`"newcomerNode": {`}},
		"rollback":        {[]string{"rollback", "--dry-run", "--owner", "newcomer"}, []string{"would restore", "newcomer"}},
		"completion":      {[]string{"__complete", "rollback", "--owner", ""}, []string{"place\t", "newcomer\ta bunk for every workload\n"}},
		"configuration":   {[]string{"agent", "--print-config"}, []string{"\nnewcomer:\n  # Bunks of this node.\n  bunks: 2\n\n"}},
	} {
		out := run(c.args...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", name, want, out)
			}
		}
	}
	if out := run("rollback", "--dry-run", "--owner", "burst"); !strings.Contains(out, "nothing to put back") {
		t.Errorf("rollback of burst: %s", out)
	}
	if _, err := h.withNewcomer("rollback", "--owner", "other"); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "allowed: burst, isolate, place, pool, newcomer") {
		t.Errorf("rollback of an owner that is none: %v", err)
	}
}

// TestTopReportsNewCapability: berth top has the report about the node of a capability that no file of this package
// names, and names a capability whose report it cannot read.
func TestTopReportsNewCapability(t *testing.T) {
	t.Parallel()
	report := reportLines(append(agent.Capabilities(), newcomer.Info()))
	o := (&newcomer.Newcomer{Workloads: []string{"app"}}).Outcome(time.Time{})
	got := report(&view.View{Node: o.Node})
	for _, want := range []string{"1 bunks", "bunks: all made"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	got = report(&view.View{Node: capability.Sections{"node": "busy"}})
	if len(got) != 1 || !strings.HasPrefix(got[0], "report of burst: section node: ") {
		t.Errorf("an unreadable report: %q", got)
	}
	if got := reportLines(nil)(&view.View{}); got != nil {
		t.Errorf("without capabilities: %q", got)
	}
}

// reportNewcomer adds the newcomer's report to the recorded checkpoint, as an agent does.
func (h host) reportNewcomer() {
	h.t.Helper()
	cp, err := checkpoint.Load(filepath.Join(h.dir, "state"))
	if err != nil {
		h.t.Fatal(err)
	}
	n := &newcomer.Newcomer{Workloads: []string{"app"}}
	o := n.Outcome(time.Time{})
	if err := errors.Join(cp.Sections.Add(o.Node), cp.Sections.Add(n.State())); err != nil {
		h.t.Fatal(err)
	}
	cp.Problems = append(cp.Problems, o.Problems...)
	w := &cp.Workloads[0]
	w.Warnings = append(w.Warnings, o.Rows[0].Warnings...)
	w.Sections[newcomer.Info().Name] = o.Rows[0].Section
	data, err := json.Marshal(cp)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("state/checkpoint.json", string(data))
}

// change records in the journal that the newcomer changed the quota of a group, and changes it.
func (h host) change() {
	h.t.Helper()
	h.write("sys/fs/cgroup/app/cgroup.controllers", "cpu\n")
	h.write("sys/fs/cgroup/app/cpu.max", "70000 100000\n")
	root, err := hostfs.Open(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	defer root.Close()
	host, err := cgroup.Open(root)
	if err != nil {
		h.t.Fatal(err)
	}
	group, err := host.Group("app")
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = group.Close() }()
	id, err := group.ID(cgroup.CPU)
	if err != nil {
		h.t.Fatal(err)
	}
	setting := plan.Setting{
		Target: cgroupfile.Target("app", cgroup.KnobMax), ID: cgroupfile.Identity(id), Value: "70000 100000",
		Owner: newcomer.Owner, Workload: "app", Why: "it was there",
	}
	j := h.live()
	err = j.Begin(journal.Entry{
		Target: setting.Target, ID: setting.ID, Original: "50000 100000", Intent: setting.Value,
		Owner: setting.Owner, Workload: setting.Workload, Why: setting.Why,
	})
	if err := errors.Join(err, j.Intend(plan.Change{Setting: setting, From: "50000 100000"})); err != nil {
		h.t.Fatal(err)
	}
}

// withNewcomer runs a command of a program that includes the newcomer's capability.
func (h host) withNewcomer(args ...string) (string, error) {
	h.t.Helper()
	var out, problems bytes.Buffer
	root := newRoot(Streams{Out: &out, Err: &problems}, Program{Name: "berth", Version: "test"}, append(agent.Capabilities(), newcomer.Info()))
	if args[0] != "__complete" {
		args = append(args, "--root", h.dir, "--config", filepath.Join(h.dir, "agent.yaml"))
	}
	root.SetArgs(args)
	err := root.ExecuteContext(h.t.Context())
	return out.String(), err
}

// TestUnreadableReport: a report that its capability cannot parse is an error that names the capability.
func TestUnreadableReport(t *testing.T) {
	t.Parallel()
	for name, checkpoint := range map[string]string{
		"report of burst: section node: ":              `{"bootID":"b","workloads":[],"node":"busy"}`,
		"report of place: section cpus: ":              `{"bootID":"b","workloads":[],"cpus":"all"}`,
		"report of burst: workload w: section burst: ": `{"bootID":"b","workloads":[{"name":"w","burst":7}]}`,
	} {
		h := newHost(t)
		h.write("state/checkpoint.json", checkpoint)
		h.live()
		if _, err := h.withNewcomer("status"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("status says %v, want %q", err, name)
		}
	}
}
