package isolate

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestManaged checks which groups count as managed: pods by the group above all of them, workloads by their own group.
// A workload inside another managed group counts with that group.
func TestManaged(t *testing.T) {
	for what, test := range map[string]struct {
		work []observed.Pod
		want string
		fail bool
	}{
		"pods by cgroupfs": {work: []observed.Pod{{UID: "1", Group: "kubepods/besteffort/pod1"}, {UID: "2", Group: "kubepods/pod2"}}, want: "kubepods"},
		"by systemd":       {work: []observed.Pod{{UID: "1", Group: "kubepods.slice/kubepods-pod1.slice"}}, want: "kubepods.slice"},
		"below a root": {
			work: []observed.Pod{{UID: "1", Group: "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice"}},
			want: "kubelet.slice/kubelet-kubepods.slice",
		},
		"workloads": {
			work: []observed.Pod{{Group: "batch.slice/a.service"}, {Group: "web"}, {Group: "web/cache"}, {Group: "web/db"}, {Group: "web"}, {Group: "web-2"}},
			want: "batch.slice/a.service web web-2",
		},
		"a pod of no known group beside another one": {work: []observed.Pod{{UID: "1", Here: true}, {UID: "2", Group: "kubepods/pod2"}}, want: "kubepods"},
		"one that nothing was made of":               {work: []observed.Pod{{UID: "1"}, {Group: "web"}}, want: "web"},
		"a pod of no known group":                    {work: []observed.Pod{{Name: "ns/a", UID: "1", Here: true}, {Group: "web"}}, fail: true},
	} {
		got, err := Managed(test.work)
		if strings.Join(got, " ") != test.want || (err != nil) != test.fail {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// TestSystem checks that the system's use is what no managed group used, and never negative. It is unknown before the
// second sample, when a group appears, disappears or restarts its counter, and after a failed reading.
func TestSystem(t *testing.T) {
	const s = unit.CPUTime(time.Second)
	var y System
	now := time.Hour
	for i, step := range []struct {
		busy unit.CPUTime
		used map[string]unit.CPUTime
		lost string
		want unit.CPUs
		why  string
	}{
		{busy: 100 * s, used: map[string]unit.CPUTime{"a": 50 * s, "b": s}, why: "first"},
		{busy: 160 * s, used: map[string]unit.CPUTime{"a": 70 * s, "b": 21 * s}, want: 2}, // 60 s in 10, of which 40 are managed
		{busy: 170 * s, used: map[string]unit.CPUTime{"a": 80 * s, "b": 22 * s}},
		{busy: 180 * s, used: map[string]unit.CPUTime{"a": 80 * s}, why: "changed"},
		{busy: 190 * s, used: map[string]unit.CPUTime{"a": 80 * s, "c": 0}, why: "changed"},
		{busy: 200 * s, used: map[string]unit.CPUTime{"a": 80 * s, "d": 0}, why: "changed"},
		{busy: 210 * s, used: map[string]unit.CPUTime{"a": 80 * s, "d": 5 * s}, want: 0.5},
		{busy: 220 * s, used: map[string]unit.CPUTime{"a": 8 * s, "d": 5 * s}, why: "changed"},
		{lost: "no such file", why: "no such file"},
		{busy: 230 * s, used: map[string]unit.CPUTime{"a": 8 * s, "d": 5 * s}, why: "first"},
		{busy: 270 * s, used: map[string]unit.CPUTime{"a": 8 * s, "d": 5 * s}, want: 4},
	} {
		if now += 10 * time.Second; step.lost != "" {
			y = System{Unknown: step.lost}
		} else {
			y.Look(now, step.busy, step.used)
		}
		known := step.why == ""
		if (y.Use != nil) != known || known && *y.Use != step.want || (y.Unknown == "") != known || !strings.Contains(y.Unknown, step.why) {
			t.Errorf("step %d: %+v", i, y)
		}
	}
}
