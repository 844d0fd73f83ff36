package cgroupfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/pages"
)

// locks is the kernel of a desk on which the memory maps of some processes are locked.
type locks struct {
	*desk

	mu     sync.Mutex
	locked map[int]chan struct{}
	opened []int // whose files were opened
}

func (l *locks) Open(name string) (fs.File, error) {
	var pid int
	if _, err := fmt.Sscanf(name, "proc/%d/", &pid); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	l.mu.Lock()
	l.opened = append(l.opened, pid)
	free := l.locked[pid]
	l.mu.Unlock()
	if free != nil {
		<-free
	}
	return l.host.Root().FS().Open(name)
}

func (l *locks) ReadFile(name string) ([]byte, error) { return l.host.Root().ReadFile(name) }

func (*locks) MovePages(int, []uint64, []int32, []int32, int) (int, error) {
	return 0, errors.New("a driver moves nothing")
}

// TestMemsWhereAProcessDoesNotAnswer: memory nodes of a group in which the memory map of a process is locked stay, whoever
// writes them: the kernel would wait for the lock with that of all cpusets. The first such process ends the questions,
// and the wait for it is the only one.
func TestMemsWhereAProcessDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		beside bool // the caller
		stay   bool // pages stay, as on cgroup v1
		below  bool // the process is in a group below
	}{
		"the caller waits":         {},
		"beside the caller":        {beside: true},
		"where pages stay":         {stay: true},
		"a process in group below": {below: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				free := make(chan struct{})
				l := &locks{desk: d, locked: map[int]chan struct{}{9: free}}
				aside := d.aside
				if !c.beside {
					aside = nil
				}
				d.kinds = kindsOf(knownHost{d.host, pages.Within(l)}, nil, aside)
				for _, pid := range []int{8, 9, 10} {
					d.write(fmt.Sprintf("proc/%d/pagemap", pid), "12345678")
					d.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (db) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 7 1", pid))
				}
				list := "sys/fs/cgroup/db/cgroup.procs"
				if c.below {
					d.write("sys/fs/cgroup/db/below/cgroup.controllers", "\n")
					list = "sys/fs/cgroup/db/below/cgroup.procs"
				}
				d.write(list, "8\n9\n10\n77\n")
				if c.stay {
					d.write("sys/fs/cgroup/db/cpuset.memory_migrate", "0\n")
				}
				began := time.Now()
				for _, mems := range []cgroup.Value{"0", "0-2", cgroup.Inherit} {
					err := d.asks(mems)
					if errors.Is(err, apply.ErrDeferred) || !errors.Is(err, pages.ErrStuck) ||
						!strings.Contains(err.Error(), `of "db" stay 0-1`) || !strings.Contains(err.Error(), "process 9 ") {
						t.Errorf("%s: %v", mems, err)
					}
				}
				if d.aside.Wait(); d.stands() != "" {
					t.Errorf("it has %q", d.stands())
				}
				if passed := time.Since(began); passed != time.Second {
					t.Errorf("three writes were refused within %v", passed)
				}
				if got := fmt.Sprint(l.opened); got != "[8 9 8 8]" {
					t.Errorf("processes %s were asked", got)
				}
				if err := d.asks("0-1"); errors.Is(err, pages.ErrStuck) {
					t.Errorf("what it has: %v", err)
				}
				d.aside.Wait()
				close(free)
				synctest.Wait()
				l.locked = nil
				if err := d.asks("0"); err != nil && !errors.Is(err, apply.ErrDeferred) && !errors.Is(err, apply.ErrNotEffective) {
					t.Errorf("once it answers: %v", err)
				}
				if d.aside.Wait(); d.stands() != "0" {
					t.Errorf("once it answers it has %q", d.stands())
				}
			})
		})
	}
}
