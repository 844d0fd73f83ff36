package tune_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
)

// TestPartitions checks units whose CPU set has a partition. The unit becomes the partition, after its CPUs are set.
// Below another group, the groups above first give away their CPUs, from the top down, in addition to the CPUs of other
// partitions. A set without a unit gets a slice of Berth's. The plan reports a host without systemd, and a kernel
// without such partitions.
func TestPartitions(t *testing.T) {
	_, m := host(t, "6.12")
	const root = "/sys/fs/cgroup"
	facts := knob.Facts{Unified: root, Remote: true, Units: map[string]bool{}, Groups: map[string]string{}}
	for name, group := range map[string]string{"top.slice": "/top.slice", "a.service": "/system.slice/a.service", "b.service": "/system.slice/b.service"} {
		facts.Units[name], facts.Groups[name] = true, root+group
	}
	booted := facts
	booted.Systemd = true
	older := facts
	older.Remote = false
	files := map[string]string{
		root + "/system.slice/cpuset.cpus.exclusive": "0", root + "/top.slice/cpuset.cpus.partition": "root",
		root + `/berth\x2done.slice/cpuset.cpus.partition`: "isolated", root + `/berth\x2done.slice/cpuset.cpus.effective`: "1",
	}
	const sets = "  cpus: {one: {cpus: '1', partition: isolated}, two: {cpus: '2', partition: root}}\n"
	for name, tc := range map[string]struct {
		spec  string
		facts knob.Facts
		want  []string
	}{
		"at the top": {"  units: [{unit: top.slice, cpus: one}]\n", facts, []string{
			"unit.cpus top.slice: -> 1 settable", "cpus.partition top.slice: root -> isolated settable", "cpus.partition two: -> root 2 absent",
		}},
		"a slice of Berth's for each set": {"", booted, []string{
			`cpus.partition berth\x2done.slice: isolated 1 -> isolated 1 settable`, `cpus.partition berth\x2dtwo.slice: none -> root 2 settable`,
		}},
		"below": {"  units: [{unit: a.service, cpus: one, policy: batch}, {unit: b.service, cpus: two}]\n", facts, []string{
			"unit.cpus a.service: -> 1 settable", "unit.cpus b.service: -> 2 settable",
			"cpus.exclusive system.slice: 0 -> 0-2 settable", "cpus.exclusive a.service: -> 1 settable", "cpus.exclusive b.service: -> 2 settable",
			"cpus.partition a.service: member -> isolated settable", "cpus.partition b.service: member -> root settable", "unit.policy a.service: -> batch settable",
		}},
		"below, before 6.7": {"  units: [{unit: a.service, cpus: one}]\n", older, []string{
			"unit.cpus a.service: -> 1 settable", "cpus.partition a.service: member -> isolated absent", "cpus.partition two: -> root 2 absent",
		}},
		"no such unit": {"  units: [{unit: x.service, cpus: one}]\n", facts, []string{
			"unit.cpus x.service: -> 1 absent", "cpus.partition x.service: -> isolated absent", "cpus.partition two: -> root 2 absent",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec:\n"+sets+tc.spec, m)
			var got []string
			for _, s := range tune.Make(b, tune.Host{Facts: tc.facts, Files: files}, nil).Settings {
				now := strings.TrimSpace(fmt.Sprintf("%s: %s", s.Name(), s.Now))
				got = append(got, fmt.Sprintf("%s -> %s %s", now, s.Want, s.Support))
				if s.Phase == knob.Partitions && s.Why == "" || s.Support == knob.Settable && s.Write != s.Want {
					t.Errorf("%+v", s)
				}
				if own := strings.HasPrefix(s.Instance, `berth\x2d`); s.OwnSlice != own || own && !strings.Contains(s.Why, "Slice="+s.Instance+";") {
					t.Errorf("a slice of Berth's: %t, and the plan says how services join: %s", s.OwnSlice, s.Why)
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestUnitsOfOnePartition checks that two units cannot both be the partition of the same CPUs.
func TestUnitsOfOnePartition(t *testing.T) {
	_, m := host(t, "6.12")
	text := "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec:\n  cpus: {one: {cpus: '1', partition: root}}\n  units: [{unit: a.service, cpus: one}, {unit: b.service, cpus: one}]\n"
	_, err := profile.Bind(parsed(t, text), m)
	if err == nil || !strings.Contains(err.Error(), `field spec.units[1].cpus: value "one": allowed: a set of its own: a.service is the partition of this one`) {
		t.Error(err)
	}
}
