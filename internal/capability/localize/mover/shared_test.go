package mover_test

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/pages"
)

// share makes a process map the memory of another process's last mapping.
func (f *fake) share(from, to *process) *mapping {
	m := *from.mappings[len(from.mappings)-1]
	to.mappings = append(to.mappings, &m)
	for _, g := range m.folios {
		g.shared = true
	}
	return &m
}

// memfd gives a process a mapping of shared memory.
func (p *process) memfd(n, on int) *mapping {
	m := anonymous(0x7fb000000000, n, on)
	m.rights, m.path, m.inode = "rw-s", "/memfd:x (deleted)", 42
	for _, g := range m.folios {
		g.file = true
	}
	p.mappings = append(p.mappings, m)
	return m
}

// TestSharedMemory: shared memory of several processes moves if all of them are in the group. Otherwise it stays.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	const own, both = 10, 3000
	for name, tt := range map[string]struct {
		change func(f *fake, first, second *process)
		stays  bool
		warns  bool
		cheap  bool // no process outside of the group is read
	}{
		"two of the group": {change: func(*fake, *process, *process) {}},
		"huge pages": {change: func(f *fake, first, second *process) {
			m := huge(0x7fb000000000, 4, 1, false)
			m.rights, m.path, m.inode = "rw-s", "/memfd:x (deleted)", 43
			first.mappings[1], second.mappings[1] = m, m
			for _, g := range m.folios {
				g.file, g.shared = true, true
			}
		}},
		"an outsider": {change: func(f *fake, first, _ *process) {
			f.add(9, 1, 0).outside = true
			f.share(first, f.processes[9])
		}, stays: true},
		"an outsider whose leader is a zombie": {change: func(f *fake, first, _ *process) {
			p := f.add(9, 1, 0)
			p.outside, p.zombie, p.threads = true, true, []int{9, 10}
			f.share(first, p)
		}, stays: true},
		"an outsider that maps it as private": {change: func(f *fake, first, _ *process) {
			f.add(9, 1, 0).outside = true
			f.share(first, f.processes[9]).rights = "r--p"
		}, stays: true},
		"an outsider that ended":       {change: func(f *fake, _, _ *process) { p := f.add(9, 1, 0); p.outside, p.zombie = true, true }},
		"an outsider with other pages": {change: func(f *fake, _, _ *process) { p := f.add(9, 1, 0); p.outside = true; p.memfd(5, 1).inode = 41 }},
		"no CAP_SYS_NICE":              {change: func(f *fake, _, _ *process) { f.noNice = true }, stays: true, warns: true, cheap: true},
		"a pid namespace of its own":   {change: func(f *fake, _, _ *process) { f.blind = true }, stays: true, warns: true, cheap: true},
		"private pages of a file": {change: func(_ *fake, first, second *process) {
			first.mappings[1].rights, second.mappings[1].rights = "rw-p", "rw-p"
		}, stays: true, cheap: true},
		"after a fork": {change: func(_ *fake, first, second *process) {
			for _, p := range []*process{first, second} {
				p.mappings[1].rights, p.mappings[1].path, p.mappings[1].inode = "rw-p", "", 0
			}
			for _, g := range first.mappings[1].folios {
				g.file = false
			}
		}, stays: true, cheap: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(2)
				first, second := f.add(1, own, 1), f.add(2, own, 1)
				first.memfd(both, 1)
				f.share(first, second)
				tt.change(f, first, second)
				f.add(100, 1, 0).outside = true
				read := 0
				f.opening = func(name string) {
					if name == "proc/100/maps" {
						read++
					}
				}
				r := run(t, f, order(t, f))
				stay, left := int64(0), int64(0)
				if tt.stays {
					stay, left = both, 2*both
				}
				if f.on(1)[1] != stay || r.Left[locality.LeftShared] != left || r.Outcome != locality.Completed {
					t.Errorf("%v: %+v", f.on(1), r)
				}
				if (len(r.Warnings) > 0) != tt.warns || f.splits > 0 {
					t.Errorf("warned %q, split %d", r.Warnings, f.splits)
				}
				if tt.cheap && read > 0 || !tt.stays && read != 1 {
					t.Errorf("a process outside of the group was read %d times", read)
				}
			})
		})
	}
}

// TestNoScan: without shared memory of several processes, a pass does not read processes outside of the group.
func TestNoScan(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 10, 1).memfd(100, 1)
		f.add(100, 1, 0).outside = true
		f.opening = func(name string) {
			if name == "proc" || strings.HasPrefix(name, "proc/100/") {
				t.Errorf("opened %s", name)
			}
		}
		if r := run(t, f, o); r.Bytes() != 110*pages.Size {
			t.Errorf("%+v", r)
		}
	})
}

// TestSharedMemoryIsLookedAtAgain: a long pass notices an outside process that maps the memory later.
func TestSharedMemoryIsLookedAtAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		first, second := f.add(1, 1, 0), f.add(2, 1, 0)
		first.memfd(50_000, 1)
		f.share(first, second)
		o.Rate = 8 << 20 // 25 s
		var before int64
		f.before = func(n int) {
			if n != 4 {
				return
			}
			before = f.on(1)[1]
			f.mu.Lock()
			defer f.mu.Unlock()
			f.add(9, 1, 0).outside = true
			f.share(first, f.processes[9])
		}
		r := run(t, f, o)
		if stay := f.on(1)[1]; stay == 0 || stay < before/3 || stay == 50_000 || r.Left[locality.LeftShared] < stay {
			t.Errorf("%d of %d stay: %+v", stay, before, r)
		}
	})
}

// TestNewMember: a process that joins the group during the scan does not count as an outside process.
func TestNewMember(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		first, second := f.add(1, 1, 0), f.add(2, 1, 0)
		first.memfd(100, 1)
		f.share(first, second)
		f.opening = func(name string) {
			if name == "proc" {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.share(first, f.add(3, 1, 0))
			}
		}
		if r := run(t, f, o); f.on(1)[1] != 0 || r.Left[locality.LeftShared] != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestUnreadable: if one process cannot be read, it is unknown who maps the shared memory, so the memory stays.
func TestUnreadable(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		first, second := f.add(1, 1, 0), f.add(2, 1, 0)
		first.memfd(100, 1)
		f.share(first, second)
		f.add(9, 1, 0).outside = true
		f.opening = func(name string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.refuse = nil; name == "proc/9/maps" {
				f.refuse = syscall.EACCES
			}
		}
		if r := run(t, f, o); r.Err != nil || f.on(1)[1] != 100 || r.Left[locality.LeftShared] != 200 || len(r.Warnings) != 1 {
			t.Errorf("%+v", r)
		}
	})
}
