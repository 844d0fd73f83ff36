package quota

import (
	"errors"
	"maps"
	"math"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// Keys of burst in the checkpoint and in the JSON of status.
const (
	burstName  = "burst"
	keyGuard   = "node"
	keyLedgers = "ledgers"
	keyCarried = "carried"
	keyStarted = "started"
)

// Burst is the state of the control law for one group. CPUs are CPU-seconds per
// second; times in the names' units.
type Burst struct {
	LimitCPUs    unit.CPUs   `json:"limitCPUs"`
	QuotaMicros  unit.Micros `json:"quotaMicros"`
	PeriodMicros unit.Micros `json:"periodMicros"`
	KernelBurst  unit.Micros `json:"kernelBurstMicros"`
	// KernelSupport says whether this kernel has a burst of its own.
	KernelSupport   kernel.Support  `json:"kernelBurstSupport"`
	CeilingCPUs     unit.CPUs       `json:"ceilingCPUs"`
	CreditSeconds   unit.CPUSeconds `json:"creditCPUSeconds"`
	CapacitySeconds unit.CPUSeconds `json:"capacityCPUSeconds"`
	ReserveSeconds  unit.CPUSeconds `json:"reserveCPUSeconds"`
	ExposureSeconds unit.CPUSeconds `json:"exposureCPUSeconds"`
	Decision        string          `json:"decision"`
	// Limited names why the quota cannot rise to the policy's ceiling, if so.
	Limited string `json:"limited,omitempty"`
	// CapGroup is the ancestor with the smallest quota on the path, if one binds.
	CapGroup string `json:"capGroup,omitempty"`
	// Throttled and Periods are the group's own; AncestorThrottled is summed over
	// the path above, since an ancestor's quota throttles the group as well.
	Periods           uint64 `json:"periods"`
	Throttled         uint64 `json:"throttledPeriods"`
	AncestorThrottled uint64 `json:"ancestorThrottledPeriods"`
	Writes            uint64 `json:"writes"`
}

// Guard is the state of the node guard.
type Guard struct {
	// UseRatio is the 10 s mean of the CPU used by everything neither offline nor
	// pinned, over the CPUs of the shared pool; 0..1.
	UseRatio  float64 `json:"useRatio"`
	Threshold float64 `json:"threshold"`
	PoolCPUs  int     `json:"poolCPUs"`
	// LatenessSeconds is the largest lateness of a look since the agent started.
	LatenessSeconds float64 `json:"latenessSeconds"`
}

// SavedLedger is a ledger with the identity of the group whose use it counts.
type SavedLedger struct {
	Group  hostfs.ID    `json:"group"`
	Ledger burst.Ledger `json:"ledger"`
	// Left is the cpu.max that was left to another writer, empty otherwise.
	Left cgroup.Value `json:"left,omitempty"`
}

// Describe implements capability.Capability.
func (*Groups) Describe() capability.Info {
	return capability.Info{
		Name:    burstName,
		Owners:  []plan.Owner{plan.OwnerBurst},
		Reverts: true,
		Summary: "quotas above the limit, from credit that was saved",
		Page:    "docs/burst.md",
		Keys:    []string{v1alpha1.AnnotationCPUBurst, v1alpha1.AnnotationCPUBurstAlias},
		Metrics: burstMetrics(),
		Config:  burstConfig(),
		Columns: []string{"LIMIT", "QUOTA", "CREDIT", "THROTTLED"},
		Reader:  burstReader{},
	}
}

// Decide implements capability.Decider. The settings of burst go by the writer, at the moment
// at which they are paid for, and not by a Decision.
func (q *Groups) Decide(n *capability.Node) capability.Decision {
	q.pool.take(n)
	q.unlimited = n.Unlimited
	q.follow(n.Now)
	for _, m := range q.order {
		if m.group != nil && m.state != StatePending && q.unlimited[m.group.Path()] {
			m.max.Retake()
			q.settleState(m) // what burst raised is put back before the quota goes
		}
	}
	q.above.Round(n.Now)
	q.gatherPods(n.Now)
	q.writer.LetGo(n.Now)
	if err := q.pool.sample(n.Now, q.opts.Root, q.offlineUse()); err != nil {
		q.opts.Fail("node use", err)
	}
	q.recheckIdle(n.Now)
	q.share(n.Now)
	return capability.Decision{}
}

// Outcome implements capability.Capability.
func (q *Groups) Outcome(now time.Time) capability.Outcome {
	guard := q.pool.status()
	guard.LatenessSeconds = q.worst.Seconds()
	out := capability.Outcome{Node: capability.Sections{keyGuard: guard}, State: q.state()}
	for _, m := range q.order {
		out.Rows = append(out.Rows, m.row())
	}
	for _, w := range q.roster.Waiting() {
		if w.Damaged {
			continue // it is among the problems
		}
		out.Rows = append(out.Rows, capability.Row{Workload: capability.Workload{
			Name: w.Workload.Name, File: w.Workload.File, Group: w.Workload.Cgroup, State: StatePending,
			Reason: w.Reason, Since: now, Policy: w.Workload.Burst.Policy,
		}})
	}
	return out
}

// Recall implements capability.Capability.
func (q *Groups) Recall(saved capability.Sections) error {
	before, started := newAccounts(), map[string]map[int]uint64{}
	err := errors.Join(saved.Decode(keyLedgers, &before.saved), saved.Decode(keyCarried, &before.carried), saved.Decode(keyStarted, &started))
	if err != nil {
		return err
	}
	maps.Copy(q.saved, before.saved)
	maps.Copy(q.carried, before.carried)
	q.roster.Recall(started)
	return nil
}

// state is what outlives the agent: the ledgers by the path of their group, those of
// containers by the pod's UID and the container, since a restarted container has a new
// group and keeps its account, and the start times of processes.
func (q *Groups) state() capability.Sections {
	now := accounts{maps.Clone(q.saved), maps.Clone(q.carried)}
	for _, m := range q.order {
		if m.state == StateActive {
			now.remember(m)
		}
	}
	out := capability.Sections{keyLedgers: now.saved}
	if len(now.carried) > 0 {
		out[keyCarried] = now.carried
	}
	if started := q.roster.Started(); len(started) > 0 {
		out[keyStarted] = started
	}
	return out
}

// row is what the agent reports of m.
func (m *Group) row() capability.Row {
	row := capability.Row{Workload: capability.Workload{
		Name:         m.workload.Name,
		File:         m.workload.File,
		Group:        m.workload.Cgroup,
		State:        m.state,
		Reason:       m.reason,
		Since:        m.since,
		Policy:       m.workload.Burst.Policy,
		PolicySource: m.workload.Burst.Source,
		Warnings:     m.warnings(),
	}}
	if m.group == nil {
		return row
	}
	row.Group = m.group.Path()
	if m.state == StateActive || m.state == StateDrift {
		row.Section = m.burstStatus()
	}
	return row
}

func (m *Group) burstStatus() *Burst {
	made, _ := m.writes()
	return &Burst{
		LimitCPUs:         m.law.Facts.Limit(),
		QuotaMicros:       m.law.Facts.Standing,
		PeriodMicros:      m.law.Facts.Period,
		KernelBurst:       m.law.Facts.Burst,
		KernelSupport:     m.kernelBurst,
		CeilingCPUs:       finite(m.law.Facts.Ceiling),
		CreditSeconds:     m.law.Ledger.Credit,
		CapacitySeconds:   finite(m.law.Policy.Capacity(m.law.Facts.Limit())),
		ReserveSeconds:    m.law.Decision.Reserve,
		ExposureSeconds:   m.law.Decision.Exposure,
		Decision:          m.law.Decision.Reason.String(),
		Limited:           m.limited,
		CapGroup:          m.law.CapGroup,
		Periods:           m.throttling.Periods,
		Throttled:         m.throttling.Throttled,
		AncestorThrottled: m.ancestorThrottled,
		Writes:            made,
	}
}

// finite replaces an unbounded amount by -1, since JSON has no infinity.
func finite[N ~float64](s N) N {
	if math.IsInf(float64(s), 0) {
		return -1
	}
	return s
}
