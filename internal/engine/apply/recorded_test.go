package apply_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// The groups of the recorded journal other than app.
const (
	recordedPod  = "kubepods/pod1/c"
	recordedUnit = "system.slice/redis.service"
)

// newRecordedHost returns the host of the recorded journal as Berth left it.
func newRecordedHost(t *testing.T) *plainHost {
	t.Helper()
	p := newPlainHost(t, "400000 100000", "200000")
	p.write("sys/devices/system/cpu/online", "0-3")
	p.write("sys/devices/system/cpu/possible", "0-3")
	p.write("sys/fs/cgroup/cpuset.cpus.effective", "0-3")
	for group, cpus := range map[string]string{
		"kubepods": "", "kubepods/pod1": "", "system.slice": "", recordedPod: "0-1", recordedUnit: "2-3",
	} {
		p.write("sys/fs/cgroup/"+group+"/cgroup.controllers", "cpuset cpu")
		p.write("sys/fs/cgroup/"+group+"/cpuset.cpus", cpus)
		p.write("sys/fs/cgroup/"+group+"/cpuset.cpus.effective", "0-3")
	}
	return p
}

// recordedJournal writes the journal that Berth wrote at commit 80a17d1, with the identities of this host's groups.
func (p *plainHost) recordedJournal(torn int) string {
	p.t.Helper()
	data, err := os.ReadFile("../journal/testdata/format2/journal")
	must(p.t, err)
	ids := map[string]string{}
	for recorded, path := range map[string]string{"10028808": "app", "10028820": recordedPod, "10028813": recordedUnit} {
		g, err := p.host.Group(path)
		must(p.t, err)
		id, err := g.ID(cgroup.CPUSet)
		must(p.t, err)
		must(p.t, g.Close())
		ids[recorded] = fmt.Sprintf(`"id":"%d:%d"`, id.Dev, id.Ino)
	}
	line := regexp.MustCompile(`(?m)^\{"crc":"[0-9a-f]{8}","rec":(.*)\}$`)
	identity := regexp.MustCompile(`"id":"65024:([0-9]+)"`)
	data = line.ReplaceAllFunc(data, func(framed []byte) []byte {
		rec := identity.ReplaceAllFunc(line.FindSubmatch(framed)[1], func(id []byte) []byte {
			return []byte(ids[string(identity.FindSubmatch(id)[1])])
		})
		crc := crc32.Checksum(rec, crc32.MakeTable(crc32.Castagnoli))
		return fmt.Appendf(nil, `{"crc":"%08x","rec":%s}`, crc, rec)
	})
	dir := p.t.TempDir()
	must(p.t, os.WriteFile(filepath.Join(dir, "journal"), data[:len(data)-torn], 0o600))
	return dir
}

// forgetfulUnits is a systemd that forgets lists.
type forgetfulUnits struct{ calls []string }

func (u *forgetfulUnits) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	u.calls = append(u.calls, fmt.Sprintf("%s %s=%s", unit, k, v))
	return nil
}

// TestRestoreOfARecording checks that the values of a recorded journal are restored, even if its last line is cut off.
// Files are restored as files, and the list of a unit through systemd.
func TestRestoreOfARecording(t *testing.T) {
	for name, torn := range map[string]int{"whole": 0, "torn": 20} {
		t.Run(name, func(t *testing.T) {
			p := newRecordedHost(t)
			if torn > 0 { // the write that the truncated record announced was never made
				p.write("sys/fs/cgroup/app/cpu.max.burst", "300000")
			}
			units := &forgetfulUnits{}
			kinds := cgroupfile.Kinds(p.host, units)
			j := openJournal(t, p.recordedJournal(torn))
			planned := outcomes(apply.Compare(kinds, j.Entries()))
			restored(t, apply.New(kinds, j, apply.Options{}), "restored restored restored restored")
			if planned != "restored restored restored restored" {
				t.Errorf("compared as %q", planned)
			}
			got := map[string]string{
				"cpu.max": p.read("cpu.max"), "cpu.max.burst": p.read("cpu.max.burst"),
				recordedPod: p.read("../" + recordedPod + "/cpuset.cpus"), recordedUnit: p.read("../" + recordedUnit + "/cpuset.cpus"),
			}
			want := map[string]string{"cpu.max": "150000 100000", "cpu.max.burst": "50000", recordedPod: "", recordedUnit: ""}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the host (-want +got):\n%s", d)
			}
			if want := []string{"redis.service cpuset.cpus=inherit"}; !slices.Equal(units.calls, want) {
				t.Errorf("systemd was asked for %q, want %q", units.calls, want)
			}
			if n := len(j.Entries()); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
}

// TestUnknownDriver checks that a target with a driver that this program lacks is an error, and its entry stays.
func TestUnknownDriver(t *testing.T) {
	p := newPlainHost(t, "200000 100000", "")
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(p.host, nil), j, apply.Options{})
	c := plan.Change{Setting: plan.Setting{
		Target: plan.Target{Driver: "thread", Object: "7", Knob: "cookie"}, ID: "7", Value: "1", Owner: "isolate",
	}, From: "0"}
	if r := a.Apply([]plan.Change{c})[0]; !errors.Is(r.Err, apply.ErrNoDriver) || r.Wrote || r.Applied() {
		t.Errorf("%+v", r)
	}
	must(t, a.Record([]plan.Change{c}))
	list := a.Restore(nil, false)
	if got := outcomes(list); got != "failed" || !errors.Is(list[0].Err, apply.ErrNoDriver) || len(j.Entries()) != 1 {
		t.Errorf("%q: %v, entries %v", got, list[0].Err, j.Entries())
	}
}
