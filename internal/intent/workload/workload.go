// Package workload defines a workload as the other packages of Berth use it: a plain value with all defaults, all
// quantities in CPUs, all policies decided, and the source of each policy.
//
// The burst policy comes from the workload's own annotation. The cluster strategy of the agent's file, which already
// has the defaults, completes it field by field. A mistake in the annotation switches bursting off for that workload,
// and nothing else; the strategy does not replace the annotation, because the user asked for a different policy. Then
// the administrator's cap is applied. An unknown field is a warning, not a mistake: the keys are Koordinator's, and a
// later version may have more fields.
//
// A Pod is the corresponding plain value for a pod of a cluster, as far as its CPUs are concerned. PinningOf decides
// whether its containers get exclusive CPUs, how many and on which terms. The annotation precedes the class: a pod that
// says "false" gets none. One mistake in any of the keys switches pinning off for the pod; Berth applies no half of a
// policy. Here too an unknown field is not a mistake.
//
// All functions are pure.
package workload

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/unit"
)

// Workload is one valid workload. Exactly one of Cgroup, Unit and PIDs is set; none for a container of a pod that does
// not run at the moment.
type Workload struct {
	// Name is unique among the workloads in effect.
	Name string
	// File is the source of the document, for messages.
	File string
	// Cgroup is a clean path relative to each hierarchy's root.
	Cgroup string
	// Unit is a systemd unit with a control group.
	Unit string
	// Labels and Annotations are as written; callers do not change them.
	Labels, Annotations map[string]string
	// PIDs are distinct and positive.
	PIDs []int
	// Request and Limit are 0 where unset; an unset limit is read from the group.
	Request, Limit unit.CPUs
	// Asked is the limit in the pod's spec while the kubelet stays at Limit: the resize is deferred, infeasible or
	// failing. It is 0 if the spec has Limit.
	Asked unit.CPUs
	// InForce is true if the kubelet reports that Limit is actuated, and no resize is under way.
	InForce bool
	// Class is the label koordinator.sh/qosClass, empty without one.
	Class string
	// Offline is true if the class is BE; all other workloads are online.
	Offline bool
	// Exclusive is true if the workload runs on exclusive CPUs.
	Exclusive bool
	// Burst is the decided burst policy.
	Burst Burst
	// Pod is set for a container of a pod, and for a pod as a whole.
	Pod InPod
}

// Stopped reports whether the workload is a container of a pod that does not run now: it has no group.
func (w *Workload) Stopped() bool { return w.Pod.UID != "" && w.Cgroup == "" }

// In returns the workload with the group that was found for it, instead of a unit or processes.
func (w Workload) In(group string) Workload {
	w.Cgroup, w.Unit, w.PIDs = group, "", nil
	return w
}

// InPod identifies the pod of a workload. The zero value is a workload of a host without Kubernetes.
type InPod struct {
	// UID is the pod's UID; with the workload's name it identifies the same container through all its restarts.
	UID string
	// Group is the pod's group, a clean path like Workload.Cgroup.
	Group string
	// Derived is true if the group's quota is made from the limits of its containers, so that it follows them. It is
	// false where the user limited the pod as a whole.
	Derived bool
}

// Burst is a decided burst policy: no field is left to inherit.
type Burst struct {
	// Policy is none, cpuBurstOnly, cfsQuotaBurstOnly or auto.
	Policy string
	// KernelBurst allows the kernel's own burst, cpu.max.burst.
	KernelBurst bool
	// QuotaBurst allows the quota to be raised above the limit.
	QuotaBurst bool
	// CPUBurstPercent is the kernel's burst in percent of limit times period,
	// 0 to 10000.
	CPUBurstPercent int64
	// QuotaPercent is the ceiling of the quota in percent of the limit, 100 to
	// 10000, after the administrator's cap.
	QuotaPercent int64
	// PeriodSeconds is how long the ceiling lasts from full credit, 0 to
	// 86400 seconds, or -1 for credit without limit.
	PeriodSeconds int64
	// Source names the origin of the policy, for example "annotation koordinator.sh/cpuBurst".
	Source string
	// Off is why a requested policy is off; nil otherwise.
	Off error
}

// Wanted reports whether the policy makes Berth write anything.
func (b Burst) Wanted() bool { return b.KernelBurst || b.QuotaBurst }

// Equal reports whether two values are the same, including their source and its wording, since people see them.
func (w Workload) Equal(o Workload) bool {
	return slices.Equal(w.PIDs, o.PIDs) && w.Burst.equal(o.Burst) &&
		maps.Equal(w.Labels, o.Labels) && maps.Equal(w.Annotations, o.Annotations) && w.same(o)
}

func (w Workload) same(o Workload) bool {
	return w.Name == o.Name && w.File == o.File && w.Cgroup == o.Cgroup && w.Unit == o.Unit &&
		w.Request == o.Request && w.Limit == o.Limit && w.Asked == o.Asked && w.InForce == o.InForce && w.Class == o.Class && w.Offline == o.Offline && w.Exclusive == o.Exclusive && w.Pod == o.Pod
}

// equal compares the reasons by their text: errors are not comparable.
func (b Burst) equal(o Burst) bool {
	reason := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if reason(b.Off) != reason(o.Off) {
		return false
	}
	b.Off, o.Off = nil, nil
	return b == o
}

// Resolve turns a valid document into a Workload. file is its source; cfg is the agent's file, valid and with its
// defaults. No mistake here is fatal to the workload: the findings have the refused policies, and the values that were
// capped or ignored.
func Resolve(doc v1alpha1.Workload, file string, cfg Administrator) (Workload, Findings) {
	class := v1alpha1.QoSClass(doc.Labels[v1alpha1.LabelQoSClass])
	burst, findings := resolveBurst(doc.Annotations, cfg)
	return Workload{
		Name:   doc.Name,
		File:   file,
		Cgroup: doc.Spec.Cgroup,
		Unit:   doc.Spec.SystemdUnit,
		PIDs:   slices.Clone(doc.Spec.PIDs),

		Labels:      maps.Clone(doc.Labels),
		Annotations: maps.Clone(doc.Annotations),

		Request: cpus(doc.Spec.CPU.Request),
		Limit:   cpus(doc.Spec.CPU.Limit),
		Class:   string(class),
		Offline: class.Offline(),
		Burst:   burst,
	}, findings.inFile(file)
}
