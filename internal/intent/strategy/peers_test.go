package strategy_test

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
)

// admin returns the administrator of an agent's file with a value of readPeerConfig.
func admin(t *testing.T, peers string) workload.Administrator {
	t.Helper()
	config, problems := v1alpha1.DecodeAgentConfig([]byte(`{"workloadDir": "w", "readPeerConfig": ` + peers + `}`))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return workload.AdministratorOf("agent.yaml", config)
}

// TestReadPeerConfig checks that ConfigMaps in other programs' namespaces are read only if the agent's file lists them.
// Otherwise anybody who can create such a namespace could control Berth.
func TestReadPeerConfig(t *testing.T) {
	auto := map[string]string{strategy.KeyBurst: `{"clusterStrategy": {"policy": "auto"}}`}
	labelled := map[string]string{"app": "apache-demo", strategy.KeyBurst: seedPolicy}
	enabled := map[string]string{strategy.KeyNamespaces: `{"enabledNamespaces": ["a"]}`}
	for _, test := range []struct {
		name  string
		from  strategy.Name
		data  map[string]string
		peers map[string]bool
	}{
		{"Berth", strategy.BerthConfig, auto, map[string]bool{`[]`: true, `["ack-slo", "koordinator"]`: true}},
		{"ACK", strategy.ACKConfig, auto, map[string]bool{`[]`: false, `["ack-slo"]`: true, `["koordinator"]`: false}},
		{"Koordinator", strategy.KoordinatorConfig, auto, map[string]bool{`[]`: false, `["ack-slo"]`: false, `["koordinator"]`: true}},
		{"namespaces", strategy.NamespaceConfig, enabled, map[string]bool{`[]`: false, `["ack-slo"]`: false, `["koordinator"]`: true}},
		{"labels", strategy.LabelConfig, labelled, map[string]bool{`[]`: false, `["ack-slo"]`: false, `["koordinator"]`: true}},
	} {
		for peers, want := range test.peers {
			f := facts()
			f.Admin = admin(t, peers)
			s, problems := strategy.Parse(strategy.Maps{test.from: test.data}, f, nil)
			got, _ := s.Burst(pod("a", map[string]string{"app": "apache-demo"}, nil), false)
			if got.Wanted() != want || len(problems) > 0 {
				t.Errorf("%s with readPeerConfig %s: %s, %v", test.name, peers, shown(got), problems)
			}
		}
	}
}

// TestIgnoredPeers checks that an existing, ignored ConfigMap is reported, with the value that the agent's file lacks.
func TestIgnoredPeers(t *testing.T) {
	maps := strategy.Maps{
		strategy.BerthConfig: {strategy.KeyBurst: `{}`}, strategy.ACKConfig: {}, strategy.LabelConfig: {}, strategy.NamespaceConfig: {},
	}
	ack := strategy.Ignored{ConfigMap: strategy.ACKConfig, Peer: v1alpha1.PeerACK}
	namespaces := strategy.Ignored{ConfigMap: strategy.NamespaceConfig, Peer: v1alpha1.PeerKoordinator}
	labels := strategy.Ignored{ConfigMap: strategy.LabelConfig, Peer: v1alpha1.PeerKoordinator}
	for peers, want := range map[string][]strategy.Ignored{
		`[]`: {ack, namespaces, labels}, `["koordinator"]`: {ack}, `["ack-slo"]`: {namespaces, labels}, `["ack-slo", "koordinator"]`: nil,
	} {
		f := facts()
		f.Admin = admin(t, peers)
		s, problems := strategy.Parse(maps, f, nil)
		if got := s.Ignored(); !slices.Equal(got, want) || len(problems) > 0 {
			t.Errorf("readPeerConfig %s: %v, want %v; problems %v", peers, got, want, problems)
		}
	}
}

// TestPeerNoLongerListed checks that a peer's settings are not kept as the last good value once it is no longer listed,
// and that nothing is reported about it.
func TestPeerNoLongerListed(t *testing.T) {
	bad := strategy.Maps{
		strategy.BerthConfig: {strategy.KeyBurst: `{`},
		strategy.ACKConfig:   {strategy.KeyBurst: `{"clusterStrategy": {"policy": "auto"}}`},
		strategy.LabelConfig: {"app": "a", strategy.KeyBurst: `{`},
	}
	good := strategy.Maps{
		strategy.ACKConfig:   bad[strategy.ACKConfig],
		strategy.LabelConfig: {"app": "a", strategy.KeyBurst: `{"policy": "auto"}`},
	}
	f := facts()
	f.Admin = admin(t, `["ack-slo", "koordinator"]`)
	s, _ := strategy.Parse(good, f, nil)
	f.Admin = admin(t, `[]`)
	s, problems := strategy.Parse(bad, f, s)
	if len(problems) != 1 || problems[0].ConfigMap != strategy.BerthConfig {
		t.Errorf("problems %v", problems)
	}
	if got, _ := s.Burst(pod("x", map[string]string{"app": "a"}, nil), false); got.Wanted() {
		t.Errorf("policy %s", shown(got))
	}
}
