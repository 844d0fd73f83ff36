package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/intent/workload"
)

// TestMerge checks which pods the client reports, given the lists of its two sources.
func TestMerge(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	// The format is "uid" or "uid@version", "uid/mirror" for a mirror of uid, and "uid#" for a static pod of the
	// kubelet.
	list := func(from Source, text string) []*Pod {
		var all []*Pod
		for word := range strings.FieldsSeq(text) {
			word, version, _ := strings.Cut(word, "@")
			p := &Pod{From: from, version: version, Pod: workload.Pod{Bound: now}}
			p.UID, p.Object.UID = word, word
			if uid, object, mirror := strings.Cut(word, "/"); mirror {
				p.UID, p.Object.UID, p.Static = uid, object, true
			}
			if uid, static := strings.CutSuffix(word, "#"); static {
				p.UID, p.Object.UID, p.Static = uid, "", true
			}
			all = append(all, p)
		}
		return all
	}
	ago := func(d time.Duration) time.Time {
		if d == 0 {
			return time.Time{}
		}
		return now.Add(-d)
	}
	const s = time.Second
	for _, test := range []struct {
		name        string
		api         string
		listed      bool
		away, asked time.Duration // Ago; 0 for never.
		kubelet     string
		gone        string
		before      string
		want        string
	}{
		{"nothing yet", "", false, 0, 0, "", "", "", "nowhere:"},
		{"no API server yet", "", false, 0, s, "a b", "", "", "kubelet: a=kubelet b=kubelet"},
		{"no API server for long", "", false, 60 * s, s, "a", "", "", "kubelet: a=kubelet"},
		{"neither answers", "", false, 60 * s, 30 * s, "a", "", "", "memory: a=kubelet"},
		{"API server only", "a b", true, 0, 0, "", "", "", "API server: a=API server b=API server"},
		{"both agree", "a@5", true, 0, s, "a@7", "", "", "API server: a=API server"},
		{"only the kubelet knows it", "a", true, 0, s, "a b", "", "", "API server: a=API server b=kubelet"},
		{"deleted at the API server", "a", true, 0, s, "a b", "b", "", "API server: a=API server"},
		{"a static pod with its mirror", "x/m", true, 0, s, "x#", "", "", "API server: x=API server"},
		{"a static pod without one", "a", true, 0, s, "a x#", "", "", "API server: a=API server x=kubelet"},
		{"a mirror that claims a pod", "a a/forged", true, 0, 0, "", "", "", "API server: a=API server"},
		{"a mirror that claims a pod, the other way round", "a/forged a", true, 0, 0, "", "", "", "API server: a=API server"},
		{"away, kubelet not asked since", "a", true, 5 * s, 8 * s, "a b", "", "", "memory: a=API server b=kubelet"},
		{"away, kubelet newer", "a@5", true, 5 * s, s, "a@7", "", "", "kubelet: a=kubelet"},
		{"away, kubelet older", "a@15", true, 5 * s, s, "a@7", "", "", "kubelet: a=API server"},
		{"away, kubelet does not know it yet", "a b", true, 5 * s, s, "a", "", "", "kubelet: a=API server b=API server"},
		{"away for long, kubelet does not know it", "a b", true, 30 * s, s, "a", "", "", "kubelet: a=API server"},
		{"away, deleted before", "a", true, 5 * s, s, "a b", "b", "", "kubelet: a=API server"},
		{"away, kubelet silent", "a b", true, 60 * s, 20 * s, "a", "", "", "memory: a=API server"},
		{"away, no kubelet", "a b", true, 60 * s, 0, "", "", "", "memory: a=API server b=API server"},
		{"away, a static pod with its mirror", "x/m", true, 30 * s, s, "x#", "", "", "kubelet: x=API server"},
		{"nothing yet, and an earlier agent knew", "", false, 0, 0, "", "", "a b", "nowhere:"},
		{"neither answered yet", "", false, 5 * s, 0, "", "", "a b", "memory: a=API server b=API server"},
		{"only the kubelet answered", "", false, 5 * s, s, "a", "", "a b", "kubelet: a=kubelet"},
		{"away again", "a", true, 5 * s, 0, "", "", "a b", "memory: a=API server"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := view{
				api: list(APIServer, test.api), listed: test.listed, awaySince: ago(test.away),
				kubelet: list(Kubelet, test.kubelet), asked: ago(test.asked), gone: map[string]time.Time{},
				before: list(APIServer, test.before),
			}
			for uid := range strings.FieldsSeq(test.gone) {
				v.gone[uid] = now
			}
			pods, from := v.pods(now)
			got := from.String() + ":"
			for _, pod := range pods {
				got += fmt.Sprintf(" %s=%s", pod.UID, pod.From)
				if pod.Object.UID == "forged" {
					t.Error("a forged mirror took the place of a pod")
				}
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
