package offline

import (
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/capability/isolate/cookies"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/observed"
)

const (
	// name is the name of the capability, keyNode its key in the checkpoint and in the JSON of status.
	name    = "isolate"
	keyNode = "isolation"
)

// Node is the state of the node as a whole. CPU lists are in the kernel's format; counts of cores are of movable cores.
type Node struct {
	// Cores is how offline work has cores of its own: by cpuset, by quota, which means no particular cores, or empty
	// for none.
	Cores string `json:"cores"`
	// Quota is how many CPUs offline work may use by quota.
	Quota float64 `json:"quota,omitempty"`
	// Limit is why offline work has no cores or quota although it should.
	Limit string `json:"limit,omitempty"`
	// Online and Offline are the CPUs of the sides.
	Online  string `json:"online"`
	Offline string `json:"offline"`
	// Use is the use of the online side, in CPUs, Need its need of cores, including the buffer.
	Use  float64 `json:"use"`
	Need int     `json:"need"`
	// Low is the number of cores guaranteed to offline work, Target the desired number.
	Low    int `json:"low"`
	Target int `json:"target"`
	// Movable is how many cores either side may have.
	Movable int `json:"movable"`
	// System is the use outside pods and workloads, while there is offline work.
	System *isolate.System `json:"system,omitempty"`
	// Reason is why the boundary is in its place, or why it does not move now.
	Reason string `json:"reason,omitempty"`
	Moves
	// Overlap are the CPUs of cores that run groups of both sides. Bound names the offline containers that other
	// programs bound there.
	Overlap string `json:"overlap,omitempty"`
	Bound   string `json:"bound,omitempty"`
	// Reserve is what offline work without cores leaves free, nil if not requested.
	Reserve *Reserve `json:"reserve,omitempty"`
	// Policy is the source of the administrator's choice.
	Policy string `json:"policySource"`
	// CoreScheduling is the cookie of offline threads, if an administrator asks for it.
	CoreScheduling *cookies.Status `json:"coreScheduling,omitempty"`
	// Support is this kernel's support of each mechanism, Idle means that there are idle groups.
	Support Support `json:"support"`
	Idle    bool    `json:"idle"`
}

// Moves are the moves of the boundary, or of the quota. The time that Since points to never changes.
type Moves struct {
	// Moved is the reason of the last move, Since its time.
	Moved string     `json:"moved,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	// Count is the number of moves, Surges the number of moves because the online side ran short.
	Count  int `json:"moves"`
	Surges int `json:"surges"`
}

// add records a move. counts means that there was a boundary, or a quota, before.
func (m *Moves) add(at time.Time, why isolate.Reason, counts bool) {
	if m.Since, m.Moved = &at, string(why); !counts {
		return
	}
	m.Count++
	if why == isolate.Surged {
		m.Surges++
	}
}

// The values of Node.Cores: how offline work gets its cores.
const (
	byCPUSet = "cpuset"
	byQuota  = "quota"
)

// Workload is the state of one workload.
type Workload struct {
	// Precedence is nil if none is requested.
	Precedence *Precedence `json:"precedence,omitempty"`
	// CoreScheduling says which of its threads have the cookie, if requested.
	CoreScheduling string `json:"coreScheduling,omitempty"`
}

// Describe implements capability.Capability.
func (*Work) Describe() capability.Info {
	return capability.Info{
		Name:    name,
		Owners:  []plan.Owner{plan.OwnerIsolate},
		Reverts: true,
		Summary: "cores of their own for offline workloads, by what online ones leave",
		Page:    "docs/isolate.md",
		Keys:    []string{v1alpha1.LabelQoSClass, v1alpha1.AnnotationCPUQOS},
		Metrics: []capability.Metric{
			{Name: "isolate_cores", Help: "Movable cores of each side of the boundary.", Labels: []string{"side"}},
			{Name: "isolate_online_use_cpus", Help: "CPUs that the online side uses: the highest one-second mean of the last 20 s."},
			{Name: "isolate_online_need_cores", Help: "Cores that the online side needs, including its buffer."},
			{Name: "isolate_offline_low_cores", Help: "Cores that offline work is guaranteed."},
			{Name: "isolate_system_use_cpus", Help: "CPUs that processes outside pods and workloads use, including interrupts: mean of 20 s."},
			{Name: "isolate_moves_total", Help: "Moves of the boundary, or of the quota that replaces it.", Counter: true},
			{Name: "isolate_surges_total", Help: "Moves because online work had no idle time left.", Counter: true},
			{Name: "isolate_overlap_cores", Help: "Cores on which groups of both sides may run."},
			{Name: "isolate_cookie_threads", Help: "Threads of offline work with and without its core scheduling cookie.", Labels: []string{"cookie"}},
			{Name: "isolate_cookie_gap_seconds", Help: "Upper bound of the longest time for which a thread of offline work ran without the cookie."},
		},
		Config: configText,
		Reader: reader{},
	}
}

const configText = `# Cores of their own for offline workloads (label koordinator.sh/qosClass: BE), where no
# ConfigMap has the key. Online and offline work together use up to cpuSuppressThresholdPercent
# of the cores, 0 to 100; offline work keeps cpuSuppressMinPercent, 0 to 100.
resource-threshold-config:
  clusterStrategy: {enable: false, cpuSuppressThresholdPercent: 65, cpuSuppressMinPercent: 0, cpuSuppressPolicy: cpuset}

isolation:
  # How much of the CPUs of each L3 idle offline workloads (cpuQOS) leave free while they have no cores
  # of their own, in whole cores, 0 to 50 percent; 0: none. On two CPUs any of it is one of them.
  pullReservePercent: 0

`

// Outcome implements capability.Capability.
func (w *Work) Outcome(time.Time) capability.Outcome {
	unenforced := w.unenforced()
	rows := w.precedences.report(w.cookies.Of, unenforced)
	if !w.on() && len(rows) == 0 {
		return capability.Outcome{}
	}
	d, c := &w.decision, &w.ceiling
	figures, reason := w.figures()
	n := Node{
		Limit: w.limit, Use: float64(figures.Use), Need: figures.Need, Low: figures.Low, Target: figures.Target,
		Movable: figures.Cores, Reason: string(reason), Moves: w.moves, System: w.system.report(),
		Overlap: w.overlap.cpus.String(), Bound: w.overlap.binding, Policy: w.source, Support: w.precedences.support, Idle: unenforced == "" && w.precedences.idle,
		CoreScheduling: w.cookies.Status(), Reserve: w.precedences.reserve.report(),
	}
	if n.Reason == string(isolate.Slowed) {
		n.Reason += ": " + w.last.limits
	}
	if unenforced != "" && n.Support.Idle.Support != kernel.Unsupported {
		n.Support.Idle = Mechanism{kernel.Unsupported, "sched_ext " + w.scheduler.Name + " has all threads"}
	}
	if c.quota > 0 && unenforced == "" {
		n.Cores, n.Quota = byQuota, float64(c.quota)
	}
	if d.Exists {
		now := w.opts.Placed()
		n.Cores, n.Online, n.Offline = byCPUSet, now.Shared.String(), now.Offline.String()
	}
	return capability.Outcome{Node: capability.Sections{keyNode: n}, Rows: rows}
}

// figures returns the figures of the boundary or the quota, and the reason for it.
func (w *Work) figures() (isolate.Figures, isolate.Reason) {
	if w.ceiling.quota > 0 && w.unenforced() == "" {
		return w.ceiling.figures, w.ceiling.why
	}
	return w.decision.Figures, w.decision.Reason
}

// Recall implements capability.Capability. The boundary starts from the beginning: the use of the online side while no
// agent ran is unknown.
func (*Work) Recall(capability.Sections) error { return nil }

// Measure implements capability.Measured.
func (w *Work) Measure(add func(capability.Sample)) {
	d := &w.decision
	f, _ := w.figures()
	sample := func(metric string, value float64, labels ...string) {
		add(capability.Sample{Metric: metric, Value: value, Labels: labels})
	}
	sample("isolate_cores", float64(d.Figures.Cores-d.Size), "online")
	sample("isolate_cores", float64(d.Size), "offline")
	sample("isolate_online_use_cpus", float64(f.Use))
	sample("isolate_online_need_cores", float64(f.Need))
	sample("isolate_offline_low_cores", float64(f.Low))
	if use := w.system.Use; use != nil {
		sample("isolate_system_use_cpus", float64(*use))
	}
	sample("isolate_moves_total", float64(w.moves.Count))
	sample("isolate_surges_total", float64(w.moves.Surges))
	sample("isolate_overlap_cores", float64(w.overlap.cores))
	if s := w.cookies.Status(); s != nil {
		sample("isolate_cookie_threads", float64(s.Threads), "yes")
		sample("isolate_cookie_threads", float64(s.Lacking), "no")
		sample("isolate_cookie_gap_seconds", s.Gap)
	}
}

// uncovered returns the first offline work, by name, whose group does not share a cookie, "" for none.
func uncovered(offline []observed.Pod, groups []string) string {
	for _, w := range offline {
		if w.Here && !slices.Contains(groups, w.Group) {
			return w.Name
		}
	}
	return ""
}

// AddConditions adds whether online and offline work share no core, if offline work should have cores of its own.
func (w *Work) AddConditions(status *v1alpha1.NodeTopologyStatus) {
	overlap := w.overlap.text()
	without, limit := uncovered(w.last.pods, w.precedences.offline), w.limit
	if limit == "" && w.cookies.Isolates() && without != "" {
		limit = "core scheduling: " + without + " is offline work without a cookie, as cpuQOS is not enabled for it"
	}
	switch {
	case w.cookies.Isolates() && without == "":
		status.SetCondition(v1alpha1.ConditionIsolated, true, "CoreScheduling", "")
	case limit != "":
		status.SetCondition(v1alpha1.ConditionIsolated, false, "Limited", limit)
	case !w.decision.Exists:
	case overlap != "":
		status.SetCondition(v1alpha1.ConditionIsolated, false, "Overlap", overlap)
	default:
		status.SetCondition(v1alpha1.ConditionIsolated, true, "Cores", "")
	}
}
