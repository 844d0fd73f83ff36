package systemd

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestTakeBack: an agent without a connection to systemd restores only the files and forgets the originals. A rollback
// that reaches systemd uses the saved answers, so that no daemon-reload brings the values back.
func TestTakeBack(t *testing.T) {
	own, older := cpuset.Set{}.Add(2).Add(3), cpuset.Set{}.Add(1).Add(2).Add(3)
	answered := map[string]Answered{"a": {Pod: "uid", CPUs: []cpuset.Set{older, own}, NoQuota: true}}
	const monitor = "kubepods.slice/crio-conmon-a.scope"
	for name, tt := range map[string]struct {
		answers  map[string]Answered
		reloaded bool                  // before the rollback
		has      []byte                // on record; nil for the last answer
		list     string                // the list before the rollback; "" for the agent's
		restored map[apply.Outcome]int // outcomes of the values
		lost     []string
		want     [2]string // effective list and quota after a reload
	}{
		"at once":                  {answers: answered, restored: map[apply.Outcome]int{apply.OutcomeAlready: 2}, want: [2]string{"0-3", "42000 100000"}},
		"an older answer":          {answers: answered, has: []byte{0b1110}, restored: map[apply.Outcome]int{apply.OutcomeAlready: 2}, want: [2]string{"0-3", "42000 100000"}},
		"after a daemon-reload":    {answers: answered, reloaded: true, restored: map[apply.Outcome]int{apply.OutcomeRestored: 1}, lost: []string{runtimeScope}, want: [2]string{"0-3", "max 100000"}},
		"another list is its own":  {answers: answered, list: "0-1", restored: map[apply.Outcome]int{apply.OutcomeAlready: 2}, want: [2]string{"0-1", "42000 100000"}},
		"another's on record":      {answers: answered, has: []byte{0b0001}, restored: map[apply.Outcome]int{apply.OutcomeAlready: 1}, want: [2]string{"0", "42000 100000"}},
		"a quota was not answered": {answers: map[string]Answered{"a": {CPUs: []cpuset.Set{own}}}, restored: map[apply.Outcome]int{apply.OutcomeAlready: 1}, want: [2]string{"0-3", "max 100000"}},
		"another container":        {answers: map[string]Answered{"b": answered["a"]}, want: [2]string{"2-3", "max 100000"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, host, j := newReloader(t)
			r.scope("crio-conmon-a.scope", monitor, true)
			if left := apply.New(cgroupfile.Kinds(host, nil), j, apply.Options{Step: r.kernel}).Restore(nil, false); len(left) != 4 || len(j.Entries()) > 0 {
				t.Fatalf("the agent left %+v", left)
			}
			if tt.has != nil {
				r.units["cri-containerd-a.scope"]["AllowedCPUs"] = tt.has
			}
			if tt.reloaded {
				r.reload()
			}
			if tt.list != "" {
				r.write("sys/fs/cgroup/"+runtimeScope+"/cpuset.cpus", tt.list)
				r.write("sys/fs/cgroup/"+runtimeScope+"/cpuset.cpus.effective", tt.list)
			}
			s := New()
			s.dial = func() (bus, error) { return r, nil }
			a := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true})
			got := TakeBack(host, s, j, a, tt.answers)
			outcomes := map[apply.Outcome]int{}
			for _, one := range got.Restored {
				if outcomes[one.Outcome]++; one.Entry.Target.Object != runtimeScope || one.Err != nil {
					t.Errorf("%+v", one)
				}
			}
			for outcome, n := range tt.restored {
				if outcomes[outcome] != n || len(outcomes) != len(tt.restored) {
					t.Errorf("outcomes %v, want %v", outcomes, tt.restored)
				}
			}
			if len(got.Restored) > 0 != (len(tt.restored) > 0) || !slices.Equal(got.Lost, tt.lost) || got.Err != nil || len(j.Entries()) > 0 {
				t.Errorf("%+v, %d entries left", got, len(j.Entries()))
			}
			r.reload()
			has := [2]string{r.read(runtimeScope + "/cpuset.cpus.effective"), r.read(runtimeScope + "/cpu.max")}
			if has != tt.want {
				t.Errorf("after a daemon-reload %q, want %q", has, tt.want)
			}
			if again := TakeBack(host, s, j, a, tt.answers); len(again.Restored) > 0 {
				t.Errorf("once more: %+v", again)
			}
			if got := r.read(monitor + "/cpuset.cpus.effective"); got != "2-3" {
				t.Errorf("the monitor has %s", got)
			}
		})
	}
}

// TestTakeBackWithoutSystemd: if systemd does not answer, TakeBack returns an error and journals nothing.
func TestTakeBackWithoutSystemd(t *testing.T) {
	r, host, j := newReloader(t)
	_ = apply.New(cgroupfile.Kinds(host, nil), j, apply.Options{Step: r.kernel}).Restore(nil, false)
	s := New()
	s.dial = func() (bus, error) { return nil, errors.New("no bus") }
	a := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true})
	got := TakeBack(host, s, j, a, map[string]Answered{"a": {CPUs: []cpuset.Set{cpuset.Set{}.Add(2).Add(3)}}})
	if !errors.Is(got.Err, cgroupfile.ErrNoUnits) || len(got.Restored) > 0 || len(j.Entries()) > 0 {
		t.Errorf("%+v, %d entries left", got, len(j.Entries()))
	}
}

// TestTakeBackLeavesTheJournals: TakeBack leaves a target with a journal entry to the restoration of the journal.
func TestTakeBackLeavesTheJournals(t *testing.T) {
	r, host, j := newReloader(t)
	s := New()
	s.dial = func() (bus, error) { return r, nil }
	a := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true})
	before := len(j.Entries())
	got := TakeBack(host, s, j, a, map[string]Answered{"a": {CPUs: []cpuset.Set{cpuset.Set{}.Add(2).Add(3)}}})
	if _, known := j.Entry(cgroupfile.Target(runtimeScope, cgroup.KnobCPUs)); !known || len(j.Entries()) != before || len(got.Restored) > 0 || got.Err != nil {
		t.Errorf("%+v, %d entries of %d", got, len(j.Entries()), before)
	}
}
