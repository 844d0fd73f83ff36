package strategy_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
)

// seedPolicy has the format of the seed's users.
const seedPolicy = `{"policy": "cfsQuotaBurstOnly", "cpuBurstPercent": 100, "cfsQuotaBurstPercent":
    300, "cfsQuotaBurstPeriodSeconds": -1}`

func facts() strategy.Facts {
	return strategy.Facts{
		NodeLabels: map[string]string{"pool": "web"},
		Admin:      workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{ReadPeerConfig: v1alpha1.PeerConfigs()}),
	}
}

// shown returns the tested fields of a policy.
func shown(b workload.Burst) string {
	text := b.Policy + " " + v1alpha1.Show([]int64{b.CPUBurstPercent, b.QuotaPercent, b.PeriodSeconds}) + " by " + b.Source
	if b.Off != nil {
		text += " off"
	}
	return text
}

func pod(namespace string, labels, annotations map[string]string) *workload.Pod {
	return &workload.Pod{Namespace: namespace, Name: "p", Labels: labels, Annotations: annotations}
}

const everywhere = `{"clusterStrategy": {"policy": "cpuBurstOnly", "cpuBurstPercent": 200},
  "nodeStrategies": [
    {"name": "other", "nodeSelector": {"matchLabels": {"pool": "db"}}, "policy": "none"},
    {"name": "web", "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["web"]}]}, "policy": "auto", "cfsQuotaBurstPercent": 400}]}`

func TestPrecedence(t *testing.T) {
	type labels = map[string]string
	all := strategy.Maps{
		strategy.BerthConfig:     {strategy.KeyBurst: everywhere},
		strategy.NamespaceConfig: {strategy.KeyNamespaces: `{"enabledNamespaces": ["on", "both"], "disabledNamespaces": ["off", "both"]}`},
		strategy.LabelConfig:     {"app": "apache-demo", "tier": "front", strategy.KeyBurst: seedPolicy},
	}
	offline := maps.Clone(all)
	offline[strategy.BerthConfig] = labels{strategy.KeyBurst: everywhere, strategy.KeyThreshold: `{"clusterStrategy": {"enable": true}}`}
	cluster := strategy.Maps{strategy.BerthConfig: {strategy.KeyBurst: `{"clusterStrategy": {"policy": "cpuBurstOnly"}}`}}
	own := labels{v1alpha1.AnnotationCPUBurst: `{"cfsQuotaBurstPercent": 250}`}
	for _, test := range []struct {
		name       string
		maps       strategy.Maps
		pod        *workload.Pod
		bestEffort bool
		want       string
	}{
		{"nothing", nil, pod("a", nil, nil), false, "none [1000,300,60] by clusterStrategy of agent.yaml"},
		{"cluster", cluster, pod("a", nil, nil), false, "cpuBurstOnly [1000,300,60] by ConfigMap berth-system/berth-config, clusterStrategy"},
		{"node", all, pod("a", nil, nil), false, "auto [200,400,60] by ConfigMap berth-system/berth-config, nodeStrategies[1]"},
		{"namespace on", all, pod("on", nil, nil), false, "auto [200,400,60] by ConfigMap koordinator-system/ack-slo-pod-config, enabledNamespaces"},
		{"namespace off", all, pod("off", nil, nil), false, "none [200,400,60] by ConfigMap koordinator-system/ack-slo-pod-config, disabledNamespaces"},
		{"namespace in both", all, pod("both", nil, nil), false, "none [200,400,60] by ConfigMap koordinator-system/ack-slo-pod-config, disabledNamespaces"},
		{"label", all, pod("off", labels{"app": "apache-demo"}, nil), false, "cfsQuotaBurstOnly [100,300,-1] by ConfigMap koordinator-system/cfs-quota-burst-cm, label app=apache-demo"},
		{"another label", all, pod("a", labels{"app": "x", "tier": "front"}, nil), false, "cfsQuotaBurstOnly [100,300,-1] by ConfigMap koordinator-system/cfs-quota-burst-cm, label tier=front"},
		{"the label's other value", all, pod("off", labels{"app": "apache"}, nil), false, "none [200,400,60] by ConfigMap koordinator-system/ack-slo-pod-config, disabledNamespaces"},
		{"pod", all, pod("off", labels{"app": "apache-demo"}, labels{v1alpha1.AnnotationCPUBurst: `{"policy": "none"}`}), false, "none [100,300,-1] by annotation koordinator.sh/cpuBurst"},
		{"the pod's other field", all, pod("off", labels{"app": "apache-demo"}, own), false, "cfsQuotaBurstOnly [100,250,-1] by policy of ConfigMap koordinator-system/cfs-quota-burst-cm, label app=apache-demo, annotation koordinator.sh/cpuBurst"},
		{"alias", all, pod("a", nil, labels{v1alpha1.AnnotationCPUBurstAlias: `{"policy": "auto"}`}), false, "auto [200,400,60] by annotation alibabacloud.com/cpuBurst"},
		{"a pod's mistake", all, pod("a", nil, labels{v1alpha1.AnnotationCPUBurst: `{"policy": "much"}`}), false, "none [0,0,0] by annotation koordinator.sh/cpuBurst off"},
		{"offline", all, pod("on", labels{v1alpha1.LabelQoSClass: "BE"}, nil), false, "none [200,400,60] by offline pods burst only where they ask themselves"},
		{"best effort", all, pod("on", nil, nil), true, "auto [200,400,60] by ConfigMap koordinator-system/ack-slo-pod-config, enabledNamespaces"},
		{"best effort where that is offline", offline, pod("on", nil, nil), true, "none [200,400,60] by offline pods burst only where they ask themselves"},
		{"best effort with a class", all, pod("a", labels{v1alpha1.LabelQoSClass: "LS"}, nil), true, "auto [200,400,60] by ConfigMap berth-system/berth-config, nodeStrategies[1]"},
		{"offline with a label", all, pod("a", labels{v1alpha1.LabelQoSClass: "BE", "app": "apache-demo"}, nil), false, "cfsQuotaBurstOnly [100,300,-1] by ConfigMap koordinator-system/cfs-quota-burst-cm, label app=apache-demo"},
		{"offline that asks", all, pod("a", labels{v1alpha1.LabelQoSClass: "BE"}, labels{v1alpha1.AnnotationCPUBurst: `{"policy": "auto"}`}), false, "auto [200,400,60] by annotation koordinator.sh/cpuBurst"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := strategy.Parse(test.maps, facts(), nil)
			got, findings := s.Burst(test.pod, test.bestEffort)
			if diff := cmp.Diff(test.want, shown(got)); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if (got.Off != nil) != (len(findings.Refused) > 0) {
				t.Errorf("off for %v, findings %+v", got.Off, findings)
			}
		})
	}
}

// TestFirstThatHasTheKey checks which of the three ConfigMaps takes effect, and that they are not merged.
func TestFirstThatHasTheKey(t *testing.T) {
	burst := func(policy string) map[string]string {
		return map[string]string{strategy.KeyBurst: `{"clusterStrategy": {"policy": "` + policy + `"}}`}
	}
	qos := map[string]string{strategy.KeyQOS: `{"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true, "groupIdentity": -1}, "memoryQOS": {"enable": true}}}}`}
	all := strategy.Maps{
		strategy.BerthConfig:       qos,
		strategy.ACKConfig:         burst("auto"),
		strategy.KoordinatorConfig: burst("cpuBurstOnly"),
	}
	for _, test := range []struct {
		name     string
		without  strategy.Name
		koordlet bool
		want     string
	}{
		{"the first with the key", "", false, "auto [1000,300,60] by ConfigMap kube-system/ack-slo-config, clusterStrategy"},
		{"the next", strategy.ACKConfig, false, "cpuBurstOnly [1000,300,60] by ConfigMap koordinator-system/slo-controller-config, clusterStrategy"},
		{"koordlet's own", strategy.ACKConfig, true, "none [1000,300,60] by clusterStrategy of agent.yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			some := strategy.Maps{}
			for name, data := range all {
				if name != test.without {
					some[name] = data
				}
			}
			f := facts()
			f.Koordlet = test.koordlet
			s, problems := strategy.Parse(some, f, nil)
			if len(problems) > 0 {
				t.Error(problems)
			}
			if got, _ := s.Burst(pod("a", nil, nil), false); shown(got) != test.want {
				t.Errorf("policy %s, want %s", shown(got), test.want)
			}
			if got := s.Class(pod("a", nil, nil), true); got != v1alpha1.QoSBE {
				t.Errorf("class %s by the first ConfigMap's %s", got, strategy.KeyQOS)
			}
		})
	}
}

// TestProblems checks mistakes of an administrator, and what Berth reports.
func TestProblems(t *testing.T) {
	const berth = strategy.BerthConfig
	for _, test := range []struct {
		name      string
		configMap strategy.Name
		key, text string
		want      string // Part of the problem; none if empty.
	}{
		{"no JSON", berth, strategy.KeyBurst, `{`, `key cpu-burst-config: value "{": allowed: one JSON value`},
		{"empty", berth, strategy.KeyBurst, ``, `allowed: one JSON value`},
		{"a list", berth, strategy.KeyBurst, `[]`, `allowed: an object of fields`},
		{"an unknown policy", berth, strategy.KeyBurst, `{"clusterStrategy": {"policy": "always"}}`, `field clusterStrategy.policy: value "always": allowed: one of none, cpuBurstOnly, cfsQuotaBurstOnly, auto`},
		{"a range", berth, strategy.KeyBurst, `{"clusterStrategy": {"cfsQuotaBurstPercent": 50}}`, `field clusterStrategy.cfsQuotaBurstPercent: value 50: allowed: 100 to 10000`},
		{"a range of a node", berth, strategy.KeyBurst, `{"nodeStrategies": [{"nodeSelector": {}, "sharePoolThresholdPercent": 101}]}`, `field nodeStrategies[0].sharePoolThresholdPercent: value 101: allowed: 0 to 100`},
		{"no selector", berth, strategy.KeyBurst, `{"nodeStrategies": [{"name": "x", "policy": "auto"}]}`, `field nodeStrategies[0].nodeSelector: missing: allowed: labels`},
		{"a bad selector", berth, strategy.KeyBurst, `{"nodeStrategies": [{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]}`, `field nodeStrategies[0].nodeSelector`},
		{"a slip", berth, strategy.KeyBurst, `{"clusterStrategy": {"polcy": "auto"}}`, `field clusterStrategy.polcy: value "auto": allowed: only the fields`},
		{"a field twice", berth, strategy.KeyBurst, `{"clusterStrategy": {}, "clusterStrategy": {}}`, `the field only once`},
		{"a peer's field", strategy.ACKConfig, strategy.KeyBurst, `{"clusterStrategy": {"policy": "auto", "newer": 1}}`, `field clusterStrategy.newer: value 1: allowed: only the fields`},
		{"a string for a number", strategy.ACKConfig, strategy.KeyBurst, `{"clusterStrategy": {"cpuBurstPercent": "100"}}`, `allowed: a whole number`},
		{"above the cap", berth, strategy.KeyBurst, `{"clusterStrategy": {"cfsQuotaBurstPercent": 5000}}`, `field clusterStrategy.cfsQuotaBurstPercent: value 5000: allowed: at most burst.maxPercent of agent.yaml, 1000`},
		{"a node above the cap", berth, strategy.KeyBurst, `{"nodeStrategies": [{"nodeSelector": {}, "cfsQuotaBurstPercent": 5000}]}`, `field nodeStrategies[0].cfsQuotaBurstPercent: value 5000`},
		{"labels above the cap", strategy.LabelConfig, strategy.KeyBurst, `{"cfsQuotaBurstPercent": 5000}`, `cfs-quota-burst-cm: key cpu-burst-config: field cfsQuotaBurstPercent: value 5000`},
		{"a slip for labels", strategy.LabelConfig, strategy.KeyBurst, `{"polcy": "auto"}`, `field polcy`},
		{"namespaces", strategy.NamespaceConfig, strategy.KeyNamespaces, `{"enabledNamespaces": "a"}`, `key cpu-burst: field enabledNamespaces: value "a": allowed: a list`},
		{"both lists", strategy.NamespaceConfig, strategy.KeyNamespaces, `{"enabledNamespaces": ["a"], "disabledNamespaces": ["a"]}`, `field enabledNamespaces[0]: value "a": allowed: not in disabledNamespaces too`},
		{"labels without a policy", strategy.LabelConfig, "app", "x", `key cpu-burst-config: missing: allowed: the policy`},
		{"no label", strategy.LabelConfig, "app.", "x", `key app.: value "x": allowed: the name of a label`},
		{"no value of a label", strategy.LabelConfig, "app", "a b", `key app: value "a b": allowed: the value of a label`},
		{"classes", berth, strategy.KeyQOS, `{"clusterStrategy": {"beClass": {"cpuQOS": {"groupIdentity": 3}}}}`, `field clusterStrategy.beClass.cpuQOS.groupIdentity: value 3: allowed: -1 to 2`},
		{"a class that is none", berth, strategy.KeyQOS, `{"clusterStrategy": {"bClass": {}}}`, `field clusterStrategy.bClass`},
		{"means", berth, strategy.KeyQOS, `{"clusterStrategy": {"policies": {"cpuPolicy": "x"}}}`, `field clusterStrategy.policies.cpuPolicy: value "x": allowed: one of groupIdentity, coreSched`},
		{"thresholds", berth, strategy.KeyThreshold, `{"nodeStrategies": [{"nodeSelector": {}, "cpuSuppressThresholdPercent": 101}]}`, `key resource-threshold-config: field nodeStrategies[0].cpuSuppressThresholdPercent: value 101: allowed: 0 to 100`},
		{"a guarantee", berth, strategy.KeyThreshold, `{"clusterStrategy": {"cpuSuppressMinPercent": -1}}`, `field clusterStrategy.cpuSuppressMinPercent: value -1: allowed: 0 to 100`},
		{"a way to cores", berth, strategy.KeyThreshold, `{"clusterStrategy": {"cpuSuppressPolicy": "x"}}`, `field clusterStrategy.cpuSuppressPolicy: value "x": allowed: one of cpuset, cfsQuota`},
		{"a peer's thresholds", strategy.KoordinatorConfig, strategy.KeyThreshold, `{"clusterStrategy": {"enable": true, "cpuSuppressPolicy": "cpuset", "memoryEvictThresholdPercent": 70}}`, ``},
		{"all is well", berth, strategy.KeyBurst, everywhere, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, problems := strategy.Parse(strategy.Maps{test.configMap: {test.key: test.text}}, facts(), nil)
			if test.want == "" {
				if len(problems) > 0 {
					t.Error(problems)
				}
				return
			}
			if len(problems) == 0 {
				t.Fatalf("no problem, want %s", test.want)
			}
			got := problems[0].Error()
			if !strings.HasPrefix(got, "ConfigMap "+string(test.configMap)+": ") || !strings.Contains(got, test.want) {
				t.Errorf("problem %s, want %s", got, test.want)
			}
		})
	}
}

// TestLastGoodStays makes good settings invalid, removes them and repairs them.
func TestLastGoodStays(t *testing.T) {
	labels := map[string]string{"app": "apache-demo"}
	good := strategy.Maps{
		strategy.ACKConfig:       {strategy.KeyBurst: `{"clusterStrategy": {"policy": "auto"}}`},
		strategy.LabelConfig:     {"app": "apache-demo", strategy.KeyBurst: seedPolicy},
		strategy.NamespaceConfig: {strategy.KeyNamespaces: `{"disabledNamespaces": ["off"]}`},
	}
	bad := strategy.Maps{
		strategy.BerthConfig:     {strategy.KeyBurst: `{"clusterStrategy": {"policy": "atuo"}}`}, // It has precedence.
		strategy.LabelConfig:     {"app": "other", strategy.KeyBurst: `{"policy": `},
		strategy.NamespaceConfig: {strategy.KeyNamespaces: `{"disabledNamespaces": [1]}`},
	}
	want := func(name string, s *strategy.Strategies, p *workload.Pod, text string) {
		t.Helper()
		if got, _ := s.Burst(p, false); shown(got) != text {
			t.Errorf("%s: %s, want %s", name, shown(got), text)
		}
	}
	s, problems := strategy.Parse(good, facts(), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for range 2 { // Staying invalid changes nothing.
		s, problems = strategy.Parse(bad, facts(), s)
		want("cluster", s, pod("a", nil, nil), "auto [1000,300,60] by ConfigMap kube-system/ack-slo-config, clusterStrategy (last good value)")
		want("label", s, pod("a", labels, nil), "cfsQuotaBurstOnly [100,300,-1] by ConfigMap koordinator-system/cfs-quota-burst-cm, label app=apache-demo (last good value)")
		want("namespace", s, pod("off", nil, nil), "none [1000,300,60] by ConfigMap koordinator-system/ack-slo-pod-config, disabledNamespaces (last good value)")
		if len(problems) != 3 {
			t.Fatalf("%d problems: %v", len(problems), problems)
		}
		for _, problem := range problems {
			if !strings.Contains(problem.Error(), "; in force: the last good value, of ConfigMap ") {
				t.Error(problem)
			}
		}
	}
	mended, problems := strategy.Parse(good, facts(), s)
	want("mended", mended, pod("a", labels, nil), "cfsQuotaBurstOnly [100,300,-1] by ConfigMap koordinator-system/cfs-quota-burst-cm, label app=apache-demo")
	removed, more := strategy.Parse(nil, facts(), s)
	want("removed", removed, pod("off", labels, nil), "none [1000,300,60] by clusterStrategy of agent.yaml")
	if len(problems)+len(more) > 0 {
		t.Error(problems, more)
	}
	_, problems = strategy.Parse(bad, facts(), nil)
	if len(problems) != 3 || problems[0].InForce != "nothing, there is no earlier value" {
		t.Errorf("from the start: %v", problems)
	}
}

// TestAdministrator checks that the switch and the cap of the agent's file always take effect.
func TestAdministrator(t *testing.T) {
	maps := strategy.Maps{strategy.LabelConfig: {"app": "a", strategy.KeyBurst: `{"policy": "auto", "cfsQuotaBurstPercent": 900}`}}
	p := pod("a", map[string]string{"app": "a"}, nil)
	f := facts()
	f.Admin.MaxPercent = 200
	s, _ := strategy.Parse(maps, f, nil)
	if got, _ := s.Burst(p, false); got.QuotaPercent != 200 || got.Policy != "auto" {
		t.Errorf("capped: %s", shown(got))
	}
	f.Admin.Enabled = false
	s, _ = strategy.Parse(maps, f, s)
	if got, _ := s.Burst(p, false); got.Wanted() || got.Off == nil {
		t.Errorf("switched off: %s", shown(got))
	}
}

// TestOtherKeysAreNoMistakes checks that unrelated annotations of a pod cause no finding.
func TestOtherKeysAreNoMistakes(t *testing.T) {
	s, _ := strategy.Parse(nil, facts(), nil)
	_, findings := s.Burst(pod("a", nil, map[string]string{
		v1alpha1.AnnotationPlacement: "{}", "koordinator.sh/priority": "1", v1alpha1.AnnotationCPUBurst: `{"policy": "auto"}`,
	}), false)
	if len(findings.Warnings)+len(findings.Refused) > 0 {
		t.Errorf("findings %+v", findings)
	}
}

func TestSharePoolThreshold(t *testing.T) {
	for text, want := range map[string]int64{
		`{}`: -50,
		`{"clusterStrategy": {"sharePoolThresholdPercent": 30}}`: 30,
		`{"clusterStrategy": {"sharePoolThresholdPercent": 30}, "nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "web"}}, "sharePoolThresholdPercent": 70}]}`: 70,
		`{"clusterStrategy": {"sharePoolThresholdPercent": 30}, "nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "db"}}, "sharePoolThresholdPercent": 70}]}`:  30,
	} {
		s, _ := strategy.Parse(strategy.Maps{strategy.BerthConfig: {strategy.KeyBurst: text}}, facts(), nil)
		got, said := s.SharePoolThresholdPercent()
		if !said {
			got = -got
		}
		if got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// TestKoordlet checks that another pod cannot pass for koordlet, and that a pod with its name is not koordlet unless a
// DaemonSet made it.
func TestKoordlet(t *testing.T) {
	for text, want := range map[string]bool{
		"koordinator-system/koordlet": true, "kube-system/ack-koordlet": true,
		"shop/koordlet": false, "kube-system/proxy": false,
	} {
		namespace, name, _ := strings.Cut(text, "/")
		p := &workload.Pod{Namespace: namespace, Containers: []workload.Container{{Name: name}}, DaemonSet: true}
		if got := strategy.Koordlet(p); got != want {
			t.Errorf("%s: %t", text, got)
		}
		if p.DaemonSet = false; strategy.Koordlet(p) {
			t.Errorf("%s without a DaemonSet is koordlet", text)
		}
	}
}

// FuzzParse checks that parsing any text ends, that problems name their position, and that every pod gets a valid
// policy.
func FuzzParse(f *testing.F) {
	f.Add(uint8(0), strategy.KeyBurst, everywhere)
	f.Add(uint8(1), strategy.KeyQOS, `{"clusterStrategy": {"lsClass": {"cpuQOS": {"enable": true}}}}`)
	f.Add(uint8(2), strategy.KeyThreshold, `{"clusterStrategy": {"enable": true}}`)
	f.Add(uint8(3), strategy.KeyNamespaces, `{"enabledNamespaces": ["a"], "disabledNamespaces": ["b"]}`)
	f.Add(uint8(4), strategy.KeyBurst, seedPolicy)
	f.Fuzz(func(t *testing.T, which uint8, key, text string) {
		name := strategy.Names()[int(which)%len(strategy.Names())]
		good, _ := strategy.Parse(strategy.Maps{strategy.BerthConfig: {strategy.KeyBurst: everywhere}}, facts(), nil)
		s, problems := strategy.Parse(strategy.Maps{name: {key: text}}, facts(), good)
		for _, problem := range problems {
			if problem.ConfigMap != name || problem.Allowed == "" || len(problem.Error()) > 4096 {
				t.Errorf("problem %q", problem.Error())
			}
		}
		burst, _ := s.Burst(pod("a", map[string]string{key: text, "app": "a"}, nil), false)
		if burst.QuotaPercent < 100 || burst.QuotaPercent > 1000 || burst.PeriodSeconds < -1 || burst.CPUBurstPercent < 0 || burst.CPUBurstPercent > 10000 {
			t.Errorf("policy %+v", burst)
		}
	})
}
