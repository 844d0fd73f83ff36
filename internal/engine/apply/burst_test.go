package apply_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/test/plain"
)

// plainHost is a cgroup v2 host of plain files with one group, "app".
type plainHost struct {
	*plain.Host
	t    *testing.T
	host *cgroup.Host
}

func newPlainHost(t *testing.T, limit, burst string) *plainHost {
	t.Helper()
	p := &plainHost{Host: plain.WithGroups(t, "cpuset cpu"), t: t}
	p.write("sys/fs/cgroup/app/cgroup.controllers", "cpuset cpu")
	p.write("sys/fs/cgroup/app/cpu.max", limit)
	if burst != "" {
		p.write("sys/fs/cgroup/app/cpu.max.burst", burst)
	}
	p.host = p.Cgroups()
	return p
}

func (p *plainHost) write(name, content string) { p.Write(name, content+"\n") }

func (p *plainHost) read(name string) string { return p.Read("sys/fs/cgroup/app/" + name) }

// faulty changes the burst as cpu_max_write() of the faulty kernels does.
func (p *plainHost) faulty() apply.Options {
	return apply.Options{Step: func(s apply.Step, target plan.Target) {
		if cgroupfile.Knob(target) != cgroup.KnobMax || s != apply.StepWritten && s != apply.StepRestored {
			return
		}
		burst, err := strconv.Atoi(p.read("cpu.max.burst"))
		must(p.t, err)
		p.write("sys/fs/cgroup/app/cpu.max.burst", strconv.Itoa(burst/1000))
	}}
}

// Some kernels divide the burst at each write to cpu.max. No writer may lose its burst by that, neither when the quota
// is raised nor when it is restored.
func TestBurstOutlivesTheQuota(t *testing.T) {
	for _, burst := range []int{0, 999, 1000, 30_000, 123_456} {
		t.Run(fmt.Sprint("somebody's ", burst), func(t *testing.T) {
			p := newPlainHost(t, "200000 100000", strconv.Itoa(burst))
			a := apply.New(cgroupfile.Kinds(p.host, nil), openJournal(t, t.TempDir()), p.faulty())
			for _, quota := range []string{"300000 100000", "250000 100000"} {
				s := maxTo("app", 0)
				s.Value = plan.Value(quota)
				if r := a.Apply(changes(t, p.host, s))[0]; r.Err != nil {
					t.Fatal(r.Err)
				}
				if got := p.read("cpu.max") + ", " + p.read("cpu.max.burst"); got != fmt.Sprintf("%s, %d", quota, burst) {
					t.Errorf("the host has %s, want %s, %d", got, quota, burst)
				}
			}
			restored(t, a, "restored")
			if got := p.read("cpu.max") + ", " + p.read("cpu.max.burst"); got != fmt.Sprintf("200000 100000, %d", burst) {
				t.Errorf("restored to %s", got)
			}
		})
	}
	t.Run("Berth's", func(t *testing.T) {
		p := newPlainHost(t, "200000 100000", "50000")
		a := apply.New(cgroupfile.Kinds(p.host, nil), openJournal(t, t.TempDir()), p.faulty())
		for _, r := range a.Apply(changes(t, p.host, maxTo("app", 3*period), burstTo("app", 3*period))) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		for _, r := range a.Apply(changes(t, p.host, maxTo("app", 4*period))) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if got := p.read("cpu.max.burst"); got != "300000" {
			t.Errorf("burst %s, want 300000", got)
		}
		restored(t, a, "restored restored")
		if got := p.read("cpu.max") + ", " + p.read("cpu.max.burst"); got != "200000 100000, 50000" {
			t.Errorf("restored to %s", got)
		}
	})
}

// Only a burst that was divided by 1000 is restored. Any other value belongs to another writer.
func TestBurstOfSomebodyIsLeftAlone(t *testing.T) {
	p := newPlainHost(t, "200000 100000", "50000")
	a := apply.New(cgroupfile.Kinds(p.host, nil), openJournal(t, t.TempDir()), at(apply.StepWritten, func() {
		p.write("sys/fs/cgroup/app/cpu.max.burst", "7000")
	}))
	if r := a.Apply(changes(t, p.host, maxTo("app", 3*period)))[0]; r.Err != nil {
		t.Error(r.Err)
	}
	if got := p.read("cpu.max.burst"); got != "7000" {
		t.Errorf("burst %s, want 7000", got)
	}
}

func TestKernelWithoutBurst(t *testing.T) {
	p := newPlainHost(t, "200000 100000", "")
	a := apply.New(cgroupfile.Kinds(p.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	if r := a.Apply(changes(t, p.host, maxTo("app", 3*period)))[0]; r.Err != nil {
		t.Error(r.Err)
	}
	restored(t, a, "restored")
}

// A crash after the write of the quota, before the burst is restored, leaves a divided burst that a rollback
// recognizes.
func TestCrashBeforeTheBurstIsBack(t *testing.T) {
	p := newPlainHost(t, "200000 100000", "50000")
	a := apply.New(cgroupfile.Kinds(p.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	for _, r := range a.Apply(changes(t, p.host, maxTo("app", 3*period), burstTo("app", 3*period))) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	p.write("sys/fs/cgroup/app/cpu.max.burst", "300")
	restored(t, a, "restored restored")
	if got := p.read("cpu.max") + ", " + p.read("cpu.max.burst"); got != "200000 100000, 50000" {
		t.Errorf("restored to %s", got)
	}
}
