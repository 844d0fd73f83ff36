package strategy_test

import (
	"testing"

	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
)

// TestUnknownFieldOfLabelConfig checks the ConfigMap of labels, which belongs to a peer: an unknown field is reported,
// and the policy takes effect.
func TestUnknownFieldOfLabelConfig(t *testing.T) {
	s, problems := strategy.Parse(strategy.Maps{strategy.LabelConfig: {
		"app": "a", strategy.KeyBurst: `{"policy": "cfsQuotaBurstOnly", "later": 1}`,
	}}, facts(), nil)
	if len(problems) != 1 || problems[0].Field != "later" {
		t.Errorf("problems %v", problems)
	}
	burst, _ := s.Burst(&workload.Pod{Labels: map[string]string{"app": "a"}}, false)
	if burst.Policy != "cfsQuotaBurstOnly" {
		t.Errorf("policy %s of %s", burst.Policy, burst.Source)
	}
}

// TestUnknownFieldOfOwnConfig checks Berth's own ConfigMap: with an unknown field, the key is refused, and the last good
// value stays in force.
func TestUnknownFieldOfOwnConfig(t *testing.T) {
	parse := func(text string, last *strategy.Strategies) (*strategy.Strategies, []strategy.Problem) {
		return strategy.Parse(strategy.Maps{strategy.BerthConfig: {strategy.KeyBurst: text}}, facts(), last)
	}
	good, _ := parse(`{"clusterStrategy": {"policy": "cfsQuotaBurstOnly"}}`, nil)
	s, problems := parse(`{"clusterStrategy": {"policy": "none", "later": 1}}`, good)
	if len(problems) != 1 || problems[0].Field != "clusterStrategy.later" {
		t.Errorf("problems %v", problems)
	}
	if burst, _ := s.Burst(&workload.Pod{}, false); burst.Policy != "cfsQuotaBurstOnly" {
		t.Errorf("policy %s of %s", burst.Policy, burst.Source)
	}
}
