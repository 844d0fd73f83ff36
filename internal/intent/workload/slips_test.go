package workload

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestSlips checks that every annotation with an invalid value, and every annotation that is probably mistyped, is
// reported with its value and the permitted values.
func TestSlips(t *testing.T) {
	for _, test := range []struct {
		key, value string
		want       []string
	}{
		{v1alpha1.AnnotationCPUBurst, `{"policy":"atuo","cfsQuotaBurstPercnt":99}`, []string{
			`koordinator.sh/cpuBurst].policy: value "atuo": allowed: one of none, cpuBurstOnly, cfsQuotaBurstOnly, auto`,
			`koordinator.sh/cpuBurst].cfsQuotaBurstPercnt: value 99: allowed: only the fields `,
		}},
		{v1alpha1.AnnotationCPUBurstAlias, `{"policy":"on"}`, []string{`alibabacloud.com/cpuBurst].policy: value "on"`}},
		{v1alpha1.AnnotationCPUQOS, `{"groupIdentity": 9}`, []string{`koordinator.sh/cpuQOS].groupIdentity: value 9: allowed: -1 to 2`}},
		{v1alpha1.AnnotationMemoryLocality, "nope", []string{`koordinator.sh/memoryLocality]: value "nope": allowed: `}},
		{v1alpha1.AnnotationMovable, "maybe", []string{`berth.dev/movable]: value "maybe": allowed: "true" or "false"`}},
		{v1alpha1.AnnotationResourceSpec, `{"requiredCPUBindPolicy":"Full"}`, []string{`requiredCPUBindPolicy: value "Full"`}},
		{"cpuset-schedulr", "true", []string{`metadata.annotations[cpuset-schedulr]: value "true": allowed: cpuset-scheduler (`}},
		{"koordinator.sh/cpuBrust", "{}", []string{`allowed: koordinator.sh/cpuBurst (`}},
		{"koordinator.sh/cpuqos", "{}", []string{`allowed: koordinator.sh/cpuQOS (`}},
		{"berth.dev/pin", "x", []string{`metadata.annotations[berth.dev/pin]: value "x": allowed: only the keys berth.dev/placement, berth.dev/movable`}},
	} {
		t.Run(test.key, func(t *testing.T) {
			found := Slips(nil, keys{test.key: test.value})
			if len(found) != len(test.want) {
				t.Fatalf("%v, want %d", found, len(test.want))
			}
			for i, want := range test.want {
				if text := found[i].Error(); !strings.Contains(text, want) {
					t.Errorf("%s\nwant in it: %s", text, want)
				}
			}
		})
	}
	if found := Slips(keys{"berth.dev/team": "x"}, nil); len(found) != 1 || found[0].Allowed != "no key of this domain here" {
		t.Errorf("a label of Berth's domain: %v", found)
	}
	if found := Slips(keys{"koordinator.sh/qosclass": "LSR"}, nil); len(found) != 1 || found[0].Allowed[:len(v1alpha1.LabelQoSClass)] != v1alpha1.LabelQoSClass {
		t.Errorf("a mistyped label: %v", found)
	}
}

// TestNoSlips checks that correct annotations, and similar annotations of other programs, are not reported.
func TestNoSlips(t *testing.T) {
	for key, value := range map[string]string{
		v1alpha1.AnnotationCPUSetScheduler: "true", v1alpha1.AnnotationCPUPolicy: "static-burst",
		v1alpha1.AnnotationCPUBurst: `{"policy":"auto"}`, v1alpha1.AnnotationCPUBurstAlias: `{"policy":"none"}`,
		v1alpha1.AnnotationCPUQOS: `{"groupIdentity":-1}`, v1alpha1.AnnotationMemoryLocality: `{"policy":"BestEffort"}`,
		v1alpha1.AnnotationMemoryLocalityStatus: `{}`, v1alpha1.AnnotationPlacement: "{}", v1alpha1.AnnotationMove: "{}",
		v1alpha1.AnnotationMovable: "false", "gpu-policy": "static", "cpu-quota": "1", "cpuset": "0-3",
		"koordinator.sh/memoryQOS": "{}", "koordinator.sh/blkioQOS": "{}", "koordinator.sh/networkQOS": "{}",
		"koordinator.sh/priority": "1", "alibabacloud.com/memoryQOS": "{}", "alibabacloud.com/qosClass": "LS",
		"scheduling.koordinator.sh/resource-status": "{}", "scheduling.koordinator.sh/device-allocated": "{}",
		"scheduling.koordinator.sh/reservation-affinity": "{}", "node.koordinator.sh/cpu-bind-policy": "None",
		"example.com/movable": "maybe", "": "x",
	} {
		if found := Slips(nil, keys{key: value}); len(found) > 0 {
			t.Errorf("%s: %v", key, found)
		}
	}
}
