package cookies

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cookie"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/coresched"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/test/child"
	"github.com/berth-project/berth/test/crash"
)

const (
	// passes is the number of passes in the storm. In one of joinEvery passes another process joins it.
	passes, joinEvery = 12, 4
	// brief is the lifetime of most threads of the storm, lasting that of every sixteenth.
	brief, lasting = time.Millisecond, 300 * time.Millisecond
)

// TestChild is a process that starts a storm of threads and processes on request.
func TestChild(t *testing.T) {
	child.Serve(t, func(what string) error {
		if what == "storm" {
			go threads()
			go threads()
			go forks(t)
		}
		return nil
	})
}

// threads starts short-lived threads. The Go runtime ends the thread of a goroutine that is locked to it.
func threads() {
	for n := 0; ; n++ {
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			time.Sleep(brief)
			if close(ended); n%16 == 0 {
				time.Sleep(lasting)
			}
		}()
		<-ended
	}
}

// forks starts short-lived processes.
func forks(t *testing.T) {
	for t.Context().Err() == nil {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^$")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		_ = cmd.Run()
	}
}

// storm is offline work that forks fast on this kernel, beside online work that does so too.
type storm struct {
	*testing.T

	host            *cgroup.Host
	offline, online *scratch.Group
	applier         *apply.Applier
	cookies         Offline
	now             time.Duration
	// gap is a lower bound of the time for which a thread of offline work had no cookie.
	gap time.Duration
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds on the real kernel: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("real cgroups need root; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	s := &storm{T: t}
	s.host, err = cgroup.Open(root)
	must(t, err)
	s.offline, s.online = s.group("offline"), s.group("online")
	j, err := journal.Open(t.TempDir(), "0f0f0f0f-boot", cookie.Values())
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s.applier = apply.New(cookie.Kinds(s.host), j, apply.Options{})
	s.cookies = New(s.host)
	t.Cleanup(s.cookies.Drop)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *storm) group(name string) *scratch.Group {
	s.Helper()
	g, err := scratch.New(s.host, "", scratch.Name("test-"+name))
	must(s.T, err)
	s.Cleanup(func() {
		if err := g.Close(); err != nil {
			s.Error(err)
		}
	})
	return g
}

// raging starts a process that forks fast and has no cookie.
func (s *storm) raging() *child.Child {
	s.Helper()
	c := child.Start(s.T, func(int) error { return nil }) // it joins its group once it rages
	c.Tell("storm")
	return c
}

// lacking returns the threads of offline work without a cookie, and the number of threads that have it.
func (s *storm) lacking() (lack []isolate.Joiner, have int) {
	s.Helper()
	now, err := cookie.Look(s.host, s.offline.Handle(), s.cookies.held.ID())
	must(s.T, err)
	c := New(s.host)
	c.starts = len(now.Lack)
	return c.joiners(now.Lack), len(now.Have)
}

// pass is a pass of the agent: it lists threads, writes the cookie where threads lack it, and lists them again. In the
// meantime the process joins, if any.
func (s *storm) pass(joins *child.Child) {
	s.Helper()
	joined := make(chan error, 1)
	go func() {
		if joined <- nil; joins != nil {
			joined <- s.offline.Attach(joins.Process.Pid)
		}
		close(joined)
	}()
	s.now += lookEvery
	d := s.cookies.Decide(s.now, "the test", []string{s.offline.Path()}, isolate.Sharing{})
	if len(d) != 1 {
		s.Fatalf("%d settings: %s", len(d), s.cookies.reason)
	}
	if len(s.cookies.Touched()) > 0 {
		s.write(d[0].Setting)
	}
	s.cookies.Saw()
	for err := range joined {
		must(s.T, err)
	}
}

// write gives the cookie to all threads, unless the storm is faster.
func (s *storm) write(setting plan.Setting) {
	s.Helper()
	stands := s.applier.Read([]plan.Target{setting.Target})[0]
	must(s.T, stands.Err)
	setting.ID = stands.ID
	r := s.applier.Apply([]plan.Change{{Setting: setting, From: stands.Value}})[0]
	if errors.Is(r.Err, apply.ErrNotEffective) {
		s.Log(r.Err)
		return
	}
	must(s.T, r.Err)
}

// apart checks that no thread of online work has a cookie.
func (s *storm) apart() {
	s.Helper()
	tids, _, err := s.host.ThreadIDs(s.online.Handle())
	must(s.T, err)
	for _, tid := range tids {
		if c, err := coresched.Of(tid); c != 0 || err != nil && !errors.Is(err, coresched.ErrGone) {
			s.Errorf("thread %d of online work has cookie %s, %v", tid, c, err)
		}
	}
}

// TestLiveCookieInAForkStorm lets offline work fork fast while processes join it one after another, some in the middle
// of a pass. Threads from before a pass must have the cookie after it, and online work that forks as fast must never
// have it. The reported gap must be no shorter than the observed one, and in the end no thread may have a cookie. A
// kernel without core scheduling must be reported.
func TestLiveCookieInAForkStorm(t *testing.T) {
	s := newStorm(t)
	if support, note := kernel.CoreScheduling(); support != kernel.Supported {
		if d := s.cookies.Decide(s.now, "the test", []string{s.offline.Path()}, isolate.Sharing{}); len(d) > 0 || s.cookies.reason == "" {
			t.Errorf("%s, and %d settings, reason %q", note, len(d), s.cookies.reason)
		}
		return
	}
	must(t, s.online.Attach(s.raging().Process.Pid))
	began := kernel.Boottime()
	s.pass(nil)
	must(t, s.offline.Attach(s.raging().Process.Pid))
	for n := range passes {
		var joins *child.Child
		if n%joinEvery == 1 {
			joins = s.raging()
		}
		before := s.without()
		s.pass(joins)
		after, _ := s.lacking()
		for _, one := range after {
			if slices.Contains(before, one) {
				t.Errorf("pass %d: thread %d had no cookie before it, and has none after it", n, one.TID)
			}
		}
		s.apart()
	}
	if lack, have := s.lacking(); len(lack) > 0 || have == 0 {
		t.Errorf("in the end %d threads have the cookie, and %d have none", have, len(lack))
	}
	if got := s.cookies.Status(); got.Lacking > 0 || got.Gap < s.gap.Seconds() || got.Gap > (kernel.Boottime()-began).Seconds() || s.gap == 0 {
		t.Errorf("%+v, want a gap of %s or more", got, s.gap)
	}
	crash.Undone(t, "in the storm", s.applier.Restore(nil, false))
	if _, have := s.lacking(); have > 0 {
		t.Errorf("%d threads have the cookie after it was put back", have)
	}
}

// without returns the threads of offline work without a cookie, and measures how long one of them runs in that state.
func (s *storm) without() []isolate.Joiner {
	s.Helper()
	first, _ := s.lacking()
	if len(first) == 0 {
		return nil
	}
	from := kernel.Boottime()
	time.Sleep(lasting / 3)
	to := kernel.Boottime()
	all, _ := s.lacking()
	if slices.ContainsFunc(all, func(one isolate.Joiner) bool { return slices.Contains(first, one) }) {
		s.gap = max(s.gap, to-from)
	}
	return all
}
