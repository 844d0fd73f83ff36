// Package workload holds a workload as the rest of Berth sees it: a plain
// value with every default filled in, every quantity turned into CPUs and
// every policy decided, together with where each came from.
//
// The burst policy is found from the most specific source to the most general:
// the workload's own annotation, field by field completed by the cluster
// strategy of the agent's file, which already holds the defaults. An
// annotation with any mistake in it switches bursting off for that workload,
// and for nothing else; the strategy does not step in, because the user asked
// for something different. Then the administrator's cap is applied. A field that
// Berth does not know is a warning and no mistake: the keys are Koordinator's, and a
// later version of it may have more.
//
// A Pod is the same for a pod of a cluster, as far as its CPUs are concerned, and
// PinningOf decides whether its containers get exclusive CPUs, how many and on
// which terms. Of the keys that ask, the annotation counts before the class: a
// pod that says "false" is left alone. One mistake in any of the keys switches
// pinning off for the pod; half a policy is none. Unknown fields are no mistake
// here either.
//
// All functions are pure.
package workload

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/unit"
)

// Workload is one valid workload. Exactly one of Cgroup, Unit and PIDs is set;
// none for a container of a pod that does not run at the moment.
type Workload struct {
	// Name is unique among the workloads that count.
	Name string
	// File is where it was read from, for messages.
	File string
	// Cgroup is a clean path relative to each hierarchy's root.
	Cgroup string
	// Unit is a systemd unit with a control group.
	Unit string
	// Labels and Annotations are as written; callers do not change them.
	Labels, Annotations map[string]string
	// PIDs are distinct and positive.
	PIDs []int
	// Request and Limit are 0 where unset; a limit is then read from the group.
	Request, Limit unit.CPUs
	// Asked is the limit that the pod's spec asks for where the kubelet holds it at
	// Limit: a resize that is deferred, infeasible or failing. 0 where it asks for
	// Limit.
	Asked unit.CPUs
	// InForce says that the kubelet reports Limit as carried out, and no resize under way.
	InForce bool
	// Class is the label koordinator.sh/qosClass, empty without one.
	Class string
	// Offline says that the class is BE; everything else is online.
	Offline bool
	// Exclusive says that it runs on exclusive CPUs.
	Exclusive bool
	// Burst is the decided burst policy.
	Burst Burst
	// Pod is set for a container of a pod, and for a pod as a whole.
	Pod InPod
}

// Stopped says that it is a container of a pod which does not run now: it has no group.
func (w *Workload) Stopped() bool { return w.Pod.UID != "" && w.Cgroup == "" }

// In returns the workload with the group that it was found in, however it is written.
func (w Workload) In(group string) Workload {
	w.Cgroup, w.Unit, w.PIDs = group, "", nil
	return w
}

// InPod says to which pod a workload belongs. The zero value is a workload of a
// host without Kubernetes.
type InPod struct {
	// UID is the pod's; together with the workload's name it is the same
	// container through all its restarts.
	UID string
	// Group is the group of the pod, a clean path like Workload.Cgroup.
	Group string
	// Derived says that the quota of that group is made from the limits of the
	// containers in it, so that it follows them. It is false where the user
	// limited the pod as a whole.
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
	// Source says who decided, for example "annotation koordinator.sh/cpuBurst".
	Source string
	// Off is why nothing is done although something was asked for; nil otherwise.
	Off error
}

// Wanted says whether anything is to be written for this policy.
func (b Burst) Wanted() bool { return b.KernelBurst || b.QuotaBurst }

// Equal says whether two values ask for the same; where they were read from
// and how it is worded counts too, since people are shown it.
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

// Resolve turns a valid document into the value. file is where it was read
// from and cfg the agent's file, valid and with its defaults. Nothing here is
// fatal to the workload: what went wrong with a policy, and what was capped or
// ignored, is in the findings.
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
