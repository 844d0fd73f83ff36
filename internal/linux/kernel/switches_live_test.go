package kernel

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/test/kernel/job"
)

// TestLiveSwitchesMissNothing checks that the records continue across readings: on each CPU the process before a switch
// is the process that the switch before it began. Threads switch all the time, and readings follow each other closely.
// Not every host can run it: the kernel of one virtual machine (Linux 6.18) records, while it idles, up to a third of its
// switches nowhere.
func TestLiveSwitchesMissNothing(t *testing.T) {
	guest, err := job.Guest()
	if err != nil {
		t.Fatal(err)
	}
	if !guest {
		t.Skip("a host's kernel may record no switch of a CPU that idles; runs in the VM: make test")
	}
	cpus, err := OwnGroupCPUs()
	if err != nil {
		t.Fatal(err)
	}
	s, err := RecordSwitches(cpus)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var sleepers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		sleepers.Go(func() {
			runtime.LockOSThread()
			for {
				select {
				case <-done:
					return
				default:
					time.Sleep(20 * time.Microsecond)
				}
			}
		})
	}
	running, count, missed := map[int]int{}, 0, 0
	for count < 2000 {
		all, lost := s.Read()
		if lost > 0 {
			t.Fatalf("%d lost", lost)
		}
		for _, one := range all {
			before, known := running[one.CPU]
			if known && one.Before.Process != before && one.Before.Process != math.MaxUint32 { // a thread that ended has no process
				missed++
			}
			running[one.CPU], count = one.Now.Process, count+1
		}
	}
	close(done)
	sleepers.Wait()
	if missed > 0 {
		t.Errorf("%d of %d switches follow another switch that is not recorded", missed, count)
	}
}
