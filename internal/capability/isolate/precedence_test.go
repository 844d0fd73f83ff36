package isolate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/isolate"
)

// TestQOSOf checks that the annotation takes precedence over the class's settings, field by field. One mistake in it
// disables precedence for its pod.
func TestQOSOf(t *testing.T) {
	t.Parallel()
	class := &v1alpha1.ClassCPUQOS{Enable: new(true), GroupIdentity: new(int64(-1)), CoreExpeller: new(true)}
	const strategy, own = "ConfigMap", "annotation koordinator.sh/cpuQOS"
	for name, test := range map[string]struct {
		annotation string
		class      v1alpha1.QoSClass
		strategy   *v1alpha1.ClassCPUQOS
		want       isolate.QOS
		refused    string
		unknown    string
	}{
		"nothing":       {"", "BE", nil, isolate.QOS{Identity: -1, Source: strategy}, "", ""},
		"class":         {"", "BE", class, isolate.QOS{Enabled: true, Identity: -1, Expel: true, Source: strategy}, "", ""},
		"default of BE": {`{"enable": true}`, "BE", nil, isolate.QOS{Enabled: true, Identity: -1, Source: own, Own: true}, "", ""},
		"of LS":         {`{"enable": true}`, "LS", nil, isolate.QOS{Enabled: true, Identity: 2, Source: own, Own: true}, "", ""},
		"of LSE":        {`{"enable": true}`, "LSE", nil, isolate.QOS{Enabled: true, Identity: 2, Source: own, Own: true}, "", ""},
		"of SYSTEM":     {`{"enable": true}`, "SYSTEM", nil, isolate.QOS{Enabled: true, Source: own, Own: true}, "", ""},
		"field by field": {
			`{"groupIdentity": 0, "schedIdle": 1}`, "BE", class,
			isolate.QOS{Enabled: true, Idle: true, Expel: true, Source: own, Own: true},
			"", "",
		},
		"switched off": {`{"enable": false}`, "BE", class, isolate.QOS{Identity: -1, Expel: true, Source: own, Own: true}, "", ""},
		"out of range": {`{"enable": true, "groupIdentity": 3}`, "BE", class, isolate.QOS{Source: own, Own: true}, "metadata.annotations[koordinator.sh/cpuQOS].groupIdentity: value 3", ""},
		"schedIdle":    {`{"schedIdle": -1}`, "BE", class, isolate.QOS{Source: own, Own: true}, ".schedIdle: value -1", ""},
		"no JSON":      {`idle`, "BE", class, isolate.QOS{Source: own, Own: true}, "metadata.annotations[koordinator.sh/cpuQOS]", ""},
		"unknown":      {`{"enable": true, "weight": 1}`, "BE", nil, isolate.QOS{Enabled: true, Identity: -1, Source: own, Own: true}, "", ".weight"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := map[string]string{}
			if test.annotation != "" {
				annotations[v1alpha1.AnnotationCPUQOS] = test.annotation
			}
			got, refused, unknown := isolate.QOSOf(annotations, test.class, test.strategy, strategy)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for what, pair := range map[string][2]string{"refused": {text(refused), test.refused}, "unknown": {text(unknown), test.unknown}} {
				if (pair[0] == "") != (pair[1] == "") || !strings.Contains(pair[0], pair[1]) {
					t.Errorf("%s %q, want %q", what, pair[0], pair[1])
				}
			}
		})
	}
}

func text(problems v1alpha1.FieldErrors) string {
	if err := problems.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// TestPrecedence checks that low-priority work is idle on a mainline kernel if it is offline. High priority has no
// equivalent there.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	const noForm, online = "no form on this kernel", "only offline work can be idle"
	mainline, alibaba := isolate.Means{Idle: true}, isolate.Means{Idle: true, Identity: true}
	asks := func(identity int64, idle bool) isolate.QOS {
		return isolate.QOS{Enabled: true, Identity: identity, Idle: idle}
	}
	for name, test := range map[string]struct {
		qos   isolate.QOS
		class v1alpha1.QoSClass
		means isolate.Means
		want  string
		why   string
	}{
		"not asked":            {isolate.QOS{Identity: -1}, "BE", mainline, "", ""},
		"yields":               {asks(-1, false), "BE", mainline, isolate.Idle, ""},
		"schedIdle":            {asks(0, true), "BE", mainline, isolate.Idle, ""},
		"schedIdle over 2":     {asks(2, true), "BE", mainline, isolate.Idle, ""},
		"neither":              {asks(0, false), "BE", mainline, "", ""},
		"first":                {asks(2, false), "LS", mainline, "", noForm},
		"1":                    {asks(1, false), "BE", mainline, "", noForm},
		"online that yields":   {asks(-1, false), "LS", mainline, "", online},
		"an old kernel":        {asks(-1, false), "BE", isolate.Means{}, "", noForm},
		"Alibaba's":            {asks(-1, false), "BE", alibaba, "-1", ""},
		"Alibaba's, idle":      {asks(0, true), "BE", alibaba, "-1", ""},
		"Alibaba's, first":     {asks(2, false), "LS", alibaba, "2", ""},
		"Alibaba's, neither":   {asks(0, false), "LS", alibaba, "", ""},
		"Alibaba's, one's own": {asks(-1, false), "LS", alibaba, "-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, why := test.qos.Precedence(test.class, test.means)
			if got != test.want || (why == "") != (test.why == "") || !strings.Contains(why, test.why) {
				t.Errorf("%q, %q, want %q, %q", got, why, test.want, test.why)
			}
		})
	}
}

// TestNotOwn checks that the kubelet's groups of a QoS class never become idle, whichever workload names them.
func TestNotOwn(t *testing.T) {
	t.Parallel()
	const uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
	for _, test := range []struct {
		group, pod string
		own        bool
	}{
		{"kubepods/besteffort/pod" + uid, uid, true},
		{"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice", uid, true},
		{"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice", uid, true},
		{"kubepods/besteffort", uid, false},
		{"", uid, false},
		{"kubepods/besteffort", "", false},
		{"kubepods.slice/kubepods-besteffort.slice", "", false},
		{"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice", "", false},
		{"kubepods", "", false},
		{"kubepods.slice", "", false},
		{"system.slice/batch.service", "", true},
		{"batch.slice", "", true},
	} {
		if why := isolate.NotOwn(test.group, test.pod); (why == "") != test.own {
			t.Errorf("%s of %q: %q", test.group, test.pod, why)
		}
	}
}
