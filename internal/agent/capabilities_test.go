package agent

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/agent/checkpoint"
	"github.com/berth-project/berth/internal/agent/metrics"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/burst/quota"
	"github.com/berth-project/berth/internal/capability/place/pin"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/roster"
	"github.com/berth-project/berth/test/newcomer"
)

// The agent serves a capability that no file of this package names: its status, metrics, problems, owner and
// checkpoint.
func TestNewCapability(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		first := &newcomer.Newcomer{Workloads: []string{app, "alone"}}
		m.more = []capability.Capability{first}
		m.boot()
		m.run(4*time.Second, 0.1)
		v := m.served()
		want := []string{
			`{"name":"alone","state":"Asleep","since":"","policy":"","warnings":["it snores"],"newcomer":{"bunk":2}}`,
			`{"name":"app","state":"Active","since":"","policy":"cfsQuotaBurstOnly","warnings":["it snores"],"newcomer":{"bunk":1}}`,
		}
		var got []string
		for _, w := range v.Statuses() {
			delete(w.Sections, "burst")
			w.Since, w.File, w.Group, w.PolicySource = time.Time{}, "", "", ""
			got = append(got, strings.ReplaceAll(text(t, w), "0001-01-01T00:00:00Z", ""))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("workloads (-want +got):\n%s", diff)
		}
		if got := text(t, v.Node["newcomerNode"]); got != `{"bunks":2}` {
			t.Errorf("the node has %s", got)
		}
		if diff := cmp.Diff([]string{"a bunk squeaks"}, v.Problems); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		if got := m.samples()["berth_newcomer_bunks"]; got != 2 {
			t.Errorf("%d samples of the metric, want 2", got)
		}
		m.changeFor(newcomer.Owner)
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		if got := m.quotaOf("bunk"); got != atLimit {
			t.Errorf("after the stop its group has %s, want %s", got, atLimit)
		}
		again := &newcomer.Newcomer{}
		m.more = []capability.Capability{again}
		m.boot()
		if first.Restarts != 0 || again.Restarts != 1 {
			t.Errorf("it remembers %d restarts and then %d, want 0 and 1", first.Restarts, again.Restarts)
		}
		wantState(t, m, StateActive)
	})
}

// The reconciler writes a value that an unknown capability desires, restores it after another writer, and rolls it back
// once the capability no longer desires it.
func TestNewCapabilityDecides(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.addGroup("bunk", atLimit)
		one := &newcomer.Newcomer{
			Settings: []plan.Desired{{Setting: plan.Setting{
				Target: cgroupfile.Target("bunk", cgroup.KnobMax), Value: "70000 100000",
				Owner: newcomer.Owner, Workload: "sleeper", Why: "a bunk is narrow",
			}}},
			Events: []capability.Event{{Reason: "BunkGiven", Text: "the bunk is made"}},
		}
		m.more = []capability.Capability{one}
		m.boot()
		m.run(2*time.Second, 0)
		if got := m.quotaOf("bunk"); got != "70000 100000" {
			t.Errorf("its group has %s", got)
		}
		if e, known := m.journal.Entry(cgroupfile.Target("bunk", cgroup.KnobMax)); !known || e.Owner != newcomer.Owner || e.Original != atLimit {
			t.Errorf("the journal has %+v", e)
		}
		if n := strings.Count(m.log.String(), "BunkGiven"); n != 1 {
			t.Errorf("its event was reported %d times", n)
		}
		m.write("sys/fs/cgroup/bunk/cpu.max", "30000 100000\n")
		m.run(20*time.Second, 0)
		if got := m.quotaOf("bunk"); got != "70000 100000" {
			t.Errorf("after another writer its group has %s", got)
		}
		m.controls.mu.Lock()
		one.Settings = nil
		m.controls.mu.Unlock()
		m.run(2*time.Second, 0)
		if got := m.quotaOf("bunk"); got != atLimit {
			t.Errorf("when nothing is desired any more its group has %s", got)
		}
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// changeFor changes the quota of the group bunk, and records the owner in the journal.
func (m *machine) changeFor(owner plan.Owner) {
	m.t.Helper()
	m.addGroup("bunk", atLimit)
	m.controls.mu.Lock()
	defer m.controls.mu.Unlock()
	group, err := m.controls.host.Group("bunk")
	if err != nil {
		m.t.Fatal(err)
	}
	id, err := group.ID(cgroup.CPU)
	if err := errors.Join(err, group.Close()); err != nil {
		m.t.Fatal(err)
	}
	setting := plan.Setting{
		Target: cgroupfile.Target("bunk", cgroup.KnobMax), ID: cgroupfile.Identity(id),
		Owner: owner, Workload: app,
	}
	writer := m.controls.reconciler.Quotas()
	changed := writer.Quota(setting, plan.Writers{}, atLimit)
	writer.Set(0, reconcile.Move{Quota: changed, Value: atCeiling, Why: "it was asked for"})
	if changed.Err() != nil {
		m.t.Fatal(changed.Err())
	}
}

// served returns the view that the agent sends to commands.
func (m *machine) served() *view.View {
	m.t.Helper()
	now, err := (&viewer{agent: m.controls}).look()
	if err != nil {
		m.t.Fatal(err)
	}
	answer, err := json.Marshal(now)
	if err != nil {
		m.t.Fatal(err)
	}
	var v view.View
	if err := json.Unmarshal(answer, &v); err != nil {
		m.t.Fatalf("%v in %s", err, answer)
	}
	return &v
}

// samples returns the number of samples of each Berth metric in one scrape.
func (m *machine) samples() map[string]int {
	m.t.Helper()
	registry, err := metrics.Registry(m.controls.measured())
	if err != nil {
		m.t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		m.t.Fatal(err)
	}
	samples := map[string]int{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "berth_") {
			continue // a metric of the process
		}
		samples[f.GetName()] = len(f.GetMetric())
	}
	return samples
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The agent reads the checkpoint of an agent without capabilities, and writes the same content again.
func TestRecordedCheckpointIsRecalled(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		recorded, err := os.ReadFile("../cli/testdata/report/checkpoint.json")
		if err != nil {
			t.Fatal(err)
		}
		m.write("etc/state/"+checkpoint.File, string(recorded))
		m.workload(policy20)
		m.boot()
		c := m.controls
		c.mu.Lock()
		defer c.mu.Unlock()
		var carried map[string]credit.Ledger
		var started map[string]map[int]uint64
		state := c.checkpoint().Sections
		if err := errors.Join(state.Decode("carried", &carried), state.Decode("started", &started)); err != nil {
			t.Fatal(err)
		}
		if got := carried["8a1c/shop/redis/main"].Credit; got != 3.5 {
			t.Errorf("the carried ledger has a credit of %v, want 3.5", got)
		}
		if got := started["app"][812]; got != 99181 {
			t.Errorf("process 812 started at %d, want 99181", got)
		}
		if got := m.kubelet(); got == nil || got.CPUManagerPolicy != "none" {
			t.Errorf("the kubelet said %+v", got)
		}
		// A pass would forget these ledgers, because their groups are gone.
		fresh := quota.New(quota.Options{}, roster.New(roster.Options{}), nil)
		var cp checkpoint.Checkpoint
		if err := json.Unmarshal(recorded, &cp); err != nil {
			t.Fatal(err)
		}
		if err := fresh.Recall(cp.Sections); err != nil {
			t.Fatal(err)
		}
		var saved map[string]quota.SavedLedger
		if err := fresh.State().Decode("ledgers", &saved); err != nil {
			t.Fatal(err)
		}
		if got := saved["left"]; got.Left != "70000 100000" || got.Group.Ino != 290890 || got.Ledger.Credit != 7.9225 {
			t.Errorf("ledger of the group left: %+v", got)
		}
		var before, after any
		if err := json.Unmarshal(recorded, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text(t, cp)), &after); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("written again (-recorded +written):\n%s", diff)
		}
	})
}

// A checkpoint has the keys that agents without capabilities read. An upgrade and a downgrade can therefore continue
// with it.
func TestCheckpointKeys(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(4*time.Second, 0.1)
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(m.path("etc/state"), checkpoint.File))
		if err != nil {
			t.Fatal(err)
		}
		var old struct {
			Version   string                       `json:"version"`
			BootID    string                       `json:"bootID"`
			Node      burst.NodeStatus             `json:"node"`
			CPUs      *pin.CPUs                    `json:"cpus"`
			Ledgers   map[string]quota.SavedLedger `json:"ledgers"`
			Workloads []struct {
				Name  string        `json:"name"`
				State State         `json:"state"`
				Burst *burst.Status `json:"burst"`
			} `json:"workloads"`
		}
		if err := json.Unmarshal(data, &old); err != nil {
			t.Fatal(err)
		}
		if old.Version != "test" || old.BootID == "" || old.Node.PoolCPUs != 4 || old.CPUs == nil || old.Ledgers[app].Ledger.Credit == 0 ||
			len(old.Workloads) != 1 || old.Workloads[0].State != StateActive || old.Workloads[0].Burst == nil {
			t.Errorf("an agent of before reads %+v", old)
		}
	})
}

// No two capabilities share a name, an owner or a metric, and no capability has the name of a status field.
func TestCapabilitiesAreApart(t *testing.T) {
	all := Capabilities()
	used := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[capability.Workload]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		used["name "+name] = true
	}
	use := func(what string) {
		if used[what] {
			t.Errorf("%s is used twice", what)
		}
		used[what] = true
	}
	for _, info := range all {
		use("name " + info.Name)
		for _, owner := range info.Owners {
			use("owner " + string(owner))
		}
		for _, metric := range info.Metrics {
			use("metric " + metric.Name)
		}
	}
	want := []plan.Owner{plan.OwnerBurst, plan.OwnerIsolate, plan.OwnerPlace, plan.OwnerPool}
	if diff := cmp.Diff(want, capability.OwnersOf(all)); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	reverts := func(o plan.Owner) bool { return capability.Reverts(all, o) }
	if !reverts(plan.OwnerBurst) || !reverts(plan.OwnerIsolate) || reverts(plan.OwnerPlace) || reverts(plan.OwnerPool) {
		t.Error("on a stop quotas and offline cores go back, and pinned CPU sets stay")
	}
}
