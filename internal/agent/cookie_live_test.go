package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/coresched"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/test/patience"
)

// cookies returns the distinct cookies of the threads in the site's group.
func (s *site) cookies() map[coresched.Cookie]bool {
	s.t.Helper()
	tids, _, err := s.host.ThreadIDs(s.group.Handle())
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[coresched.Cookie]bool{}
	for _, tid := range tids {
		c, err := coresched.Of(tid)
		if errors.Is(err, coresched.ErrGone) {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		all[c] = true
	}
	return all
}

// shares waits until all threads of the site's group have the same cookie and ok accepts it. It returns the cookie; 0
// is none.
func (s *site) shares(when string, ok func(coresched.Cookie) bool) coresched.Cookie {
	s.t.Helper()
	var one coresched.Cookie
	err := patience.Until(context.WithoutCancel(s.t.Context()), 50*time.Millisecond, func() string {
		all := slices.Collect(maps.Keys(s.cookies()))
		if len(all) == 1 && ok(all[0]) {
			one = all[0]
			return ""
		}
		return fmt.Sprintf("the threads have the cookies %v", all)
	})
	if err != nil {
		s.t.Fatalf("%s: %v; status %s", when, err, s.view())
	}
	return one
}

// Offline work without cores of its own shares a cookie, including a process that joins later. It has the cookie while
// it is offline work and the agent runs. Status names a kernel without core scheduling.
func TestLiveOfflineThreadsShareACookie(t *testing.T) {
	s := newSite(t, "cookie")
	config, err := os.ReadFile(filepath.Join(s.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("agent.yaml", string(config)+
		"resource-qos-config: {clusterStrategy: {policies: {cpuPolicy: coreSched}, beClass: {cpuQOS: {enable: true}}}}\n")
	write := func(class string) {
		s.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, labels: {koordinator.sh/qosClass: %s}}
spec: {cgroup: %s}
`, class, s.group.Path()))
	}
	write("BE")
	s.spin()
	stop := s.start()
	s.waitReady()
	if support, note := kernel.CoreScheduling(); support != kernel.Supported {
		s.refuses(note)
		return
	}
	none, some := func(c coresched.Cookie) bool { return c == 0 }, func(c coresched.Cookie) bool { return c != 0 }
	first := s.shares("offline work came", some)
	s.spin()
	if c := s.shares("a process joined", some); c != first {
		t.Errorf("cookie %s, before %s", c, first)
	}
	if text := s.view(); !strings.Contains(text, `"cookie":"`+first.String()+`"`) || strings.Contains(text, `"longestGapSeconds":0,`) {
		t.Errorf("status %s", text)
	}
	if text := s.get("/metrics"); !strings.Contains(text, `berth_isolate_cookie_threads{cookie="no"} 0`) {
		t.Errorf("metrics %s", text)
	}
	write("LS")
	s.shares("it is online work", none)
	write("BE")
	s.shares("it is offline work again", some)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if all := s.cookies(); len(all) != 1 || !all[0] {
		t.Errorf("after the end of the agent the threads have the cookies %v", all)
	}
}

// refuses waits until status gives the reason for the missing cookie.
func (s *site) refuses(note string) {
	s.t.Helper()
	want := `"reason":"the kernel has no core scheduling: ` + note
	err := patience.Until(context.WithoutCancel(s.t.Context()), 50*time.Millisecond, func() string {
		if text := s.view(); !strings.Contains(text, want) {
			return text
		}
		return ""
	})
	if err != nil {
		s.t.Errorf("want %s: %v", want, err)
	}
}
