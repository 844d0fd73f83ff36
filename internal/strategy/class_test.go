package strategy_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/workload"
)

// TestClass has the ways in which an administrator puts unlabelled BestEffort pods
// among the offline ones, and the pods that stay online all the same.
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
		{"system priority", strategy.KeyThreshold, cores, system, true, v1alpha1.QoSLS},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, problems := strategy.Parse(strategy.Maps{strategy.BerthConfig: {test.key: test.text}}, facts(), nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := s.Class(test.pod, test.bestEffort); got != test.want {
				t.Errorf("class %s, want %s", got, test.want)
			}
		})
	}
}
