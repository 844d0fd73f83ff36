package workload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// milli is the number of thousandths in a CPU, the unit of a Pod.
const milli = 1000

// Pinning is a pod's request for exclusive CPUs: every annotation read, every policy decided. The zero value requests
// none.
type Pinning struct {
	// Wanted is true if the pod gets exclusive CPUs. Otherwise all fields below are zero, except Source and, for a pod
	// with a placement, the fields needed to read the placement.
	Wanted bool
	// Source names the key that requests the CPUs, for example "annotation cpuset-scheduler".
	Source string
	// StaticBurst reserves whole CPUs in one domain in which the containers may widen; fractional limits are rounded
	// up.
	StaticBurst bool
	// PerPod is true if all of Pinned share one set of CPUs, sized by the limit of the pod; CPUs of each container is
	// that size.
	PerPod bool
	// Pinned are the containers that get CPUs, the largest first, then by name.
	Pinned []PinnedContainer
	// Bind is CPUBindFullPCPUs or CPUBindSpreadByPCPUs, never empty where Wanted.
	Bind         v1alpha1.CPUBindPolicy
	BindRequired bool
	// Exclusive is CPUExclusivePCPULevel or CPUExclusiveNUMANodeLevel, or empty.
	Exclusive         v1alpha1.CPUExclusivePolicy
	ExclusiveRequired bool
	// NUMA is empty if the pod has no policy: the node's policy then applies.
	NUMA v1alpha1.NUMATopologyPolicy
	// NUMAExclusive is empty for a pod that shares its NUMA node.
	NUMAExclusive v1alpha1.NUMAExclusive
	// Strategy is empty if the pod has none: the node's strategy then applies, else the scheduler's.
	Strategy v1alpha1.NUMAAllocateStrategy
	// Others are the containers and sidecars that get no CPUs, in the order of the pod; all of them if the pod requests
	// none. A bound pod may hold CPUs for them if its keys changed.
	Others []PinnedContainer
	// Scheduled and Overhead are copied from the Pod, in thousandths of a CPU.
	Scheduled, Overhead int64
	// Init is the CPU request of each of Pod.Init in thousandths.
	Init []int64
	// PodMemory is the usable memory of the pod itself in bytes: its own limit, else its own request, 0 where only its
	// containers have any.
	PodMemory int64
	// Besides is copied from the Pod.
	Besides Besides
	// Change is what may give the running pod other CPUs.
	Change Change
	// Unknown are fields of Koordinator's keys that Berth does not know, of a later version or mistyped, and invalid
	// values of AnnotationMovable and AnnotationMove. They change nothing, and cause a warning: an InvalidPolicy event.
	Unknown v1alpha1.FieldErrors
}

// Required reports whether a pod waits rather than run without exclusive CPUs, or with CPUs that violate its policies.
// It is true for a required bind policy, exclusivity or exclusive NUMA node, and for the NUMA policies Restricted and
// SingleNUMANode. A requirement of the node's administrator does not count here.
func (p Pinning) Required() bool {
	return p.Wanted && (p.BindRequired || p.Exclusive != "" && p.ExclusiveRequired ||
		p.NUMAExclusive == v1alpha1.NUMAExclusiveRequired ||
		p.NUMA == v1alpha1.NUMARestricted || p.NUMA == v1alpha1.NUMASingleNUMANode)
}

// UnknownText returns the warning about Unknown as one sentence, empty where there is none.
func (p Pinning) UnknownText() string {
	if len(p.Unknown) == 0 {
		return ""
	}
	return "what Berth does not know changes nothing: " + p.Unknown.Line()
}

// Change is how a resize in place or a move changes a pod's CPUs.
type Change struct {
	// Changed is Pod.Changed: the number of CPUs in a placement cannot be checked. Resizing is true if that number may
	// change at this moment, and this is not only presumed.
	Changed, Resizing bool
	// Movable is true if the running pod may be given other CPUs of its node. Move is the requested move, even if the
	// pod is not movable; nil for none.
	Movable bool
	Move    *Move
}

// PinnedContainer is one container that gets exclusive CPUs, or might.
type PinnedContainer struct {
	Name string
	// CPUs is the number of CPUs, at least 1; in Others the limit rounded up, or 0.
	CPUs int
	// Limit and Request are the container's, in thousandths of a CPU. Limit is the limit in force; with PerPod it is
	// the pod's limit.
	Limit, Request int64
	// Other is a second limit, rounded up to whole CPUs: during a resize the limit that the kubelet still reports, and
	// while a resize is deferred the desired limit. Otherwise, and for an infeasible resize, it is 0.
	Other int
	// After is how many of Init end before the container starts.
	After int
	// Memory is the usable memory in bytes: its limit, else its request, else the pod's; 0 where it is not set.
	Memory int64
	// MemoryRequest is its own request in bytes, which ScheduledMemory includes.
	MemoryRequest int64
	// Huge is the usable huge pages: its own, else the pod's. HugeRequest is its own, which ScheduledHuge includes.
	Huge, HugeRequest HugePages
}

// CPUs returns how many CPUs the whole pod gets, 0 for none.
func (p Pinning) CPUs() int {
	if p.PerPod && len(p.Pinned) > 0 {
		return p.Pinned[0].CPUs
	}
	n := 0
	for _, c := range p.Pinned {
		n += c.CPUs
	}
	return n
}

// WithMemoryOf returns p with the memory and the huge pages of next, of the pod and of each container that both have. It
// reports whether any of them differs. Where next asks for no CPUs, nothing changes. The slices of p are not changed.
func (p Pinning) WithMemoryOf(next *Pinning) (Pinning, bool) {
	if !next.Wanted {
		return p, false
	}
	before := p.Besides
	p.Besides.ScheduledMemory, p.Besides.ScheduledHuge = next.Besides.ScheduledMemory, next.Besides.ScheduledHuge
	differs := p.PodMemory != next.PodMemory || p.Besides.ScheduledMemory != before.ScheduledMemory ||
		p.Besides.ScheduledHuge != before.ScheduledHuge
	p.PodMemory = next.PodMemory
	all := slices.Concat(next.Pinned, next.Others)
	for _, list := range []*[]PinnedContainer{&p.Pinned, &p.Others} {
		*list = slices.Clone(*list)
		for i, was := range *list {
			at := slices.IndexFunc(all, func(c PinnedContainer) bool { return c.Name == was.Name })
			if at < 0 {
				continue
			}
			c := &(*list)[i]
			c.Memory, c.MemoryRequest, c.Huge, c.HugeRequest = all[at].Memory, all[at].MemoryRequest, all[at].Huge, all[at].HugeRequest
			differs = differs || *c != was
		}
	}
	return p, differs
}

// MayPin reports whether PinningOf can return more than the zero value for a pod with these labels and annotations. It
// is false for pods without any of the keys, and for classes without exclusive CPUs. It does not allocate, so it is
// cheap for every pod of a node.
func MayPin(labels, annotations map[string]string) bool {
	_, asked := annotations[v1alpha1.AnnotationCPUSetScheduler]
	_, policy := annotations[v1alpha1.AnnotationCPUPolicy]
	return asked || policy || classAsks(labels[v1alpha1.LabelQoSClass]) || placed(annotations)
}

// classAsks reports whether a class requests CPUs, or is unknown, which is a problem of the pod.
func classAsks(class string) bool {
	switch v1alpha1.QoSClass(class) {
	case "", v1alpha1.QoSLS, v1alpha1.QoSBE, v1alpha1.QoSSystem:
		return false
	}
	return true
}

// placed reports whether the pod has a placement. The keys of a bound pod may have changed since its CPUs were given.
func placed(annotations map[string]string) bool {
	return annotations[v1alpha1.AnnotationPlacement] != ""
}

// PinningOf decides whether and how the containers of a pod get exclusive CPUs. Any problem switches pinning off for
// the pod: the returned value is not Wanted, has a Source only if the pod requested CPUs, and the problems are an
// InvalidPolicy event.
func PinningOf(p Pod) (Pinning, v1alpha1.FieldErrors) {
	if !MayPin(p.Labels, p.Annotations) {
		return Pinning{}, nil
	}
	r := pinReader{pod: p}
	r.optIn()
	if !r.out.Wanted || len(r.problems) > 0 {
		return r.off(), r.problems
	}
	r.resourceSpec()
	r.numaTopologySpec()
	r.choose()
	if len(r.problems) > 0 {
		return r.off(), r.problems
	}
	if r.out.Wanted {
		r.movable()
	}
	r.rest()
	return r.out, nil
}

// rest fills in the fields needed to read a placement.
func (r *pinReader) rest() {
	p := &r.pod
	r.out.Scheduled, r.out.Overhead, r.out.Change.Changed = p.Scheduled, p.Overhead, p.Changed
	r.out.Change.Resizing = p.Resizing && !p.Presumed && !p.Held()
	r.out.PodMemory, r.out.Besides = p.Memory(), p.Besides
	for _, c := range p.Init {
		r.out.Init = append(r.out.Init, c.CPURequest)
	}
}

// pinReader collects a Pinning and the problems of the pod.
type pinReader struct {
	pod      Pod
	out      Pinning
	problems v1alpha1.FieldErrors
}

// off returns the Pinning of a pod that gets no CPUs. The CPUs from before a change can still be read from the pod's
// placement.
func (r *pinReader) off() Pinning {
	r.out = Pinning{Source: r.out.Source}
	if !placed(r.pod.Annotations) {
		return r.out
	}
	r.out.PerPod = r.ofPod()
	for _, c := range r.pod.Containers {
		r.out.Others = append(r.out.Others, r.container(c))
	}
	r.rest()
	return r.out
}

func (r *pinReader) refuse(field, value, allowed string) {
	r.problems = append(r.problems, v1alpha1.FieldError{Field: field, Value: value, Allowed: allowed})
}

// optIn reads the two keys that request CPUs, and the key for static burst.
func (r *pinReader) optIn() {
	class := r.class()
	value, found := r.pod.Annotations[v1alpha1.AnnotationCPUSetScheduler]
	switch {
	case found && value == v1alpha1.CPUSetSchedulerOn:
		r.out.Wanted, r.out.Source = true, "annotation "+v1alpha1.AnnotationCPUSetScheduler
		r.notFor(class)
	case found && value != v1alpha1.CPUSetSchedulerOff:
		r.refuse(fieldOf(v1alpha1.AnnotationCPUSetScheduler), v1alpha1.Show(value), `"true" or "false" (in quotes)`)
		return
	case !found && (class == v1alpha1.QoSLSE || class == v1alpha1.QoSLSR):
		r.out.Wanted, r.out.Source = true, "label "+v1alpha1.LabelQoSClass
	}
	r.cpuPolicy()
}

// class returns the class of the pod, and "" for an unknown class.
func (r *pinReader) class() v1alpha1.QoSClass {
	value, found := r.pod.Labels[v1alpha1.LabelQoSClass]
	if !found || value == "" || slices.Contains(v1alpha1.QoSClasses(), v1alpha1.QoSClass(value)) {
		return v1alpha1.QoSClass(value)
	}
	var names []string
	for _, class := range v1alpha1.QoSClasses() {
		names = append(names, string(class))
	}
	r.refuse(classField, v1alpha1.Show(value), "one of "+strings.Join(names, ", "))
	return ""
}

const classField = "metadata.labels[" + v1alpha1.LabelQoSClass + "]"

// notFor refuses the classes that, by definition, run on what other pods leave.
func (r *pinReader) notFor(class v1alpha1.QoSClass) {
	if class == v1alpha1.QoSBE || class == v1alpha1.QoSSystem {
		r.refuse(classField, v1alpha1.Show(string(class)),
			"LSE, LSR or LS for a pod with exclusive CPUs (annotation "+v1alpha1.AnnotationCPUSetScheduler+`: "true")`)
	}
}

func (r *pinReader) cpuPolicy() {
	value, found := r.pod.Annotations[v1alpha1.AnnotationCPUPolicy]
	field := fieldOf(v1alpha1.AnnotationCPUPolicy)
	switch {
	case !found:
	case value != v1alpha1.CPUPolicyStaticBurst:
		r.refuse(field, v1alpha1.Show(value), "only "+v1alpha1.CPUPolicyStaticBurst)
	case !r.out.Wanted:
		r.refuse(field, v1alpha1.Show(value), "only with "+v1alpha1.AnnotationCPUSetScheduler+`: "true"`)
	default:
		r.out.StaticBurst = true
	}
}

func (r *pinReader) resourceSpec() {
	r.out.Bind = v1alpha1.CPUBindFullPCPUs
	spec, ok := decoded(r, v1alpha1.AnnotationResourceSpec, v1alpha1.DecodeResourceSpec)
	if !ok {
		return
	}
	if !r.bind(spec.RequiredCPUBindPolicy, true) {
		r.bind(spec.PreferredCPUBindPolicy, false)
	}
	if !r.exclusive(spec.RequiredCPUExclusivePolicy, true) {
		r.exclusive(spec.PreferredCPUExclusivePolicy, false)
	}
}

// bind reads one of the two bind policies, and reports whether it decided how the CPUs are bound to cores.
func (r *pinReader) bind(policy *v1alpha1.CPUBindPolicy, required bool) bool {
	switch value(policy) {
	case v1alpha1.CPUBindFullPCPUs, v1alpha1.CPUBindSpreadByPCPUs:
		r.out.Bind, r.out.BindRequired = *policy, required
		return true
	case v1alpha1.CPUBindConstrainedBurst:
		r.out.StaticBurst = true
	}
	return false
}

// exclusive reads one of the two exclusive policies, and reports whether it decided. A policy None is a decision too.
func (r *pinReader) exclusive(policy *v1alpha1.CPUExclusivePolicy, required bool) bool {
	switch value(policy) {
	case v1alpha1.CPUExclusivePCPULevel, v1alpha1.CPUExclusiveNUMANodeLevel:
		r.out.Exclusive, r.out.ExclusiveRequired = *policy, required
		return true
	case v1alpha1.CPUExclusiveNone:
		return true
	}
	return false
}

func (r *pinReader) numaTopologySpec() {
	if spec, ok := decoded(r, v1alpha1.AnnotationNUMATopologySpec, v1alpha1.DecodeNUMATopologySpec); ok {
		r.out.NUMA, r.out.NUMAExclusive = value(spec.NUMATopologyPolicy), value(spec.SingleNUMANodeExclusive)
		r.out.Strategy = value(spec.NUMAAllocateStrategy)
	}
}

// decoded returns the decoded annotation key. ok is false if the pod has no such annotation, or an invalid one, whose
// problems are recorded.
func decoded[T any](r *pinReader, key string, decode func(string) (T, v1alpha1.FieldErrors, v1alpha1.FieldErrors)) (T, bool) {
	text, found := r.pod.Annotations[key]
	if !found {
		return *new(T), false
	}
	spec, problems, unknown := decode(text)
	r.out.Unknown = append(r.out.Unknown, unknown.InAnnotation(key)...)
	r.problems = append(r.problems, problems.InAnnotation(key)...)
	return spec, len(problems) == 0
}

func value[T ~string](p *T) T {
	if p == nil {
		return ""
	}
	return *p
}

// choose finds the containers that get CPUs, and how many.
func (r *pinReader) choose() {
	if r.ofPod() {
		r.choosePod()
		return
	}
	for _, c := range r.pod.Containers {
		if r.counts(c.LimitInForce()) {
			r.out.Pinned = append(r.out.Pinned, r.container(c))
		} else {
			r.out.Others = append(r.out.Others, r.container(c))
		}
	}
	if len(r.out.Pinned) == 0 {
		r.refuseLimits()
	}
	slices.SortFunc(r.out.Pinned, largestFirst)
}

// refuseLimits reports that no container has a valid limit.
func (r *pinReader) refuseLimits() {
	if strings.HasPrefix(r.pod.UID, UIDPrefix) {
		r.refuse("spec.cpu.limit", r.limits(), r.allowed()+", there or as the limit of the group")
		return
	}
	r.refuse("spec.containers[*].resources.limits.cpu", r.limits(), r.allowed()+" in at least one container")
}

// choosePod gives all containers the same set, as large as the limit of the pod.
func (r *pinReader) choosePod() {
	if !r.counts(r.pod.LimitInForce()) {
		r.refuse("spec.resources.limits.cpu", quantity(r.pod.LimitInForce()), r.allowed())
		return
	}
	r.out.PerPod = true
	for _, c := range r.pod.Containers {
		r.out.Pinned = append(r.out.Pinned, r.container(c))
	}
	slices.SortFunc(r.out.Pinned, largestFirst)
}

// ofPod reports whether only the pod itself has a limit.
func (r *pinReader) ofPod() bool {
	return r.pod.CPULimit > 0 && len(r.pod.Containers) > 0 && !slices.ContainsFunc(r.pod.Containers, hasLimit)
}

// container returns the CPUs and the memory that a container would get.
func (r *pinReader) container(c Container) PinnedContainer {
	its, after := &c.Resources, len(r.pod.Init)
	if r.ofPod() {
		its = &r.pod.Resources
	}
	if c.Sidecar {
		after = min(max(c.After, 0), after)
	}
	limit, other := min(its.LimitInForce(), mostCPUs*milli), its.CPUStands
	switch {
	case its.CPUHeld != 0 && !r.pod.Infeasible:
		other = its.CPULimit
	case r.pod.Infeasible, !r.pod.Resizing:
		other = 0
	}
	return PinnedContainer{
		Name: c.Name, CPUs: wholeCPUs(limit), Other: wholeCPUs(other),
		Limit: limit, Request: c.CPURequest, After: after, Memory: r.memory(c), MemoryRequest: c.MemoryRequest,
		Huge: cmp.Or(c.Huge, r.pod.Huge), HugeRequest: c.Huge,
	}
}

func hasLimit(c Container) bool { return c.CPULimit > 0 }

// wholeCPUs rounds a limit in thousandths up to whole CPUs.
func wholeCPUs(limit int64) int { return int((min(limit, mostCPUs*milli) + milli - 1) / milli) }

func largestFirst(a, b PinnedContainer) int {
	return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.Name, b.Name))
}

// mostCPUs bounds a limit, far above the 1,024 CPUs that a machine may have and
// far below what overflows when several are added up.
const mostCPUs = 1 << 16

// counts reports whether a limit in thousandths is valid for exclusive CPUs.
func (r *pinReader) counts(limit int64) bool {
	return limit > 0 && (r.out.StaticBurst || limit >= mostCPUs*milli || limit%milli == 0)
}

func (r *pinReader) allowed() string {
	if r.out.StaticBurst {
		return "a limit above 0 (" + r.out.Source + ")"
	}
	return "a whole number of CPUs, 1 or more (" + r.out.Source + ")"
}

// limits lists the limits, for the message that a whole number is missing.
func (r *pinReader) limits() string {
	var shown []string
	for _, c := range r.pod.Containers {
		if limit := c.LimitInForce(); limit > 0 {
			shown = append(shown, quantity(limit))
		}
	}
	return strings.Join(shown, ", ")
}

func quantity(thousandths int64) string {
	if thousandths%milli == 0 {
		return strconv.Quote(strconv.FormatInt(thousandths/milli, 10))
	}
	return strconv.Quote(strconv.FormatInt(thousandths, 10) + "m")
}

// memory returns the bound of a container's memory.
func (r *pinReader) memory(c Container) int64 {
	return cmp.Or(c.Memory(), r.pod.Memory())
}
