package agent

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability/burst/headroom"
)

// policy20 gives a credit of 20 s at 1 CPU above the limit of half a CPU.
const policy20 = `{"policy":"cfsQuotaBurstOnly","cfsQuotaBurstPercent":300,"cfsQuotaBurstPeriodSeconds":20}`

const (
	atLimit   = "50000 100000"
	atCeiling = "149998 100000" // a kubelet may write 150000
)

func in(t *testing.T, f func(t *testing.T, m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		defer m.abandon()
		f(t, m)
	})
}

func wantQuota(t *testing.T, m *machine, want string) {
	t.Helper()
	if got := m.quota(); got != want {
		t.Fatalf("cpu.max is %q, want %q; status %s", got, want, m.statusJSON())
	}
}

func wantState(t testing.TB, m *machine, want State) shown {
	t.Helper()
	s := m.status()
	if s.State != want {
		t.Fatalf("state is %s (%s), want %s", s.State, s.Reason, want)
	}
	return s
}

func TestArmsBeforeTheFirstBurstAndDisarmsOnStop(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		if s := wantState(t, m, StateActive); s.Burst.Writes != 1 {
			t.Errorf("%d writes, want 1", s.Burst.Writes)
		}
		m.run(time.Minute, 0.3)
		if s := m.status(); s.Burst.Writes != 1 {
			t.Errorf("%d writes after a minute of steady load, want 1", s.Burst.Writes)
		}
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		if got := m.quota(); got != atLimit {
			t.Errorf("after stop cpu.max is %q, want %q", got, atLimit)
		}
	})
}

func TestAbuserFallsBackToItsLimitAndRecoversWithRest(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		wantQuota(t, m, atCeiling)
		for range 40 {
			m.run(time.Second, m.rate(1.5))
		}
		wantQuota(t, m, atLimit)
		if s := m.status(); s.Burst.CreditSeconds > 3 || s.Burst.CreditSeconds < -1 {
			t.Errorf("credit %v, want about the reserve", s.Burst.CreditSeconds)
		}
		used, writes := m.used, m.status().Burst.Writes
		for range 60 {
			m.run(time.Second, m.rate(1.5))
		}
		if mean := (m.used - used).Seconds() / 60; mean > 0.5*1.01 {
			t.Errorf("mean after the credit is gone is %.3f CPUs, want at most 1.01 of 0.5", mean)
		}
		if more := m.status().Burst.Writes - writes; more > 2 {
			t.Errorf("%d writes in 60 s on an always-on abuser", more)
		}
		m.run(30*time.Second, 0)
		wantQuota(t, m, atCeiling)
		_ = m.stop()
	})
}

// rate returns the use of a group that needs more than its quota: the quota, at most most.
func (m *machine) rate(most float64) float64 {
	quota, err := strconv.Atoi(strings.Fields(m.quota())[0])
	if err != nil {
		m.t.Fatal(err)
	}
	return min(most, float64(quota)/100000)
}

func TestCreditSurvivesARestart(t *testing.T) {
	for name, restart := range map[string]func(*machine){
		"in order": func(m *machine) { _ = m.stop() },
		"killed":   (*machine).kill,
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.workload(policy20)
				m.boot()
				m.run(3*time.Second, 0)
				m.run(12*time.Second, 1)
				before := m.status().Burst.CreditSeconds
				restart(m)
				m.boot()
				m.run(100*time.Millisecond, 0)
				after := m.status().Burst.CreditSeconds
				if d := after - before; d < -0.2 || d > 0.2 {
					t.Errorf("credit %v before, %v after", before, after)
				}
				_ = m.stop()
			})
		})
	}
}

// An agent that stops first restores the quotas. Until the next agent comes the workload runs at its limit, which costs
// no credit.
func TestOrderlyRestartTakesNoCredit(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		wantQuota(t, m, atCeiling)
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		wantQuota(t, m, atLimit)
		m.run(time.Minute, 0.4)
		m.boot()
		m.run(100*time.Millisecond, 0)
		if c := m.status().Burst.CreditSeconds; c < 19.5 {
			t.Errorf("credit %v after a minute below the limit, want 20 without the reserve", c)
		}
		_ = m.stop()
	})
}

func TestFoundRaisedWithoutCheckpointStartsAtZero(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		wantQuota(t, m, atCeiling)
		m.kill()
		if err := os.Remove(m.path("etc/state/checkpoint.json")); err != nil {
			t.Fatal(err)
		}
		m.boot()
		m.run(200*time.Millisecond, 0)
		if c := m.status().Burst.CreditSeconds; c > 0.2 {
			t.Errorf("credit %v, want 0 and what came in since", c)
		}
		wantQuota(t, m, atLimit)
		if l := m.status().Burst.LimitCPUs; l != 0.5 {
			t.Errorf("limit %v, want the journal's 0.5", l)
		}
		_ = m.stop()
	})
}

func TestForeignValueIsAssertedOnceThenLeft(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		m.write("sys/fs/cgroup/app/cpu.max", "70000 100000\n")
		m.run(3*time.Second, 0)
		wantQuota(t, m, atCeiling)
		m.write("sys/fs/cgroup/app/cpu.max", "70000 100000\n")
		m.run(10*time.Second, 0)
		wantQuota(t, m, "70000 100000")
		wantState(t, m, StateDrift)
		if got := strings.Count(m.log.String(), v1alpha1.EventHostDrift); got != 1 {
			t.Errorf("%d HostDrift events, want 1", got)
		}
		_ = m.stop()
		wantQuota(t, m, "70000 100000") // compare-and-swap leaves the other value
	})
}

func TestDaemonReloadIsAssertedAgainAfterACalmMinute(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		for range 3 {
			m.run(70*time.Second, 0)
			wantQuota(t, m, atCeiling)
			m.write("sys/fs/cgroup/app/cpu.max", atLimit+"\n")
			m.run(2*time.Second, 0)
			wantQuota(t, m, atCeiling)
		}
		_ = m.stop()
	})
}

func TestResizeThatTheSpecConfirmsIsTheNewOriginal(t *testing.T) {
	for name, c := range map[string]struct{ limit, quota, raised string }{
		"more":                 {"800m", "80000 100000", "239998 100000"},
		"as much as it may be": {"1500m", "150000 100000", "449998 100000"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.workload(policy20)
				m.boot()
				m.run(3*time.Second, 0)
				m.workload(policy20, `, cpu: {limit: "`+c.limit+`"}`)
				m.write("sys/fs/cgroup/app/cpu.max", c.quota+"\n")
				m.run(5*time.Second, 0)
				wantQuota(t, m, c.raised)
				_ = m.stop()
				wantQuota(t, m, c.quota)
			})
		})
	}
}

func TestKernelDoublingIsNobodysDrift(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		m.write("sys/fs/cgroup/app/cpu.max", "299996 200000\n")
		m.run(3*time.Second, 0)
		wantState(t, m, StateActive)
		wantQuota(t, m, "299998 200000")
		if s := m.status(); s.Burst.LimitCPUs != 0.5 || s.Burst.Writes != 2 {
			t.Errorf("limit %v, %d writes; want 0.5 and 2", s.Burst.LimitCPUs, s.Burst.Writes)
		}
		_ = m.stop()
		wantQuota(t, m, "100000 200000")
	})
}

func TestKernelBurstIsWrittenOnce(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(`{"policy":"auto","cfsQuotaBurstPeriodSeconds":20}`)
		m.boot()
		m.run(30*time.Second, 0.2)
		if got := m.read("sys/fs/cgroup/app/cpu.max.burst"); got != "50000" {
			t.Errorf("cpu.max.burst is %s, want the limit's quota", got)
		}
		if s := m.status(); s.Burst.Writes != 2 {
			t.Errorf("%d writes, want 2: burst and quota", s.Burst.Writes)
		}
		_ = m.stop()
		if got := m.read("sys/fs/cgroup/app/cpu.max.burst"); got != "0" {
			t.Errorf("after stop cpu.max.burst is %s, want 0", got)
		}
	})
}

func TestNeverWritten(t *testing.T) {
	for name, c := range map[string]struct {
		max, policy string
		state       State
	}{
		"no quota":    {"max 100000", policy20, StateNoLimit},
		"policy none": {atLimit, `{"policy":"none"}`, StateOff},
		"bad policy":  {atLimit, `{"policy":"sometimes"}`, StateOff},
		"no credit":   {atLimit, `{"policy":"cfsQuotaBurstOnly","cfsQuotaBurstPeriodSeconds":0}`, StateActive},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.write("sys/fs/cgroup/app/cpu.max", c.max+"\n")
				m.workload(c.policy)
				m.boot()
				m.run(5*time.Second, 0.2)
				wantQuota(t, m, c.max)
				wantState(t, m, c.state)
				isInvalid := func(e view.Event) bool { return e.Reason == v1alpha1.EventInvalidPolicy && e.About == app && e.Warning }
				if said := m.events(); slices.ContainsFunc(said, isInvalid) != (name == "bad policy") {
					t.Errorf("events %+v", said)
				}
				if n := len(m.journal.Entries()); n != 0 {
					t.Errorf("%d journal entries, want none", n)
				}
				_ = m.stop()
			})
		})
	}
}

func TestPolicyRemovedPutsTheOriginalBack(t *testing.T) {
	for name, remove := range map[string]func(*machine){
		"policy none":  func(m *machine) { m.workload(`{"policy":"none"}`) },
		"file removed": func(m *machine) { _ = os.Remove(m.path("etc/workloads/app.yaml")) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.workload(policy20)
				m.boot()
				m.run(3*time.Second, 0)
				wantQuota(t, m, atCeiling)
				remove(m)
				m.run(4*time.Second, 0)
				if got := m.quota(); got != atLimit {
					t.Errorf("cpu.max is %q, want %q", got, atLimit)
				}
				if n := len(m.journal.Entries()); n != 0 {
					t.Errorf("%d journal entries left", n)
				}
				_ = m.stop()
			})
		})
	}
}

func TestPolicyOffAndOnFillsNoCredit(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		for range 30 {
			m.run(time.Second, m.rate(1.5))
		}
		spent := m.status().Burst.CreditSeconds
		m.workload(`{"policy":"none"}`)
		m.run(4*time.Second, 0.5)
		m.workload(policy20)
		m.run(4*time.Second, 0.5)
		if c := m.status().Burst.CreditSeconds; c > spent+0.5 {
			t.Errorf("credit %v before, %v after the policy was off for 4 s", spent, c)
		}
		_ = m.stop()
	})
}

func TestGroupThatAppearsLater(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		if err := os.Rename(m.path("sys/fs/cgroup/app"), m.path("elsewhere")); err != nil {
			t.Fatal(err)
		}
		m.boot()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantState(t, m, StatePending)
		if err := os.Rename(m.path("elsewhere"), m.path("sys/fs/cgroup/app")); err != nil {
			t.Fatal(err)
		}
		m.run(4*time.Second, 0)
		wantQuota(t, m, atCeiling)
		_ = m.stop()
	})
}

// A second workload for the same group waits until the first one is gone.
func TestSecondWorkloadOfAGroupWaits(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		wantQuota(t, m, atCeiling)
		m.write("etc/workloads/twin.yaml", `apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: twin}
spec: {cgroup: app}
`)
		m.run(4*time.Second, 0)
		wantState(t, m, StateActive)
		wantQuota(t, m, atCeiling)
		if err := os.Remove(m.path("etc/workloads/app.yaml")); err != nil {
			t.Fatal(err)
		}
		m.run(4*time.Second, 0)
		wantQuota(t, m, atLimit)
		_ = m.stop()
	})
}

func TestNodeGuardDividesTheHeadroom(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(15*time.Second, 0.1, 1)
		wantQuota(t, m, atCeiling) // 1.1 of 4 CPUs: below the threshold of 50 %
		m.run(30*time.Second, 0.1, 3.9)
		wantQuota(t, m, atLimit) // nothing left
		if s := m.status(); s.Burst.Limited == "" {
			t.Error("nothing says why the quota stands at the limit")
		}
		m.run(30*time.Second+headroom.GuardMemory, 0.1, 3.3)
		if got := m.rate(10); got <= 0.5 || got > 1.1+0.01 {
			t.Errorf("quota %v CPUs, want a share of the 0.6 CPUs left above 0.5: %s", got, m.statusJSON())
		}
		_ = m.stop()
	})
}

// The use of the node crosses the threshold every few seconds, as with bursting neighbors. The guard still writes the
// quota less than once in 20 s.
func TestNodeGuardWritesRarely(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(15*time.Second, 0.1, 1)
		wantQuota(t, m, atCeiling)
		before, length := m.status().Burst.Writes, time.Duration(0)
		for ; length < 5*time.Minute; length += 24 * time.Second {
			m.run(12*time.Second, 0.1, 3.3)
			m.run(12*time.Second, 0.1, 1)
		}
		if writes := m.status().Burst.Writes - before; writes < 1 || writes > uint64(length/(20*time.Second)) {
			t.Errorf("%d writes in %s", writes, length)
		}
		_ = m.stop()
	})
}

func TestAncestorCapsTheCeiling(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.addGroup("slice", "80000 100000")
		m.addGroup("slice/inner", atLimit)
		m.write("etc/workloads/app.yaml", `apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: app, annotations: {koordinator.sh/cpuBurst: '`+policy20+`'}}
spec: {cgroup: slice/inner}
`)
		m.boot()
		m.run(4*time.Second, 0)
		if got := m.read("sys/fs/cgroup/slice/inner/cpu.max"); got != "79998 100000" {
			t.Errorf("cpu.max is %q, want the ancestor's 80000", got)
		}
		if got := m.read("sys/fs/cgroup/slice/cpu.max"); got != "80000 100000" {
			t.Errorf("the ancestor's cpu.max is %q, it must never be written", got)
		}
		if s := m.status(); s.Burst.CapGroup != "slice" {
			t.Errorf("cap group %q, want slice", s.Burst.CapGroup)
		}
		_ = m.stop()
	})
}

// A raised quota leaves siblings below the same ancestor their limits, whether they burst or not.
func TestAncestorKeepsTheLimitsOfOthers(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.addGroup("slice", "150000 100000")
		m.addGroup("slice/inner", atLimit)
		m.addGroup("slice/other", "50000 100000")
		for name, policy := range map[string]string{"inner": policy20, "other": `{"policy": "none"}`} {
			m.write("etc/workloads/"+name+".yaml", `apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: `+name+`, annotations: {koordinator.sh/cpuBurst: '`+policy+`'}}
spec: {cgroup: slice/`+name+`}
`)
		}
		m.boot()
		m.run(4*time.Second, 0)
		if got := m.read("sys/fs/cgroup/slice/inner/cpu.max"); got != "99998 100000" {
			t.Errorf("cpu.max is %q, want what the ancestor leaves, 100000", got)
		}
		m.write("sys/fs/cgroup/slice/other/cpu.max", "90000 100000")
		m.run(70*time.Second, 0)
		if got := m.read("sys/fs/cgroup/slice/inner/cpu.max"); got != "59998 100000" {
			t.Errorf("cpu.max is %q after the other's limit grew, want 60000", got)
		}
		_ = m.stop()
	})
}

// Groups without a workload also claim their limits, as groups of pods without a policy do in Kubernetes.
func TestAncestorKeepsTheLimitsOfOtherGroups(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.addGroup("slice", "150000 100000")
		m.addGroup("slice/inner", atLimit)
		m.addGroup("slice/pods", "max 100000")
		m.addGroup("slice/pods/other", "60000 100000")
		m.write("etc/workloads/app.yaml", `apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: app, annotations: {koordinator.sh/cpuBurst: '`+policy20+`'}}
spec: {cgroup: slice/inner}
`)
		m.boot()
		m.run(4*time.Second, 0)
		if got := m.read("sys/fs/cgroup/slice/inner/cpu.max"); got != "89998 100000" {
			t.Errorf("cpu.max is %q, want what the ancestor leaves, 90000", got)
		}
		_ = m.stop()
	})
}

func TestUnreadableFilesKeepTheLastGoodOnes(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		m.write("etc/agent.yaml", "workloadDir: workloads\nnonsense: 1\n")
		m.run(3*time.Second, 0)
		wantQuota(t, m, atCeiling)
		if !strings.Contains(m.log.String(), "nonsense") {
			t.Error("the unknown field is not named in the log")
		}
		_ = m.stop()
	})
}

func TestStopReportsWhatItLeft(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		m.end()
		m.write("sys/fs/cgroup/app/cpu.max", "70000 100000\n")
		m.controls.opts.RestoreOnStop = true
		if err := m.controls.stop(); !errors.Is(err, ErrLeftBehind) || !strings.Contains(err.Error(), "restore: 1 values") {
			t.Errorf("stop: %v, want ErrLeftBehind of one value", err)
		}
		left := m.journal.Entries()
		if len(left) != 1 {
			t.Errorf("%d entries kept, want the one that could not be put back", len(left))
		}
		m.closeJournal()
	})
}

func TestPeriodOfSomebodyElseIsLeftAtOnce(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		wantQuota(t, m, atCeiling)
		m.write("sys/fs/cgroup/app/cpu.max", "9000 30000\n")
		m.run(5*time.Second, 0)
		wantQuota(t, m, "9000 30000")
		wantState(t, m, StateDrift)
		_ = m.stop()
		wantQuota(t, m, "9000 30000")
	})
}

func TestForeignKernelBurstDoesNotStopTheLaw(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(`{"policy":"auto","cfsQuotaBurstPeriodSeconds":20}`)
		m.boot()
		m.run(3*time.Second, 0)
		for range 2 {
			m.write("sys/fs/cgroup/app/cpu.max.burst", "10000\n")
			m.run(7*time.Second, 0)
		}
		if got := m.read("sys/fs/cgroup/app/cpu.max.burst"); got != "10000" {
			t.Errorf("cpu.max.burst is %s, want the other's 10000", got)
		}
		s := wantState(t, m, StateActive)
		if len(s.Warnings) == 0 {
			t.Error("no warning says that the burst is another writer's")
		}
		for range 40 {
			m.run(time.Second, m.rate(1.5))
		}
		wantQuota(t, m, atLimit)
		_ = m.stop()
	})
}

// loses raises app, and then lets another writer insist on 0.7 CPUs.
func (m *machine) loses() {
	m.t.Helper()
	m.run(3*time.Second, 0)
	for range 2 {
		m.write("sys/fs/cgroup/app/cpu.max", "70000 100000\n")
		m.run(3*time.Second, 0)
	}
	wantState(m.t, m, StateDrift)
}

func TestDriftOutlivesARestart(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.loses()
		_ = m.stop()
		m.boot()
		m.run(5*time.Second, 0)
		wantQuota(t, m, "70000 100000")
		wantState(t, m, StateDrift)
		m.workload(policy20, `, cpu: {limit: "700m"}`)
		m.run(5*time.Second, 0)
		wantQuota(t, m, "209998 100000")
		_ = m.stop()
		wantQuota(t, m, "70000 100000")
	})
}

func TestValueThatWasLeftIsPutBackOnceItCanBe(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		m.write("sys/fs/cgroup/app/cpu.max", "70000 100000\n")
		_ = os.Remove(m.path("etc/workloads/app.yaml"))
		m.run(5*time.Second, 0)
		m.write("sys/fs/cgroup/app/cpu.max", atLimit+"\n")
		m.workload(policy20)
		m.run(5*time.Second, 0)
		if got := m.quota(); got != atCeiling {
			t.Fatalf("cpu.max is %q, want %q", got, atCeiling)
		}
		_ = os.Remove(m.path("etc/workloads/app.yaml"))
		m.run(15*time.Second, 0)
		if got := m.quota(); got != atLimit {
			t.Errorf("cpu.max is %q, want %q", got, atLimit)
		}
		_ = m.stop()
	})
}

func TestCreditOutlivesPolicyOffAndARestart(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		for range 40 {
			m.run(time.Second, m.rate(1.5))
		}
		m.workload(`{"policy":"none"}`)
		m.run(4*time.Second, 0.5)
		_ = m.stop()
		m.boot()
		m.run(2*time.Second, 0.5)
		m.workload(policy20)
		m.run(4*time.Second, 0.5)
		if c := m.status().Burst.CreditSeconds; c > 3 {
			t.Errorf("credit %v, want what was left before the policy was switched off", c)
		}
		_ = m.stop()
	})
}

func TestRestartWritesNothingThatStands(t *testing.T) {
	for name, policy := range map[string]string{
		"credit":          policy20,
		"no credit limit": `{"policy":"cfsQuotaBurstOnly","cfsQuotaBurstPeriodSeconds":-1}`,
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\nburst: {allowUnlimited: true}\n")
				m.workload(policy)
				m.boot()
				m.run(12*time.Second, 0.1)
				wantQuota(t, m, atCeiling)
				m.kill()
				m.boot()
				m.run(5*time.Second, 0.1)
				wantQuota(t, m, atCeiling)
				if s := m.status(); s.Burst.Writes != 0 {
					t.Errorf("%d writes after a restart, want none", s.Burst.Writes)
				}
				_ = m.stop()
			})
		})
	}
}

// A host profile may change the bandwidth slice while the agent runs. The CPU time that can run unaccounted grows with
// the slice. Here it exceeds the capacity, and the quota returns to the limit.
func TestSliceIsReadAgain(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		m.write("proc/sys/kernel/sched_cfs_bandwidth_slice_us", "60000000\n")
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atLimit)
		_ = m.stop()
	})
}

func TestPeriodChangedAloneKeepsTheLimitsQuota(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(3*time.Second, 0)
		wantQuota(t, m, atCeiling)
		m.write("sys/fs/cgroup/app/cpu.max", "149998 30000\n")
		m.run(5*time.Second, 0)
		wantState(t, m, StateActive)
		_ = m.stop()
		wantQuota(t, m, "50000 30000")
	})
}

func TestUseWithoutALimitIsNoDebt(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.write("sys/fs/cgroup/app/cpu.max", "max 100000\n")
		m.workload(policy20)
		m.boot()
		m.run(time.Minute, 3)
		m.write("sys/fs/cgroup/app/cpu.max", atLimit+"\n")
		m.run(14*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		_ = m.stop()
		wantQuota(t, m, atLimit)
	})
}

func TestGroupOfALeftBurstMayVanish(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(`{"policy":"auto","cfsQuotaBurstPeriodSeconds":20}`)
		m.boot()
		m.run(3*time.Second, 0)
		for range 2 {
			m.write("sys/fs/cgroup/app/cpu.max.burst", "10000\n")
			m.run(7*time.Second, 0)
		}
		const twin = "apiVersion: berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: app}\nspec: {cgroup: app}\n"
		m.write("etc/workloads/app.yaml", twin+"---\n"+twin)
		m.run(4*time.Second, 0)
		wantState(t, m, StatePending)
		_ = m.stop()
	})
}
