package agent

import (
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/unit"
)

// State is where one workload stands. A workload is in exactly one state.
type State string

// The states of a workload.
const (
	// StateActive: the group is looked at and its quota moves.
	StateActive State = "Active"
	// StateOff: the policy is none; nothing is written.
	StateOff State = "Off"
	// StateNoLimit: the group has no quota, so there is nothing to burst over.
	StateNoLimit State = "NoLimit"
	// StatePending: something is missing or contradictory; Reason says what.
	StatePending State = "Pending"
	// StateDrift: another writer owns the value now; Berth leaves it alone.
	StateDrift State = "Drift"
)

// Status is what the agent knows of one workload. It is written into the
// checkpoint, where status and explain read it; its JSON is a stable contract.
type Status struct {
	Name   string `json:"name"`
	File   string `json:"file,omitempty"`
	Group  string `json:"group,omitempty"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Since is when the workload entered its state.
	Since time.Time `json:"since"`
	// Policy is the burst policy and where it was written.
	Policy       string   `json:"policy"`
	PolicySource string   `json:"policySource,omitempty"`
	Warnings     []string `json:"warnings,omitempty"`
	Burst        *Burst   `json:"burst,omitempty"`
}

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

// Checkpoint is what survives an agent's restart: the ledgers, and what status
// prints. It may be deleted at any time; then credit starts anew.
type Checkpoint struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Listen is the address that was bound, where Fetch asks.
	Listen  string    `json:"listen,omitempty"`
	BootID  string    `json:"bootID"`
	Written time.Time `json:"written"`
	Node    Node      `json:"node"`
	// CPUs is who has which CPUs, nil while the machine is not known.
	CPUs *CPUs `json:"cpus,omitempty"`
	// Workloads in the order of their names.
	Workloads []Status `json:"workloads"`
	// Problems are documents that do not count as written, in words.
	Problems []string `json:"problems,omitempty"`
	// Ledgers by group path.
	Ledgers map[string]SavedLedger `json:"ledgers"`
	// Carried are the ledgers of containers of pods, by the pod's UID and the
	// container: a restarted container has a new group and keeps its account.
	Carried map[string]burst.Ledger `json:"carried,omitempty"`
	// Kubelet is what the kubelet's configuration said last, nil where it was not
	// asked: an agent that starts while the kubelet cannot be asked goes by it.
	Kubelet *kubelet.Said `json:"kubelet,omitempty"`
	// Started are the start times of processes by workload and pid: a pid that
	// the kernel gave to another process is not the workload's any more.
	Started map[string]map[int]uint64 `json:"started,omitempty"`
}

// SavedLedger is a ledger with the identity of the group whose use it counts.
type SavedLedger struct {
	Group  hostfs.ID    `json:"group"`
	Ledger burst.Ledger `json:"ledger"`
	// Left is the cpu.max that was left to another writer, empty otherwise.
	Left cgroup.Value `json:"left,omitempty"`
}

// Node is the state of the node guard.
type Node struct {
	// UseRatio is the 10 s mean of the CPU used by everything neither offline nor
	// pinned, over the CPUs of the shared pool; 0..1.
	UseRatio  float64 `json:"useRatio"`
	Threshold float64 `json:"threshold"`
	PoolCPUs  int     `json:"poolCPUs"`
	// LatenessSeconds is the largest lateness of a look since the agent started.
	LatenessSeconds float64 `json:"latenessSeconds"`
}
