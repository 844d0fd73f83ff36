package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeMemoryLocality(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		on       bool
		interval time.Duration
		target   int
		refused  string
		unknown  string
	}{
		`{}`:                        {false, 0, 100, "", ""},
		`{"policy": "bestEffort"}`:  {true, 0, 100, "", ""},
		`{"policy": "BestEffort"}`:  {true, 0, 100, "", ""},
		`{"policy": "BESTEFFORT"}`:  {true, 0, 100, "", ""},
		`{"policy": "none"}`:        {false, 0, 100, "", ""},
		`{"policy": "None"}`:        {false, 0, 100, "", ""},
		`{"policy": "best-effort"}`: {false, 0, 100, `field policy: value "best-effort": allowed: one of bestEffort, none`, ""},
		`{"policy": 1}`:             {false, 0, 100, `field policy: value 1: allowed: a string (put it in quotes)`, ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":10}`:     {true, 10 * time.Minute, 100, "", ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":0}`:      {true, 0, 100, "", ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":10080}`:  {true, 7 * 24 * time.Hour, 100, "", ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":"none"}`: {false, 0, 100, "", ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":null}`:   {true, 0, 100, "", ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":-1}`:     {true, -time.Minute, 100, `field migrateIntervalMinutes: value -1: allowed: 0 to 10080, or "none"`, ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":10081}`:  {true, 10081 * time.Minute, 100, `field migrateIntervalMinutes: value 10081: allowed: 0 to 10080, or "none"`, ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":1.5}`:    {true, time.Minute, 100, `field migrateIntervalMinutes: value 1.5: allowed: 0 to 10080, or "none"`, ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":"10"}`:   {false, 0, 100, `field migrateIntervalMinutes: value "10": allowed: 0 to 10080, or "none"`, ""},
		`{"policy": "bestEffort","migrateIntervalMinutes":[1]}`:    {true, 0, 100, `field migrateIntervalMinutes: value [1]: allowed: 0 to 10080, or "none"`, ""},
		`{"policy": "bestEffort","targetLocalityRatio":0}`:         {true, 0, 0, "", ""},
		`{"policy": "bestEffort","targetLocalityRatio":101}`:       {true, 0, 101, `field targetLocalityRatio: value 101: allowed: 0 to 100`, ""},
		`{"policy": "bestEffort","targetLocalityRatio":-1}`:        {true, 0, -1, `field targetLocalityRatio: value -1: allowed: 0 to 100`, ""},
		`{"policy": "bestEffort","newer":{"a":1}}`:                 {true, 0, 100, "", "newer"},
		`{"policy": "bestEffort","policy": "none"}`:                {false, 0, 100, `field policy: value "none": allowed: the field only once`, ""},
		`bestEffort`: {false, 0, 100, `value "bestEffort": allowed: one JSON value`, ""},
		`{"policy": "bestEffort"} {"policy": "none"}`: {false, 0, 100, `there is more after its end`, ""},
	} {
		m, refused, unknown := DecodeMemoryLocality(text)
		if (want.refused == "") != (len(refused) == 0) || !strings.Contains(refused.Error(), want.refused) {
			t.Errorf("%s: refused %v, want %s", text, refused, want.refused)
		}
		if (want.unknown == "") != (len(unknown) == 0) || !strings.Contains(unknown.Error(), want.unknown) {
			t.Errorf("%s: unknown %v, want %s", text, unknown, want.unknown)
		}
		if m.BestEffort() != want.on || m.Interval() != want.interval || m.Target() != want.target {
			t.Errorf("%s: %v %v %d, want %+v", text, m.BestEffort(), m.Interval(), m.Target(), want)
		}
	}
}

// The ConfigMap of the seed is taken as it is written.
func TestMemoryLocalityOfAClass(t *testing.T) {
	t.Parallel()
	const seed = `{
	  "clusterStrategy": {
	    "lsClass": {
	       "memoryLocality": {
	         "policy": "bestEffort"
	       }
	     }
	  }
	}`
	s, refused, unknown := DecodeResourceQOS(seed)
	if len(refused)+len(unknown) > 0 {
		t.Fatal(refused, unknown)
	}
	if class, field := s.ClusterStrategy.Of(""); field != "lsClass" || !class.MemoryLocality.BestEffort() {
		t.Errorf("%s: %+v", field, class)
	}
	_, refused, _ = DecodeResourceQOS(strings.Replace(seed, "bestEffort", "worstEffort", 1))
	if want := `field clusterStrategy.lsClass.memoryLocality.policy: value "worstEffort": allowed: one of bestEffort, none`; refused.Error() != want {
		t.Errorf("%v, want %s", refused, want)
	}
	_, refused, _ = DecodeResourceQOS(`{"nodeStrategies": [{"nodeSelector": {}, "beClass": {"memoryLocality": {"migrateIntervalMinutes": -1, "targetLocalityRatio": 101}}}]}`)
	const at = "field nodeStrategies[0].beClass.memoryLocality."
	if want := at + "migrateIntervalMinutes: value -1: allowed: 0 to 10080, or \"none\"\n" + at + "targetLocalityRatio: value 101: allowed: 0 to 100"; refused.Error() != want {
		t.Errorf("%v, want %s", refused, want)
	}
}

func TestMemoryLocalityInAgentConfig(t *testing.T) {
	t.Parallel()
	c, problems := DecodeAgentConfig([]byte(`{"workloadDir": "/w", "locality": {"enabled": false, "maxBandwidthMiBps": 0},
	  "resource-qos-config": {"clusterStrategy": {"lsrClass": {"memoryLocality": {"policy": "BestEffort"}}}}}`))
	if len(problems) > 0 || *c.Locality.Enabled || *c.Locality.MaxBandwidthMiBps != 0 {
		t.Errorf("%+v, %v", c.Locality, problems)
	}
	if class, _ := c.ResourceQOS.ClusterStrategy.Of(QoSLSE); !class.MemoryLocality.BestEffort() {
		t.Errorf("%+v", class)
	}
	for text, want := range map[string]string{
		`{"locality": {"maxBandwidthMiBps": 65537}}`:                                                     `field locality.maxBandwidthMiBps: value 65537: allowed: 0 to 65536`,
		`{"locality": {"maxBandwidthMiBps": -1}}`:                                                        `field locality.maxBandwidthMiBps: value -1: allowed: 0 to 65536`,
		`{"locality": {"enable": true}}`:                                                                 `field locality.enable: value true: allowed: only the fields enabled, maxBandwidthMiBps`,
		`{"resource-qos-config": {"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "x"}}}}}`: `field resource-qos-config.clusterStrategy.lsClass.memoryLocality.policy: value "x"`,
	} {
		if _, problems := DecodeAgentConfig([]byte(text)); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: %v, want %s", text, problems, want)
		}
	}
}

func TestInheritMemoryLocality(t *testing.T) {
	t.Parallel()
	read := func(text string) MemoryLocality {
		m, refused, _ := DecodeMemoryLocality(text)
		if len(refused) > 0 {
			t.Fatal(refused)
		}
		return m
	}
	for _, test := range []struct{ own, parent, want string }{
		{`{}`, `{}`, `{}`},
		{`{"policy": "none"}`, `{"policy": "bestEffort", "targetLocalityRatio": 90}`, `{"policy": "none", "targetLocalityRatio": 90}`},
		{`{"migrateIntervalMinutes": 0}`, `{"policy": "bestEffort", "migrateIntervalMinutes": 10}`, `{"policy": "bestEffort", "migrateIntervalMinutes": 0}`},
		{`{"policy": "bestEffort"}`, `{"migrateIntervalMinutes": 10}`, `{"policy": "bestEffort", "migrateIntervalMinutes": 10}`},
		{`{"policy": "bestEffort"}`, `{"migrateIntervalMinutes": "none"}`, `{"policy": "bestEffort"}`},
		{`{"targetLocalityRatio": 50}`, `{"policy": "bestEffort", "migrateIntervalMinutes": "none"}`, `{"policy": "bestEffort", "migrateIntervalMinutes": "none", "targetLocalityRatio": 50}`},
	} {
		if diff := cmp.Diff(read(test.want), read(test.own).Inherit(read(test.parent))); diff != "" {
			t.Errorf("%s inherits %s:\n%s", test.own, test.parent, diff)
		}
	}
	child := ClassQOS{CPUQOS: &ClassCPUQOS{SchedIdle: new(int64(1))}}
	parent := ClassQOS{CPUQOS: &ClassCPUQOS{SchedIdle: new(int64(0)), Enable: new(true)}, MemoryLocality: new(read(`{"policy": "none"}`))}
	got := child.Inherit(parent)
	if *got.CPUQOS.SchedIdle != 1 || !*got.CPUQOS.Enable || got.MemoryLocality.BestEffort() || child.CPUQOS.Enable != nil {
		t.Errorf("%+v of %+v", got, child)
	}
}

func TestMemoryLocalityStatusEncode(t *testing.T) {
	t.Parallel()
	s := MemoryLocalityStatus{Phase: MemoryLocalityPhaseCompleted, LastResult: &MemoryLocalityResult{
		CompletedTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Result: "Completed", CompletedTimeLocalityRatio: 98, CompletedTimeRemotePages: 28586,
	}}
	const want = `{"phase":"Completed","lastResult":{"completedTime":"2026-01-02T03:04:05Z","result":"Completed","completedTimeLocalityRatio":98,"completedTimeRemotePages":28586}}`
	if got := s.Encode(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (MemoryLocalityStatus{Phase: MemoryLocalityClosed}).Encode(); got != `{"phase":"Closed"}` {
		t.Error(got)
	}
}
