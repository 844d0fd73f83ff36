package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnknownFieldsAreApart says which problems leave a strategy usable.
func TestUnknownFieldsAreApart(t *testing.T) {
	for _, test := range []struct {
		text             string
		refused, unknown []string
	}{
		{`{}`, nil, nil},
		{`{"clusterStrategy": {"policy": "auto"}, "nodeStrategies": [{"name": "a", "nodeSelector": {"matchLabels": {"a": "b"}}, "policy": "none"}]}`, nil, nil},
		{`{"clusterStrategy": {"newer": 1}, "more": {}}`, nil, []string{"clusterStrategy.newer", "more"}},
		{`{"clusterStrategy": {"newer": 1, "cpuBurstPercent": -1}}`, []string{"clusterStrategy.cpuBurstPercent"}, []string{"clusterStrategy.newer"}},
		{`{"clusterStrategy": {"cpuBurstPercent": true}}`, []string{"clusterStrategy.cpuBurstPercent"}, nil},
		{`{"nodeStrategies": [{"policy": "auto"}]}`, []string{"nodeStrategies[0].nodeSelector"}, nil},
		{`{"nodeStrategies": [null]}`, []string{"nodeStrategies[0]"}, nil},
		{`{"clusterStrategy": 1}`, []string{"clusterStrategy"}, nil},
		{`null`, []string{""}, nil},
		{`{`, []string{""}, nil},
	} {
		_, refused, unknown := DecodeBurstStrategies(test.text)
		fields := func(e FieldErrors) (all []string) {
			for _, problem := range e {
				all = append(all, problem.Field)
			}
			return all
		}
		if diff := cmp.Diff(test.refused, fields(refused)); diff != "" {
			t.Errorf("%s: refused (-want +got):\n%s", test.text, diff)
		}
		if diff := cmp.Diff(test.unknown, fields(unknown)); diff != "" {
			t.Errorf("%s: unknown (-want +got):\n%s", test.text, diff)
		}
	}
}

// TestForeignPartsAreKept: what belongs to Koordinator is not looked into.
func TestForeignPartsAreKept(t *testing.T) {
	s, refused, unknown := DecodeResourceQOS(`{"clusterStrategy": {
	  "lsClass": {"cpuQOS": {"enable": true, "groupIdentity": 2}, "memoryQOS": {"enable": true, "wmarkRatio": 95}, "networkQOS": {"ingressLimit": "50M"}},
	  "cgroupRoot": {"cpuQOS": {"groupIdentity": 7}}}}`)
	if len(refused)+len(unknown) > 0 {
		t.Fatal(refused, unknown)
	}
	if ls := s.ClusterStrategy.LSClass; *ls.CPUQOS.GroupIdentity != 2 || ls.MemoryQOS["enable"] != true {
		t.Errorf("class %+v", ls)
	}
}
