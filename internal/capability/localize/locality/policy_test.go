package locality

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
)

func read(t *testing.T, text string) *v1alpha1.MemoryLocality {
	t.Helper()
	if text == "" {
		return nil
	}
	m, refused, _ := v1alpha1.DecodeMemoryLocality(text)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	return &m
}

func TestPolicyOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotation, class string
		on, byClass       bool
		source            string
		refused, unknown  string
	}{
		"nothing":                   {"", "", false, false, "", "", ""},
		"annotation":                {`{"policy": "BestEffort"}`, "", true, false, "annotation koordinator.sh/memoryLocality", "", ""},
		"class":                     {"", `{"policy": "bestEffort"}`, true, true, "ConfigMap", "", ""},
		"pod over class":            {`{"policy": "none"}`, `{"policy": "bestEffort"}`, false, false, "annotation koordinator.sh/memoryLocality", "", ""},
		"class chooses, pod adds":   {`{"migrateIntervalMinutes": 5}`, `{"policy": "bestEffort"}`, true, true, "ConfigMap", "", ""},
		"annotation without effect": {`{"migrateIntervalMinutes": 5}`, "", false, false, "annotation koordinator.sh/memoryLocality", "", ""},
		"refused, also for class": {
			`{"policy": "bestEffort", "targetLocalityRatio": 101}`, `{"policy": "bestEffort"}`, false, false, "annotation koordinator.sh/memoryLocality",
			`field metadata.annotations[koordinator.sh/memoryLocality].targetLocalityRatio: value 101: allowed: 0 to 100`, "",
		},
		"no JSON": {`yes`, "", false, false, "annotation koordinator.sh/memoryLocality", `field metadata.annotations[koordinator.sh/memoryLocality]: value "yes"`, ""},
		"unknown field": {
			`{"policy": "bestEffort", "newer": 1}`, "", true, false, "annotation koordinator.sh/memoryLocality", "",
			`field metadata.annotations[koordinator.sh/memoryLocality].newer: value 1`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := map[string]string{}
			if tt.annotation != "" {
				annotations[v1alpha1.AnnotationMemoryLocality] = tt.annotation
			}
			p, refused, unknown := PolicyOf(annotations, read(t, tt.class), "ConfigMap")
			if p.BestEffort() != tt.on || p.ByClass != tt.byClass || p.Source != tt.source {
				t.Errorf("%+v", p)
			}
			for _, problems := range []struct {
				got  v1alpha1.FieldErrors
				want string
			}{{refused, tt.refused}, {unknown, tt.unknown}} {
				if (len(problems.got) > 0) != (problems.want != "") || !strings.Contains(problems.got.Error(), problems.want) {
					t.Errorf("%v, want %s", problems.got, problems.want)
				}
			}
		})
	}
}

// TestTextIsShort checks that the remembered text of a policy stays short for any annotation, and differs for different
// policies.
func TestTextIsShort(t *testing.T) {
	t.Parallel()
	text := func(annotation string) string {
		p, _, _ := PolicyOf(map[string]string{v1alpha1.AnnotationMemoryLocality: annotation}, read(t, `{"policy": "bestEffort"}`), "ConfigMap")
		return p.Text
	}
	long := `{"x": "` + strings.Repeat("x", 1<<18)
	if one := text(long + `"}`); len(one) > 64 || one == "" || one == text(long+`y"}`) || one != text(long+`"}`) {
		t.Errorf("%d bytes", len(one))
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	const asked, every10 = `{"policy": "bestEffort"}`, `{"policy": "bestEffort", "migrateIntervalMinutes": 10}`
	past := func(text string) Past { return Past{Text: text, Local: "0", Ended: time.Hour} }
	for _, test := range []struct {
		name, text string
		byClass    bool
		past       Past
		local      string
		after      time.Duration
		ratio      int
		want       bool
	}{
		{"by annotation at once", asked, false, Past{}, "0", 0, 43, true},
		{"by annotation at once, also at the target", asked, false, Past{}, "0", 0, 100, true},
		{"by class below the target", asked, true, Past{}, "0", 0, 99, true},
		{"by class at the target", asked, true, Past{}, "0", 0, 100, false},
		{"one pass", asked, false, past(asked), "0", 9999 * time.Hour, 0, false},
		{"another text", asked, false, past(every10), "0", 0, 100, true},
		{"other local nodes", asked, false, past(asked), "1", 0, 43, true},
		{"other local nodes, at the target", asked, false, past(asked), "1", 0, 100, false},
		{"interval not over", every10, false, past(every10), "0", 10*time.Minute - 1, 43, false},
		{"interval over", every10, false, past(every10), "0", 10 * time.Minute, 43, true},
		{"interval over, at the target", every10, false, past(every10), "0", 10 * time.Minute, 100, false},
		{"a target of its own", `{"policy": "bestEffort", "migrateIntervalMinutes": 10, "targetLocalityRatio": 40}`, true, Past{}, "0", 0, 43, false},
		{"none", `{"policy": "none"}`, false, Past{}, "0", 0, 0, false},
		{"interval none", `{"policy": "bestEffort", "migrateIntervalMinutes": "none"}`, false, Past{}, "0", 0, 0, false},
	} {
		p := Policy{MemoryLocality: *read(t, test.text), Text: test.text, ByClass: test.byClass}
		if got := p.Due(test.past, test.local, time.Hour+test.after, test.ratio); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestPassesKeepTheInterval checks that two passes of a policy on the same nodes are at least its interval apart, and
// that without an interval there is no second pass.
func TestPassesKeepTheInterval(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.IntRange(0, 20).Draw(t, "minutes")
		best := v1alpha1.MemoryLocalityBestEffort
		p := Policy{Text: "x", ByClass: rapid.Bool().Draw(t, "class")}
		p.Policy, p.MigrateIntervalMinutes = &best, float64(minutes)
		past, passes := Past{}, 0
		for range 50 {
			now := past.Ended + time.Duration(rapid.IntRange(0, 1500).Draw(t, "seconds"))*time.Second
			ratio := rapid.IntRange(0, 100).Draw(t, "ratio")
			if !p.Due(past, "0", now, ratio) {
				continue
			}
			if passes++; passes > 1 && (minutes == 0 || now-past.Ended < p.Interval() || ratio == Full) {
				t.Fatalf("pass %d at %v after %v, ratio %d, with an interval of %d min", passes, now, past.Ended, ratio, minutes)
			}
			past = Past{Text: "x", Local: "0", Ended: now}
		}
	})
}
