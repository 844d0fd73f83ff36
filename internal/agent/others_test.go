package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/agent/view"
)

// opens counts how often files were opened.
type opens struct {
	t  *testing.T
	fd int
}

// watched starts to count how often these files are opened.
func watched(t *testing.T, files ...string) opens {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	for _, file := range files {
		if _, err := unix.InotifyAddWatch(fd, file, unix.IN_OPEN); err != nil {
			t.Fatal(err)
		}
	}
	return opens{t, fd}
}

// count returns the number of opens since the last call. The kernel merges equal consecutive events until they are
// read.
func (o opens) count() (n int) {
	o.t.Helper()
	var buf [64 * unix.SizeofInotifyEvent]byte
	for {
		read, err := unix.Read(o.fd, buf[:])
		if errors.Is(err, unix.EAGAIN) {
			return n
		}
		if err != nil {
			o.t.Fatal(err)
		}
		for at := 0; at < read; n++ {
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[at+12:]))
		}
	}
}

// counts writes a group's counters of the kernel.
func (m *machine) counts(group string, periods, throttled int, used time.Duration) {
	m.write("sys/fs/cgroup/"+group+"/cpu.stat", fmt.Sprintf(
		"usage_usec %d\nnr_periods %d\nnr_throttled %d\nthrottled_usec 0\n", used.Microseconds(), periods, throttled))
}

// While nobody watches, the agent does not read a workload that did not ask for burst. While somebody watches, it reads
// the workload every ten seconds, and the view shows how its quota throttled it.
func TestOthersAreReadWhileSomebodyLooks(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.group = "idle"
		m.addGroup("idle", "max 100000")
		m.workload(`{"policy": "none"}`)
		m.boot()
		m.run(3*time.Second, 0.1)
		files := watched(t, m.path("sys/fs/cgroup/app/cpu.stat"))
		m.run(time.Minute, 0.1)
		if n := files.count(); n != 0 {
			t.Errorf("read %d times while nobody looked", n)
		}
		v := &viewer{agent: m.controls}
		reads := map[int]int{}
		var last *view.View
		for second := range 35 {
			m.counts(app, 10*second, 4*second, time.Duration(second)*200*time.Millisecond)
			files.count() // the test's own opens
			var err error
			if last, err = v.look(); err != nil {
				t.Fatal(err)
			}
			if n := files.count(); n > 0 {
				reads[second] = n
			}
			m.run(time.Second, 0.1)
		}
		if len(reads) != 4 || reads[0] == 0 || reads[10] == 0 || reads[20] == 0 || reads[30] == 0 {
			t.Errorf("read at the seconds %v, want 0, 10, 20, 30", reads)
		}
		want := &view.Throttling{Limit: 0.5, Used: 0.2, Seconds: 10, Periods: 100, Throttled: 40, BurstHelps: true}
		if diff := cmp.Diff(want, last.Workloads[0].Throttling); diff != "" || last.Workloads[0].Name != app {
			t.Errorf("%s (-want +got):\n%s", last.Workloads[0].Name, diff)
		}
		m.run(time.Minute, 0.1)
		if n := files.count(); n != 0 {
			t.Errorf("read %d times after the last one looked", n)
		}
		if last, err := v.look(); err != nil || last.Workloads[0].Throttling != nil {
			t.Errorf("compared with what another one saw: %+v, %v", last.Workloads[0].Throttling, err)
		}
		_ = m.stop()
	})
}

// A service that is no workload is in the view once its quota throttled it, by the name of its group. An instance of a
// template is in a slice of its own.
func TestThrottledServicesAreShown(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		const busy, calm, free = "system.slice/busy.service", "system.slice/calm.service", "system.slice/free.service"
		const slice, instance, deep = "system.slice/system-db.slice", "system.slice/system-db.slice/db@1.service", "system.slice/busy.service/inner"
		for group, quota := range map[string]string{
			"system.slice": "max 100000", busy: "50000 100000", calm: "50000 100000", free: "max 100000",
			slice: "max 100000", instance: "50000 100000", deep: "50000 100000",
		} {
			m.addGroup(group, quota)
			m.counts(group, 0, 0, 0)
		}
		m.boot()
		v := &viewer{agent: m.controls}
		if _, err := v.look(); err != nil {
			t.Fatal(err)
		}
		m.run(10*time.Second, 0.1)
		m.counts(busy, 100, 40, 2*time.Second)
		m.counts(instance, 100, 40, 2*time.Second)
		m.counts(deep, 100, 40, 2*time.Second)
		m.counts(calm, 100, 0, 2*time.Second)
		m.counts(free, 100, 40, 2*time.Second)
		last, err := v.look()
		if err != nil {
			t.Fatal(err)
		}
		much := &view.Throttling{Limit: 0.5, Used: 0.2, Seconds: 10, Periods: 100, Throttled: 40, BurstHelps: true}
		want := []view.Workload{{Name: busy, Throttling: much}, {Name: instance, Throttling: much}}
		var got []view.Workload
		for _, w := range last.Workloads {
			if w.Throttling != nil && w.Status == nil {
				got = append(got, w)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("unmanaged (-want +got):\n%s", diff)
		}
		_ = m.stop()
	})
}
