package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/narrowing"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/containers"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/statedir"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/child"
	"github.com/berth-project/berth/test/kernel/mems"
	"github.com/berth-project/berth/test/patience"
)

// TestChild is a helper process in a group, with memory as told.
func TestChild(t *testing.T) { child.Serve(t, has) }

// The modes of set_mempolicy(2) and mbind(2), from include/uapi/linux/mempolicy.h.
const (
	useDefault = 0
	useBind    = 2
	interleave = 3
)

// has gives this process memory or a memory policy. It stays on its thread, because a thread started by a thread with a
// policy inherits the policy.
func has(what string) error {
	runtime.LockOSThread()
	var path string
	var size int64
	var node int
	switch word, rest, _ := strings.Cut(what, " "); word {
	case "hold": // private memory on a node
		if _, err := fmt.Sscan(rest, &size, &node); err != nil {
			return err
		}
		return holds(size, node)
	case "make", "map": // a file in memory: created on a node, or mapped from another process
		if _, err := fmt.Sscan(rest, &path, &size, &node); err != nil {
			return err
		}
		return mapsFile(path, size, node, word == "make")
	case "interleave":
		return setPolicy(interleave, 0, node1)
	}
	return nil
}

// piece is the size of one mapping. The agent does not read the memory policy of a mapping above 4 GiB.
const piece = 1 << 30

// holds allocates memory on a node.
func holds(size int64, node int) error {
	page := os.Getpagesize()
	for ; size > 0; size -= piece {
		n := int(min(size, piece))
		region, err := unix.Mmap(-1, 0, n+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		if err := unix.Mprotect(region[n:], unix.PROT_NONE); err != nil { // else the kernel merges two mappings
			return err
		}
		region = region[:n]
		if err := unix.Madvise(region, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: a kernel without huge pages
			return err
		}
		if err := placed(region, useBind, 1<<node); err != nil {
			return err
		}
		touchAll(region)
		if err := placed(region, useDefault, 0); err != nil {
			return err
		}
	}
	return nil
}

// node1 is the second node.
const node1 = 1

// setPolicy sets the memory policy of this thread.
func setPolicy(mode int, nodes ...int) error {
	var mask unix.CPUSet
	for _, n := range nodes {
		mask.Set(n)
	}
	return unix.SetMemPolicy(mode, &mask)
}

// placed gives a region a policy of its own, or none.
func placed(region []byte, mode int, nodes uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(region))), uintptr(len(region)),
		uintptr(mode), uintptr(unsafe.Pointer(&nodes)), 64, 0)
	if errno != 0 {
		return fmt.Errorf("policy %d of the region: %w", mode, errno)
	}
	return nil
}

// mapsFile maps a shared file. Its creator uses a thread policy for the node: a policy of the mapping would belong to
// the file, and the kernel would rebind it.
func mapsFile(path string, size int64, node int, makes bool) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if makes {
		if err := errors.Join(f.Truncate(size), setPolicy(useBind, node)); err != nil {
			return err
		}
	}
	region, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	touchAll(region)
	return setPolicy(useDefault)
}

func touchAll(region []byte) {
	for i := 0; i < len(region); i += pages.Size {
		region[i]++
	}
}

// questions returns how often each question is asked. Each answer's time counts from the scheduled time, so that a slow
// answer cannot hide the delay of later ones.
func questions() map[string]time.Duration {
	return map[string]time.Duration{
		mems.NRI: 100 * time.Millisecond, mems.Attach: 500 * time.Millisecond,
		mems.Status: time.Second, mems.Health: time.Second,
	}
}

// bed is a host of two NUMA nodes, with an agent of a cluster whose API server never answers.
type bed struct {
	*testing.T

	root         *hostfs.Root
	host         *cgroup.Host
	c            *controller
	dir          string
	right, wrong topology.Node
	report       *mems.Report
	taken        uint64
	made         atomic.Int64 // number of containers the runtime asked about
	failed       sync.Map     // first failure by question
	attached     [2]*scratch.Group
	attaches     *child.Child
}

func newBed(t *testing.T) *bed {
	t.Helper()
	if testing.Short() || os.Getuid() != 0 {
		t.Skip("takes a minute, and groups, which only root makes; runs in the VM: make verify-kernels")
	}
	b := &bed{T: t, dir: t.TempDir()}
	var err error
	b.root, err = hostfs.Open("/")
	b.must(err)
	t.Cleanup(func() { _ = b.root.Close() })
	top, err := topology.Discover(b.root.FS())
	b.must(err)
	if len(top.Nodes) < 2 || top.Nodes[0].CPUs.Size() < 2 || top.Nodes[1].CPUs.IsEmpty() {
		t.Skip("one NUMA node; runs in the VM: make verify-kernels")
	}
	b.right, b.wrong = top.Nodes[0], top.Nodes[1]
	b.host, err = cgroup.Open(b.root)
	b.must(err)
	hier, err := b.host.Hierarchy(cgroup.CPUSet)
	b.must(err)
	b.report = &mems.Report{
		Cgroup: hier.Version, Wrong: int(b.wrong.ID), Right: int(b.right.ID),
		Bytes: 96 << 20, // more than an agent moves in one write
	}
	if text := os.Getenv(mems.BytesVariable); text != "" {
		b.report.Bytes, err = strconv.ParseInt(text, 10, 64)
		b.must(err)
	}
	b.report.Shared = mems.SharedOf(b.report.Bytes)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	b.must(err)
	b.report.Kernel = strings.TrimSpace(string(release))
	b.runs()
	for i := range b.attached {
		b.attached[i] = b.group("mems-attach-" + strconv.Itoa(i))
	}
	b.attaches = child.Start(t, b.attached[0].Attach)
	return b
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// group creates a group with the memory controller.
func (b *bed) group(name string) *scratch.Group {
	b.Helper()
	g, err := scratch.New(b.host, "", scratch.Name(name))
	b.must(err)
	b.Cleanup(func() { _ = g.Close() })
	b.must(g.WithMemory())
	return g
}

// runs starts the agent as Run does, in a cluster that the test simulates. All CPUs of the wrong node are reserved, so
// that the agent pins to the right node.
func (b *bed) runs() {
	b.Helper()
	file := filepath.Join(b.dir, "agent.yaml")
	b.must(os.Mkdir(filepath.Join(b.dir, "workloads"), 0o700))
	b.must(os.WriteFile(file, fmt.Appendf(nil, "workloadDir: workloads\nstateDir: state\nlisten: 127.0.0.1:0\nreservedCPUs: %q\n", b.wrong.CPUs), 0o600))
	cfg, err := manifest.LoadConfig(file)
	b.must(err)
	base, begun := kernel.Monotonic(), time.Now()
	opts := Options{
		ConfigFile: file, Config: cfg, Version: "test", Root: b.root, Now: time.Now,
		Clock: func() time.Duration { return base + time.Since(begun) },
		Log:   slog.New(slog.NewTextHandler(b.Output(), nil)),
	}
	b.must(opts.describeKernel())
	j, err := journal.Open(cfg.StateDir, opts.BootID, driver.Values())
	b.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	w, err := opts.openWindow(ctx)
	b.must(err)
	opts.narrowing = narrowing.OnHost(b.root, b.host, opts.Clock)
	aside := cgroupfile.NewAside(opts.narrowing.May)
	opts.settles = newApplier(opts, b.host, j, nil, aside)
	c := newController(opts, b.host, j, writing{applier: opts.settles, systemd: systemd.Runs(), aside: aside})
	client, err := cluster.New(cluster.Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Node: "n", Identity: "i"})
	b.must(err)
	c.join(&connections{client: client, memory: statedir.NewMemory(cfg.StateDir, opts.BootID), runtime: new(containers.Runtime)})
	err = kubeletSays(c, kubelet.Reading{Whole: true})
	b.must(err)
	b.c = c
	var all errgroup.Group
	all.Go(func() error { return c.serve(ctx, w) })
	all.Go(func() error { return c.run(ctx) })
	all.Go(func() error { return c.windows.recorder.Run(ctx) })
	all.Go(func() error { return opts.narrowing.Run(ctx) })
	for _, one := range c.capabilities {
		if w, works := one.(worker); works {
			all.Go(func() error { return w.Run(ctx) })
		}
	}
	b.Cleanup(func() {
		cancel()
		if err := errors.Join(all.Wait(), j.Close()); err != nil {
			b.Error(err)
		}
	})
	b.knows()
}

// plain returns a pod in the shared pool, whose containers the runtime asks about.
func plain() *cluster.Pod {
	return &cluster.Pod{
		Key: "ns/plain", Object: cluster.Object{Namespace: "ns", Name: "plain", UID: "plain"}, From: cluster.APIServer,
		Pod: workload.Pod{
			Namespace: "ns", Name: "plain", UID: "plain", Scheduled: 100,
			Containers: []workload.Container{{Name: "main", Resources: workload.Resources{CPURequest: 100}}},
		},
	}
}

// sandbox returns a pod as the runtime reports it.
func sandbox(p *cluster.Pod) nri.Pod {
	return nri.Pod{ID: "box-" + p.UID, UID: p.UID, Namespace: "ns", Name: p.Name, CgroupParent: "berth-none", Annotations: p.Annotations}
}

// knows tells the agent about the plain pod and more pods, whose containers run in groups of the same name.
func (b *bed) knows(more ...*cluster.Pod) {
	b.Helper()
	b.taken++
	c, all := b.c, append([]*cluster.Pod{plain()}, more...)
	c.mu.Lock()
	c.inventory.Take(&cluster.Snapshot{
		Generation: b.taken, PodsFrom: cluster.APIServer, Pods: all,
		Node: cluster.Node{UID: "n", AllocatableMilli: int64(b.right.CPUs.Size()) * 1000},
	})
	c.cluster.settled, c.cluster.stale = true, true
	c.mu.Unlock()
	e := nri.Event{Kind: nri.Synchronize}
	for _, p := range all {
		e.Pods = append(e.Pods, sandbox(p))
	}
	for _, p := range more {
		e.Containers = append(e.Containers, nri.Container{
			ID: "c-" + p.UID, PodID: "box-" + p.UID, Name: "main", CgroupPath: p.Name, State: nri.Running,
		})
	}
	_, err := c.Handle(b.Context(), e)
	b.must(err)
}

// answers asks a question once.
func (b *bed) answers(ctx context.Context, question string) error {
	state := filepath.Join(b.dir, "state")
	switch question {
	case mems.NRI:
		e := nri.Event{Kind: nri.Create, Pod: sandbox(plain()), Container: nri.Container{
			ID: fmt.Sprintf("c-plain-%d", b.made.Add(1)), PodID: "box-plain", Name: "main", CgroupPath: "berth-none/none",
		}}
		_, err := b.c.Handle(ctx, e)
		e.Kind = nri.Remove
		_, gone := b.c.Handle(ctx, e)
		return errors.Join(err, gone)
	case mems.Status:
		_, err := window.View(ctx, state)
		return err
	case mems.Health:
		return window.CheckHealth(ctx, state)
	}
	b.attached[0], b.attached[1] = b.attached[1], b.attached[0]
	return b.attached[0].Attach(b.attaches.Process.Pid)
}

// asking is a run of all questions until their end.
type asking struct {
	until atomic.Pointer[time.Time]
	all   sync.WaitGroup
	mu    sync.Mutex
	times map[string]mems.Times
}

func (b *bed) asks() *asking {
	a := &asking{times: map[string]mems.Times{}}
	for question, every := range questions() {
		a.all.Go(func() {
			times := b.asksOne(question, every, &a.until)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.times[question] = times
		})
	}
	b.Cleanup(func() { a.end() }) // for an arm that fails early
	return a
}

// end stops the questions, waits for their answers, and returns the times of all answers so far.
func (a *asking) end() map[string]mems.Times {
	now := time.Now()
	a.until.Store(&now)
	a.all.Wait()
	return a.times
}

// asksOne repeats a question until the end.
func (b *bed) asksOne(question string, every time.Duration, until *atomic.Pointer[time.Time]) mems.Times {
	var took []time.Duration
	failed := 0
	ctx := context.WithoutCancel(b.Context())
	for next := time.Now(); ; next = next.Add(every) {
		time.Sleep(time.Until(next))
		if end := until.Load(); end != nil && !next.Before(*end) {
			return mems.TimesOf(took, failed)
		}
		if err := b.answers(ctx, question); err != nil {
			b.failed.LoadOrStore(question, err)
			failed++
		}
		took = append(took, time.Since(next))
	}
}

// party is a running group with memory on the wrong node, and optionally a bystander that shares a file with it.
type party struct {
	*bed

	group, other      *scratch.Group
	member, bystander *child.Child // nil bystander: nothing is shared
	file              string
	memory            *cgroup.Memory
	elsewhere         atomic.Int64
	written           atomic.Int64 // number of writes that removed a node
	arm               mems.Arm
	began             time.Time
	asking            *asking
	unwatch           func()
}

// party creates a group that the agent may pin.
func (b *bed) party(kind mems.Kind, shares bool) *party {
	b.Helper()
	p := &party{bed: b, arm: mems.Arm{Kind: kind, Writes: []mems.Write{}}}
	p.group = b.group("mems")
	var err error
	p.memory, err = p.group.Handle().Memory()
	b.must(err)
	p.member = child.Start(b.T, p.group.Attach)
	p.member.Tell(fmt.Sprintf("hold %d %d", b.report.Bytes, b.report.Wrong))
	if shares {
		p.other = b.group("mems-bystander")
		file, err := os.CreateTemp("/dev/shm", "berth-mems-")
		b.must(err)
		b.must(file.Close())
		p.file = file.Name()
		b.Cleanup(func() { _ = os.Remove(p.file) })
		p.bystander = child.Start(b.T, p.other.Attach)
		p.bystander.Tell(fmt.Sprintf("make %s %d %d", p.file, b.report.Shared, b.report.Wrong))
		p.member.Tell(fmt.Sprintf("map %s %d 0", p.file, b.report.Shared))
		p.member.Tell("interleave")
	}
	p.measure(func(a *mems.Arm) (*string, *string, *int64, *int64, *string) {
		return &a.Mems.Before, &a.CPUs.Before, &a.Elsewhere.Before, &a.Bystander.Before, &a.Policy.Before
	})
	p.elsewhere.Store(p.arm.Elsewhere.Before)
	if least := b.report.Bytes / 10 * 9; p.arm.Elsewhere.Before < least || shares &&
		(p.arm.Bystander.Before < b.report.Shared/10*9 || p.arm.Policy.Before != "interleave:0-1") {
		b.Fatalf("before: %+v, want %d bytes and more elsewhere", p.arm, least)
	}
	p.watch()
	p.began, p.asking = time.Now(), b.asks()
	return p
}

// measure records the state of the group and of the bystander.
func (p *party) measure(into func(*mems.Arm) (nodes, cpus *string, elsewhere, bystander *int64, policy *string)) {
	p.Helper()
	nodes, cpus, elsewhere, bystander, policy := into(&p.arm)
	effective, err := p.group.Handle().EffectiveMems()
	p.must(err)
	has, err := p.group.Handle().EffectiveCPUs()
	p.must(err)
	*nodes, *cpus, *policy = effective.String(), has.String(), p.policy()
	*elsewhere, err = p.remote()
	p.must(err)
	if p.bystander == nil {
		return
	}
	for range 50 { // A page that the kernel is compacting at this moment is missing.
		if *bystander = p.shares(); *bystander == cmp.Or(p.arm.Bystander.Before, *bystander) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// remote returns the bytes that the group is charged for on the wrong node.
func (p *party) remote() (int64, error) {
	now, err := p.memory.ByNode()
	return locality.Memory{Movable: now.Movable, File: now.File}.Remote(cpuset.Set{}.Add(p.report.Right)), err
}

// policy returns the memory policy of a thread of the group.
func (p *party) policy() string {
	p.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/numa_maps", p.member.Process.Pid))
	p.must(err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
			p.Fatal(err)
		}
		if found := regexp.MustCompile(`interleave\S+`).Find(text); found != nil {
			return string(found)
		}
	}
	return "default"
}

// shares returns the bytes of the shared file that the bystander has on the wrong node.
func (p *party) shares() (bytes int64) {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", p.bystander.Process.Pid))
	p.must(err)
	count := regexp.MustCompile(fmt.Sprintf(` N%d=(\d+)`, p.report.Wrong))
	for line := range strings.Lines(string(text)) {
		if found := count.FindStringSubmatch(line); found != nil && strings.Contains(line, "file="+p.file) {
			n, err := strconv.ParseInt(found[1], 10, 64)
			p.must(err)
			bytes += n * pages.Size
		}
	}
	return bytes
}

// watch starts to record writes of cpuset.mems, and the remote memory right before each.
func (p *party) watch() {
	p.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				if now, err := p.remote(); err == nil { // the group is gone at the end
					p.elsewhere.Store(now)
				}
			}
		}
	}()
	hier, err := p.host.Hierarchy(cgroup.CPUSet)
	p.must(err)
	seen := watchWrites(p, filepath.Join("/", hier.Mount, p.group.Path(), "cpuset.mems"))
	p.unwatch = sync.OnceFunc(func() {
		close(stop)
		<-ended
		seen()
	})
	p.Cleanup(p.unwatch)
}

// watchWrites records each write that removes a node from a party's group, until end is called. The kernel reports a
// change when a file is opened with truncation (do_truncate in fs/open.c), and a close after the write.
func watchWrites(p *party, name string) (end func()) {
	p.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	p.must(err)
	_, err = unix.InotifyAddWatch(fd, name, unix.IN_MODIFY|unix.IN_CLOSE_WRITE)
	p.must(err)
	handle, err := p.host.Group(p.group.Path(), cgroup.CPUSet) // for the goroutine alone
	p.must(err)
	events, ended := os.NewFile(uintptr(fd), "inotify"), make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 64<<10)
		var began time.Time
		var elsewhere int64
		for {
			n, err := events.Read(buf)
			if err != nil {
				return
			}
			now := time.Now()
			for at := 0; at+unix.SizeofInotifyEvent <= n; {
				e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
				at += unix.SizeofInotifyEvent + int(e.Len)
				switch {
				case e.Mask&unix.IN_CLOSE_WRITE != 0 && !began.IsZero():
					p.wrote(handle, now.Sub(began), elsewhere)
					began = time.Time{}
				case e.Mask&unix.IN_MODIFY != 0 && began.IsZero():
					began, elsewhere = now, p.elsewhere.Load()
				}
			}
		}
	}()
	return func() { _ = events.Close(); <-ended; _ = handle.Close() }
}

// wrote records a write that removed a node.
func (p *party) wrote(handle *cgroup.Group, took time.Duration, elsewhere int64) {
	has, err := handle.EffectiveMems()
	if err != nil || has.Contains(p.report.Wrong) {
		return
	}
	p.arm.Writes = append(p.arm.Writes, mems.Write{To: has.String(), Seconds: took.Seconds(), Elsewhere: elsewhere})
	p.written.Add(1)
}

// ends ends the arm, and the processes of its group.
func (p *party) ends() {
	p.Helper()
	p.arm.Seconds, p.arm.Answers = time.Since(p.began).Seconds(), p.asking.end()
	p.unwatch()
	p.measure(func(a *mems.Arm) (*string, *string, *int64, *int64, *string) {
		return &a.Mems.After, &a.CPUs.After, &a.Elsewhere.After, &a.Bystander.After, &a.Policy.After
	})
	p.report.Arms = append(p.report.Arms, p.arm)
	for _, c := range []*child.Child{p.member, p.bystander} {
		if c != nil {
			_, _ = c.Process.Kill(), c.Wait()
		}
	}
	if p.bystander != nil {
		p.must(errors.Join(os.Remove(p.file), p.other.Close()))
	}
	p.must(p.memory.Close())
	p.knows()
	p.must(p.group.Close())
}

// rest measures the questions while nothing else happens.
func (b *bed) rest() {
	began, all := time.Now(), b.asks()
	time.Sleep(10 * time.Second)
	b.report.Arms = append(b.report.Arms, mems.Arm{Kind: mems.Rest, Writes: []mems.Write{}, Seconds: time.Since(began).Seconds(), Answers: all.end()})
}

// raw writes memory nodes once from the loop under its mutex, as agents did up to 80a17d1.
func (b *bed) raw() {
	b.Helper()
	p := b.party(mems.Raw, true)
	hier, err := b.host.Hierarchy(cgroup.CPUSet)
	b.must(err)
	f, err := os.OpenFile(filepath.Join("/", hier.Mount, p.group.Path(), "cpuset.mems"), os.O_WRONLY, 0)
	b.must(err)
	defer f.Close()
	elsewhere := p.elsewhere.Load()
	b.c.mu.Lock()
	began := time.Now()
	_, err = f.WriteString(strconv.Itoa(b.report.Right))
	took := time.Since(began)
	b.c.mu.Unlock()
	b.must(err)
	p.arm.Why = "asked and written under the agent's mutex: whoever asks waits for the write"
	p.ends()
	own := &b.report.Arms[len(b.report.Arms)-1]
	own.Writes = []mems.Write{{To: own.Mems.After, Seconds: took.Seconds(), Elsewhere: elsewhere}}
}

// pod returns a pod that asks for a CPU of its own, and whose container is in the party's group.
func (p *party) pod(annotations map[string]string) *cluster.Pod {
	name := p.group.Path()
	annotations[v1alpha1.AnnotationCPUSetScheduler] = "true"
	return &cluster.Pod{
		Key: "ns/" + name, Object: cluster.Object{Namespace: "ns", Name: name, UID: name}, From: cluster.APIServer,
		Pod: workload.Pod{
			Namespace: "ns", Name: name, UID: name, Annotations: annotations, Scheduled: 1000,
			Containers: []workload.Container{{Name: "main", Resources: workload.Resources{
				CPURequest: 1000, CPULimit: 1000, MemoryLimit: p.report.Bytes + p.report.Shared, MemoryRequest: p.report.Bytes,
			}}},
		},
	}
}

// until waits until look returns "".
func (b *bed) until(look func() string) {
	b.Helper()
	if err := patience.Until(context.WithoutCancel(b.Context()), 500*time.Millisecond, look); err != nil {
		b.Fatal(err)
	}
}

// why returns the agent's reason for leaving memory nodes wide, "" for none.
func (b *bed) why() string {
	b.Helper()
	text, err := window.View(b.Context(), filepath.Join(b.dir, "state"))
	b.must(err)
	return string(regexp.MustCompile(`memory nodes stay [^"\\]*`).Find(text))
}

// pinned makes the agent pin a group whose memory nodes it may not narrow. It watches the group for as long as the raw
// write took, and at least ten seconds.
func (b *bed) pinned() {
	b.Helper()
	p := b.party(mems.Agent, true)
	b.knows(p.pod(map[string]string{}))
	b.until(func() string {
		cpus, err := p.group.Handle().EffectiveCPUs()
		b.must(err)
		if p.arm.Why = b.why(); cpus.Size() != 1 || p.arm.Why == "" || strings.Contains(p.arm.Why, "not looked at yet") {
			return fmt.Sprintf("its CPUs are %s, and it is said %q", cpus, p.arm.Why)
		}
		return ""
	})
	raw := b.report.Arms[len(b.report.Arms)-1].Writes[0].Seconds
	time.Sleep(max(10*time.Second, time.Duration(raw*float64(time.Second))))
	p.arm.Why = cmp.Or(b.why(), p.arm.Why)
	p.ends()
}

// moving makes the agent pin a group that asks to move its pages, and waits until its memory nodes are narrowed.
func (b *bed) moving() {
	b.Helper()
	p := b.party(mems.Moving, false)
	b.knows(p.pod(map[string]string{v1alpha1.AnnotationMemoryLocality: `{"policy":"bestEffort"}`}))
	right := strconv.Itoa(b.report.Right)
	b.until(func() string {
		nodes, err := p.group.Handle().EffectiveMems()
		b.must(err)
		if nodes.String() != right || p.written.Load() == 0 { // the nodes change before the write ends
			return fmt.Sprintf("its memory nodes are %s with %d MiB elsewhere: %s", nodes, p.elsewhere.Load()>>20, b.why())
		}
		return ""
	})
	time.Sleep(2 * time.Second) // so that the agent sees it
	p.ends()
}

// Berth does not narrow the memory nodes of a running group while the write would move remote memory or shared pages,
// or rebind a memory policy. It narrows them once the pages have moved. The raw arm shows what such a write does. The
// test judges no times.
func TestLiveMemsOfARunningGroup(t *testing.T) {
	b := newBed(t)
	b.rest()
	b.raw()
	b.pinned()
	b.moving()
	b.failed.Range(func(question, err any) bool {
		b.report.Warnings += fmt.Sprintf("%v: %v. ", question, err)
		return true
	})
	b.must(b.report.Print(t.Output()))
	if name := os.Getenv(mems.ReportVariable); name != "" {
		text, err := json.MarshalIndent(b.report, "", "  ")
		b.must(err)
		b.must(os.WriteFile(name, text, 0o600))
	}
	for _, broken := range b.report.Broken() {
		t.Error(broken)
	}
}
