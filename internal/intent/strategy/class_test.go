package strategy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
)

// TestClass checks the ways in which an administrator makes unlabeled BestEffort pods offline, and which pods stay
// online nevertheless.
func TestClass(t *testing.T) {
	const (
		precedence = `{"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}}`
		cores      = `{"clusterStrategy": {"enable": true}}`
		others     = `{"nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "db"}}, "enable": true}]}`
		these      = `{"nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "web"}}, "enable": true}]}`
		notThese   = `{"clusterStrategy": {"enable": true}, "nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "web"}}, "enable": false}]}`
		qosOff     = `{"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}, "nodeStrategies": [{"nodeSelector": {}, "beClass": {"cpuQOS": {"enable": false}}}]}`
		silent     = `{"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}, "nodeStrategies": [{"nodeSelector": {}, "lsClass": {}}]}`
		onlineOnly = `{"clusterStrategy": {"lsClass": {"cpuQOS": {"enable": true}}}}`
	)
	labelled := func(class string) *workload.Pod {
		return pod("a", map[string]string{v1alpha1.LabelQoSClass: class}, nil)
	}
	system := pod("a", nil, nil)
	system.SystemPriority = true
	for _, test := range []struct {
		name       string
		key, text  string
		pod        *workload.Pod
		bestEffort bool
		want       v1alpha1.QoSClass
	}{
		{"no opt-in", "", "", pod("a", nil, nil), true, v1alpha1.QoSLS},
		{"no opt-in, labelled", "", "", labelled("BE"), false, v1alpha1.QoSBE},
		{"no opt-in, a class that is none", "", "", labelled("XL"), true, v1alpha1.QoSLS},
		{"cores of its own", strategy.KeyThreshold, cores, pod("a", nil, nil), true, v1alpha1.QoSBE},
		{"precedence", strategy.KeyQOS, precedence, pod("a", nil, nil), true, v1alpha1.QoSBE},
		{"off", strategy.KeyThreshold, `{"clusterStrategy": {"enable": false}}`, pod("a", nil, nil), true, v1alpha1.QoSLS},
		{"on other nodes", strategy.KeyThreshold, others, pod("a", nil, nil), true, v1alpha1.QoSLS},
		{"on these nodes", strategy.KeyThreshold, these, pod("a", nil, nil), true, v1alpha1.QoSBE},
		{"not on these nodes", strategy.KeyThreshold, notThese, pod("a", nil, nil), true, v1alpha1.QoSLS},
		{"no precedence on these nodes", strategy.KeyQOS, qosOff, pod("a", nil, nil), true, v1alpha1.QoSLS},
		{"these nodes say nothing of it", strategy.KeyQOS, silent, pod("a", nil, nil), true, v1alpha1.QoSBE},
		{"another class", strategy.KeyQOS, onlineOnly, pod("a", nil, nil), true, v1alpha1.QoSLS},
		{"requests", strategy.KeyThreshold, cores, pod("a", nil, nil), false, v1alpha1.QoSLS},
		{"labelled", strategy.KeyThreshold, cores, labelled("LS"), true, v1alpha1.QoSLS},
		{"a class that is none", strategy.KeyThreshold, cores, labelled("XL"), true, v1alpha1.QoSBE},
		{"kube-proxy", strategy.KeyThreshold, cores, pod("kube-system", nil, nil), true, v1alpha1.QoSLS},
		{"kube-system, labelled", strategy.KeyThreshold, cores, func() *workload.Pod { p := labelled("BE"); p.Namespace = "kube-system"; return p }(), true, v1alpha1.QoSBE},
		{"the agent's file", "", "", pod("file", nil, nil), true, v1alpha1.QoSBE},
		{"precedence by the agent's file", "", "", pod("precedence", nil, nil), true, v1alpha1.QoSBE},
		{"hidden by a ConfigMap", strategy.KeyQOS, `{}`, pod("precedence", nil, nil), true, v1alpha1.QoSLS},
		{"the agent's file, requests", "", "", pod("file", nil, nil), false, v1alpha1.QoSLS},
		{"a ConfigMap hides the agent's file", strategy.KeyThreshold, `{}`, pod("file", nil, nil), true, v1alpha1.QoSLS},
		{"system priority", strategy.KeyThreshold, cores, system, true, v1alpha1.QoSLS},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := facts()
			if test.pod.Namespace == "file" {
				facts.Admin.Threshold.Enable = new(true)
			}
			if test.pod.Namespace == "precedence" {
				facts.Admin.QOS.BEClass = &v1alpha1.ClassQOS{CPUQOS: &v1alpha1.ClassCPUQOS{Enable: new(true)}}
			}
			s, problems := strategy.Parse(strategy.Maps{strategy.BerthConfig: {test.key: test.text}}, facts, nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := s.Class(test.pod, test.bestEffort); got != test.want {
				t.Errorf("class %s, want %s", got, test.want)
			}
		})
	}
}

// TestQOS checks the settings of a class: the first matching node strategy takes precedence over the cluster's, field
// by field. The agent's file takes effect only if no ConfigMap has the key.
func TestQOS(t *testing.T) {
	t.Parallel()
	const (
		cluster = `"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort", "targetLocalityRatio": 90}}}`
		nodes   = `"nodeStrategies": [
		  {"nodeSelector": {"matchLabels": {"pool": "other"}}, "lsClass": {"memoryLocality": {"targetLocalityRatio": 1}}},
		  {"nodeSelector": {"matchLabels": {"pool": "web"}}, "lsClass": {"memoryLocality": {"policy": "none"}}, "beClass": {"memoryLocality": {"policy": "BestEffort"}}}]`
		from = "ConfigMap berth-system/berth-config, resource-qos-config "
	)
	file := workload.Administrator{File: "agent.yaml", QOS: v1alpha1.ResourceQOS{LSRClass: &v1alpha1.ClassQOS{
		MemoryLocality: &v1alpha1.MemoryLocality{Policy: new(v1alpha1.MemoryLocalityBestEffort)},
	}}}
	for _, test := range []struct {
		name, config, pool string
		class              v1alpha1.QoSClass
		on                 bool
		target             int
		source             string
	}{
		{"cluster", `{` + cluster + `}`, "web", v1alpha1.QoSLS, true, 90, from + "clusterStrategy.lsClass"},
		{"no class", `{` + cluster + `}`, "web", "", true, 90, from + "clusterStrategy.lsClass"},
		{"another class", `{` + cluster + `}`, "web", v1alpha1.QoSLSR, false, 100, ""},
		{"node over cluster", `{` + cluster + `,` + nodes + `}`, "web", v1alpha1.QoSLS, false, 90, from + "nodeStrategies[1].lsClass"},
		{"no node matches", `{` + cluster + `,` + nodes + `}`, "db", v1alpha1.QoSLS, true, 90, from + "clusterStrategy.lsClass"},
		{"node only", `{` + nodes + `}`, "web", v1alpha1.QoSBE, true, 100, from + "nodeStrategies[1].beClass"},
		{"file", "", "web", v1alpha1.QoSLSE, true, 100, "resource-qos-config.clusterStrategy.lsrClass of agent.yaml"},
		{"file, another class", "", "web", v1alpha1.QoSLS, false, 100, ""},
		{"the ConfigMap hides the file", `{}`, "web", v1alpha1.QoSLSR, false, 100, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			maps := strategy.Maps{}
			if test.config != "" {
				maps[strategy.BerthConfig] = map[string]string{strategy.KeyQOS: test.config}
			}
			s, problems := strategy.Parse(maps, strategy.Facts{NodeLabels: map[string]string{"pool": test.pool}, Admin: file}, nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			qos, source := s.QOS(test.class)
			var locality v1alpha1.MemoryLocality
			if qos.MemoryLocality != nil {
				locality = *qos.MemoryLocality
			}
			if locality.BestEffort() != test.on || locality.Target() != test.target || source != test.source {
				t.Errorf("%v, target %d, of %q", locality.BestEffort(), locality.Target(), source)
			}
		})
	}
}

// TestCPUQOS checks that the cluster's strategy supplies the fields that are missing in the node's cpuQOS, and the
// fields that Berth only names.
func TestCPUQOS(t *testing.T) {
	t.Parallel()
	const text = `{
	  "clusterStrategy": {"beClass": {"cpuQOS": {"enable": true, "groupIdentity": -1}, "resctrlQOS": {"enable": true}}},
	  "nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "web"}}, "beClass": {"cpuQOS": {"groupIdentity": 0, "schedIdle": 1}}}]}`
	s, problems := strategy.Parse(strategy.Maps{strategy.BerthConfig: {strategy.KeyQOS: text}}, strategy.Facts{NodeLabels: map[string]string{"pool": "web"}}, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := v1alpha1.ClassQOS{
		CPUQOS:     &v1alpha1.ClassCPUQOS{Enable: new(true), GroupIdentity: new(int64(0)), SchedIdle: new(int64(1))},
		ResctrlQOS: map[string]any{"enable": true},
	}
	if got, _ := s.QOS(v1alpha1.QoSBE); cmp.Diff(want, got) != "" {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}

// TestCPUPolicy checks by which means classes are isolated: the node's strategy takes precedence over the cluster's.
// The agent's file takes effect only if no ConfigMap has the key.
func TestCPUPolicy(t *testing.T) {
	t.Parallel()
	const (
		cluster = `"clusterStrategy": {"policies": {"cpuPolicy": "coreSched"}}`
		nodes   = `"nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "web"}}, "policies": {"cpuPolicy": "groupIdentity"}},
		  {"nodeSelector": {"matchLabels": {"pool": "silent"}}, "policies": {"netQOSPolicy": "tc"}}]`
		from = "ConfigMap berth-system/berth-config, resource-qos-config "
	)
	file := workload.Administrator{File: "agent.yaml", QOS: v1alpha1.ResourceQOS{Policies: &v1alpha1.QOSPolicies{CPUPolicy: new(v1alpha1.CPUPolicyCoreSched)}}}
	for _, test := range []struct {
		name, config, pool string
		admin              workload.Administrator
		want, source       string
	}{
		{"cluster", `{` + cluster + `}`, "db", file, "coreSched", from + "clusterStrategy.policies.cpuPolicy"},
		{"node over cluster", `{` + cluster + `,` + nodes + `}`, "web", file, "groupIdentity", from + "nodeStrategies[0].policies.cpuPolicy"},
		{"no node matches", `{` + cluster + `,` + nodes + `}`, "db", file, "coreSched", from + "clusterStrategy.policies.cpuPolicy"},
		{"the node says nothing of it", `{` + cluster + `,` + nodes + `}`, "silent", file, "coreSched", from + "clusterStrategy.policies.cpuPolicy"},
		{"file", "", "web", file, "coreSched", "resource-qos-config.clusterStrategy.policies.cpuPolicy of agent.yaml"},
		{"the ConfigMap hides the file", `{}`, "web", file, "", ""},
		{"nothing", "", "web", workload.Administrator{}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			maps := strategy.Maps{}
			if test.config != "" {
				maps[strategy.BerthConfig] = map[string]string{strategy.KeyQOS: test.config}
			}
			s, problems := strategy.Parse(maps, strategy.Facts{NodeLabels: map[string]string{"pool": test.pool}, Admin: test.admin}, nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got, source := s.CPUPolicy(); got != test.want || source != test.source {
				t.Errorf("%q of %q, want %q of %q", got, source, test.want, test.source)
			}
		})
	}
}

// TestThreshold checks how much offline work may use: the first matching node strategy takes precedence over the
// cluster's, field by field. The agent's file takes effect only if no ConfigMap has the key.
func TestThreshold(t *testing.T) {
	t.Parallel()
	const (
		cluster = `"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 70, "cpuSuppressMinPercent": 10}`
		nodes   = `"nodeStrategies": [
		  {"nodeSelector": {"matchLabels": {"pool": "other"}}, "enable": false},
		  {"nodeSelector": {"matchLabels": {"pool": "web"}}, "cpuSuppressThresholdPercent": 50, "cpuSuppressPolicy": "cfsQuota"}]`
		from = "ConfigMap berth-system/berth-config, resource-threshold-config "
	)
	file := workload.Administrator{File: "agent.yaml", Threshold: v1alpha1.ResourceThreshold{CPUSuppressMinPercent: new(int64(20))}}
	for name, test := range map[string]struct {
		config, pool string
		want         v1alpha1.ResourceThreshold
		source       string
	}{
		"file":            {"", "web", file.Threshold, "resource-threshold-config.clusterStrategy of agent.yaml"},
		"hidden":          {`{}`, "web", v1alpha1.ResourceThreshold{}, from + "clusterStrategy"},
		"cluster":         {`{` + cluster + `}`, "web", v1alpha1.ResourceThreshold{Enable: new(true), CPUSuppressThresholdPercent: new(int64(70)), CPUSuppressMinPercent: new(int64(10))}, from + "clusterStrategy"},
		"node":            {`{` + cluster + `,` + nodes + `}`, "web", v1alpha1.ResourceThreshold{Enable: new(true), CPUSuppressThresholdPercent: new(int64(50)), CPUSuppressMinPercent: new(int64(10)), CPUSuppressPolicy: new("cfsQuota")}, from + "nodeStrategies[1]"},
		"no node matches": {`{` + cluster + `,` + nodes + `}`, "db", v1alpha1.ResourceThreshold{Enable: new(true), CPUSuppressThresholdPercent: new(int64(70)), CPUSuppressMinPercent: new(int64(10))}, from + "clusterStrategy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			maps := strategy.Maps{}
			if test.config != "" {
				maps[strategy.BerthConfig] = map[string]string{strategy.KeyThreshold: test.config}
			}
			s, problems := strategy.Parse(maps, strategy.Facts{NodeLabels: map[string]string{"pool": test.pool}, Admin: file}, nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			got, source := s.Threshold()
			if diff := cmp.Diff(test.want, got); diff != "" || source != test.source {
				t.Errorf("of %q (-want +got):\n%s", source, diff)
			}
		})
	}
}
