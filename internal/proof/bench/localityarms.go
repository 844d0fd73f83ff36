package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	// fillTimeout is how long a loader has to fill its memory.
	fillTimeout = 10 * time.Minute
	// moveOwn is MPOL_MF_MOVE of include/uapi/linux/mempolicy.h, which the mover uses.
	moveOwn = 1 << 1
	// batchPages is how many pages the kernel moves at once, which bounds how long a thread waits for a page.
	batchPages = 512
	// victimEvery is the time between two requests of the victim.
	victimEvery = 2 * time.Millisecond
)

// called is one call that moved pages, and its duration.
type called struct {
	list []uint64
	took time.Duration
}

// recorder is the kernel, and records the mover's calls.
type recorder struct {
	pages.Kernel

	calls []called
	// kept is the time that recording took, which is no part of a pass.
	kept time.Duration
}

// MovePages records the call if it moves pages.
func (r *recorder) MovePages(pid int, addresses []uint64, nodes, status []int32, flags int) (int, error) {
	began := kernel.Monotonic()
	n, err := r.Kernel.MovePages(pid, addresses, nodes, status, flags)
	took := kernel.Monotonic() - began
	if nodes != nil {
		r.calls = append(r.calls, called{slices.Clone(addresses), took})
		r.kept += kernel.Monotonic() - began - took
	}
	return n, err
}

// subject is a process whose pages move, in its own group.
type subject struct {
	sides
	*Spread

	o      *LocalityOptions
	group  string
	kernel pages.Kernel
	alive  func() error
}

func (o *LocalityOptions) subject(s sides, group string, pid int, alive func() error) (*subject, error) {
	k := pages.Live(o.Root)
	spread, err := OpenSpread(k, pid, s.local, s.remote)
	if err != nil {
		return nil, err
	}
	return &subject{s, spread, o, group, k, alive}, nil
}

// loader is a subject that the benchmark loads.
type loader struct {
	*subject

	stage *Stage
}

// loader starts a process that fills its memory on the remote node, and spreads that memory.
func (o *LocalityOptions) loader(ctx context.Context, s sides, name string, percent int, args ...string) (*loader, error) {
	cpus := s.localCPUs
	if slices.Contains(args, "--hog") {
		cpus = s.remoteCPUs
	}
	args = append([]string{"fill", "--mib", strconv.Itoa(o.MiB), "--fill", s.remoteCPUs.String(), "--then", cpus.String()}, args...)
	stage, err := OpenStage(o.Place, name, unit.NoLimit, args...)
	if err != nil {
		return nil, err
	}
	l := &loader{stage: stage}
	filling, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	if _, err = stage.child.FirstLine(filling); err == nil {
		l.subject, err = o.subject(s, stage.Path(), stage.child.PID(), stage.child.Alive)
	}
	if err == nil {
		if slices.Contains(args, "--huge") {
			l.unit = pages.HugeSize
		}
		err = l.Place(percent)
	}
	if err != nil {
		return nil, errors.Join(err, stage.Close())
	}
	return l, nil
}

// pass makes the mover move all pages to the local node.
func (s *subject) pass(ctx context.Context, rate int64) (mover.Report, *recorder, error) {
	rec := &recorder{Kernel: s.kernel}
	m := mover.New(mover.Options{
		Root: s.o.Root, Host: s.o.Place.Host, Clock: kernel.Monotonic, Log: slog.New(slog.DiscardHandler), Kernel: rec,
	})
	m.Order(mover.Order{Key: s.group, Group: s.group, Local: cpuset.Set{}.Add(s.local), Nodes: s.nodes, Rate: rate})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(running) }()
	done := func() (bool, error) { return m.Reports()[0].Phase == mover.Done, nil }
	err := Await(ctx, done, s.alive)
	stop()
	err = errors.Join(err, <-ended)
	r := m.Reports()[0]
	return r, rec, errors.Join(err, r.Err)
}

// bare makes only the calls for the lists, and returns the duration of each call.
func (s *subject) bare(lists [][]uint64) ([]time.Duration, error) {
	var took []time.Duration
	for _, list := range lists {
		nodes := slices.Repeat([]int32{int32(s.local)}, len(list))
		status := make([]int32, len(list))
		began := kernel.Monotonic()
		if _, err := s.kernel.MovePages(s.process.PID, list, nodes, status, moveOwn); err != nil {
			return nil, fmt.Errorf("bare call for %d pages: %w", len(list), err)
		}
		took = append(took, kernel.Monotonic()-began)
	}
	return took, nil
}

// speed measures passes and bare loops over the same pages of one process, in the order pass, loop, loop, pass. The
// loops make the calls of the first pass.
func (o *LocalityOptions) speed(ctx context.Context, s sides, from start) (t LocalityTrial, err error) {
	var args []string
	if from.huge {
		args = append(args, "--huge")
	}
	l, err := o.loader(ctx, s, "loader", from.percent, args...)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, l.stage.Close()) }()
	t = LocalityTrial{Start: from.String(), EndPercent: 100, Left: map[locality.Left]int64{}}
	splits, err := o.splits()
	if err != nil {
		return t, err
	}
	if t.HugeKiBBefore, err = l.hugeKiB(); err != nil {
		return t, err
	}
	if err := t.turns(ctx, l.subject, from.percent); err != nil {
		return t, err
	}
	if t.HugeKiBAfter, err = l.hugeKiB(); err != nil {
		return t, err
	}
	after, err := o.splits()
	if t.Splits = after - splits; after < 0 {
		t.Splits = after
	}
	return t, err
}

// turns runs the passes and loops.
func (t *LocalityTrial) turns(ctx context.Context, s *subject, percent int) (err error) {
	var lists [][]uint64
	for _, loop := range []bool{false, true, true, false} {
		if err := s.Place(percent); err != nil {
			return err
		}
		if t.StartPercent, err = s.Percent(); err != nil {
			return err
		}
		if loop {
			err = t.loop(s, lists)
		} else {
			lists, err = t.pass(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pass measures a pass, and returns the lists of its calls.
func (t *LocalityTrial) pass(ctx context.Context, s *subject) (lists [][]uint64, err error) {
	r, made, err := s.pass(ctx, 0)
	if err != nil {
		return nil, err
	}
	t.PassBytes += r.Bytes()
	t.PassSeconds += (r.Ended - r.Started - made.kept).Seconds()
	t.LookSeconds += r.Looked.Seconds()
	for _, c := range made.calls {
		lists = append(lists, c.list)
		t.CallSeconds += c.took.Seconds()
	}
	for why, n := range r.Left {
		t.Left[why] += n
	}
	percent, err := s.Percent()
	t.EndPercent = min(t.EndPercent, percent)
	return lists, err
}

// loop measures a bare loop.
func (t *LocalityTrial) loop(s *subject, lists [][]uint64) error {
	before, _, err := s.here()
	if err != nil {
		return err
	}
	took, err := s.bare(lists)
	if err != nil {
		return err
	}
	for _, d := range took {
		t.BareSeconds += d.Seconds()
	}
	after, _, err := s.here()
	t.BareBytes += int64(after-before) * pages.Size
	return err
}

// hugeKiB returns how much of the process is in huge pages of the kernel.
func (s *subject) hugeKiB() (int64, error) {
	return s.o.number(fmt.Sprintf("proc/%d/smaps_rollup", s.process.PID), "AnonHugePages:")
}

// splits returns how many huge pages the kernel has split.
func (o *LocalityOptions) splits() (int64, error) { return o.number("proc/vmstat", "thp_split_page ") }

func (o *LocalityOptions) number(file, name string) (int64, error) {
	n, err := number(o.Root.FS(), file, name)
	if err != nil {
		return 0, fmt.Errorf("bench locality: %w", err)
	}
	return n, nil
}

// The windows of a victim's requests.
const (
	Before = "before"
	During = "during"
	After  = "after"
)

// limited measures the requests of a process before, during and after a pass under a limit, beside a hog on the other
// node, whose pages must stay. Before and after these windows it times bare calls of one batch for the same pages,
// beside the same hog and requests.
func (o *LocalityOptions) limited(ctx context.Context, s sides, repetition int) (t LocalityLimited, r Repetition, err error) {
	file, remove, err := o.samples(repetition)
	defer func() { err = errors.Join(err, os.RemoveAll(remove)) }()
	if err != nil {
		return t, r, err
	}
	hog, err := o.loader(ctx, s, "hog", 0, "--hog")
	if err != nil {
		return t, r, err
	}
	defer func() { err = errors.Join(err, hog.stage.Close()) }()
	l, err := o.loader(ctx, s, "victim", MixedPercent, "--every", victimEvery.String(), "--out", file)
	if err != nil {
		return t, r, err
	}
	defer func() { err = errors.Join(err, l.stage.Close()) }()
	hogBefore, err := hog.Percent()
	if err != nil {
		return t, r, err
	}
	bare, err := l.batches()
	if err == nil {
		err = l.Place(MixedPercent)
	}
	if err != nil {
		return t, r, err
	}
	if err := load.Pause(ctx, o.Window); err != nil { // Requests that waited while pages were spread end in this time.
		return t, r, err
	}
	began := kernel.Monotonic()
	report, err := o.pace(ctx, l, &t)
	if err != nil {
		return t, r, err
	}
	hogAfter, err := hog.Percent()
	if err != nil {
		return t, r, err
	}
	t.HogMovedPercent = hogAfter - hogBefore
	ended := kernel.Monotonic()
	if err := l.Place(MixedPercent); err != nil {
		return t, r, err
	}
	more, err := l.batches()
	if err != nil {
		return t, r, err
	}
	t.batches(append(bare, more...))
	if err := l.stage.child.Finish(); err != nil {
		return t, r, err
	}
	r, err = t.read(file, []time.Duration{began, report.Started, report.Ended, ended})
	return t, r, err
}

// pace makes the pass, with a window before and after it.
func (o *LocalityOptions) pace(ctx context.Context, l *loader, t *LocalityLimited) (r mover.Report, err error) {
	_, nodes, err := l.census()
	if err != nil {
		return r, err
	}
	remote := 0
	for _, n := range nodes {
		if int(n) == l.remote {
			remote++
		}
	}
	limit := int64(float64(remote*pages.Size) / o.Limited.Seconds())
	if err := load.Pause(ctx, o.Window); err != nil {
		return r, err
	}
	if r, _, err = l.pass(ctx, limit); err != nil {
		return r, err
	}
	t.LimitMiBps, t.MiBps, t.Seconds = float64(limit)/(1<<20), r.Rate/(1<<20), (r.Ended - r.Started).Seconds()
	t.Calls, t.LongestCallMillis, t.Pauses = r.Calls, inMillis(r.Longest), r.Pauses
	return r, load.Pause(ctx, o.Window)
}

// batches moves the remote pages by bare calls of one batch each, and returns the duration of each call.
func (s *subject) batches() ([]time.Duration, error) {
	list, nodes, err := s.census()
	if err != nil {
		return nil, err
	}
	var away []uint64
	for i, n := range nodes {
		if int(n) == s.remote {
			away = append(away, list[i])
		}
	}
	return s.bare(slices.Collect(slices.Chunk(away[:len(away)/batchPages*batchPages], batchPages)))
}

// batches summarizes bare calls of one batch each.
func (t *LocalityLimited) batches(took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	t.BatchMillis, t.LongestBatchMillis = inMillis(took[len(took)/2]), inMillis(took[len(took)-1])
}

// read sorts the requests into the windows between the times.
func (t *LocalityLimited) read(name string, times []time.Duration) (Repetition, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	all, err := load.ReadTouched(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	r, stalls := Repetition{}, []*float64{&t.StallBeforeMillis, &t.StallMillis, &t.StallAfterMillis}
	for i, name := range []string{Before, During, After} {
		var o Outcome
		for _, one := range all {
			if one.Intended >= times[i] && one.Intended < times[i+1] {
				o.Samples = append(o.Samples, load.Sample{Intended: one.Intended - times[i], Latency: one.Latency, Status: http.StatusOK})
				*stalls[i] = max(*stalls[i], inMillis(one.Stall))
			}
		}
		r[name] = o
	}
	return r, nil
}

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
