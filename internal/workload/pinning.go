package workload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// milli is a whole CPU in the unit of a Pod.
const milli = 1000

// Pinning is what a pod asks for when it asks for exclusive CPUs: every
// annotation read, every policy decided. The zero value asks for none.
type Pinning struct {
	// Wanted says that the pod gets exclusive CPUs. Without it all below is zero
	// except Source, and for a pod with a placement what that is read by.
	Wanted bool
	// Source is what asked for it, for example "annotation cpuset-scheduler".
	Source string
	// StaticBurst reserves whole CPUs in one domain in which the containers may
	// widen; fractional limits are rounded up.
	StaticBurst bool
	// PerPod says that all of Pinned share one set of CPUs, sized by the limit
	// of the pod: every CPUs is that size.
	PerPod bool
	// Pinned are the containers that get CPUs, the largest first, then by name.
	Pinned []PinnedContainer
	// Bind is CPUBindFullPCPUs or CPUBindSpreadByPCPUs, never empty where Wanted.
	Bind         v1alpha1.CPUBindPolicy
	BindRequired bool
	// Exclusive is CPUExclusivePCPULevel or CPUExclusiveNUMANodeLevel, or empty.
	Exclusive         v1alpha1.CPUExclusivePolicy
	ExclusiveRequired bool
	// NUMA is empty where the pod says nothing: the node's policy counts then.
	NUMA v1alpha1.NUMATopologyPolicy
	// NUMAExclusive is empty for a pod that shares its NUMA node.
	NUMAExclusive v1alpha1.NUMAExclusive
	// Strategy is empty where the pod says nothing: the node's counts then, else
	// the scheduler's.
	Strategy v1alpha1.NUMAAllocateStrategy
	// Others are the containers and sidecars that get no CPUs, in the order of
	// the pod: all of them where the pod does not ask. A bound pod may hold CPUs
	// for them from when its keys said something else.
	Others []PinnedContainer
	// Scheduled and Overhead are those of the Pod, in thousandths.
	Scheduled, Overhead int64
	// Init is what each of Pod.Init requests in thousandths.
	Init []int64
	// PodMemory is what the pod as a whole may use in bytes: its own limit, else
	// its own request, 0 where only its containers have any.
	PodMemory int64
	// Besides is that of the Pod.
	Besides
	Change
	// Unknown are fields of Koordinator's keys that Berth does not know, of a later
	// version or mistyped, and values of AnnotationMovable and AnnotationMove that are
	// none. They change nothing, and are a warning: an InvalidPolicy event too.
	Unknown v1alpha1.FieldErrors
}

// Required says whether a pod waits rather than run without exclusive CPUs, or
// with others than its policies say: it requires a bind policy, an exclusivity
// or an exclusive NUMA node, or its NUMA policy is Restricted or SingleNUMANode.
// What the node's administrator requires makes no pod wait here.
func (p Pinning) Required() bool {
	return p.Wanted && (p.BindRequired || p.Exclusive != "" && p.ExclusiveRequired ||
		p.NUMAExclusive == v1alpha1.NUMAExclusiveRequired ||
		p.NUMA == v1alpha1.NUMARestricted || p.NUMA == v1alpha1.NUMASingleNUMANode)
}

// UnknownText is the warning about Unknown as one sentence, empty where there is none.
func (p Pinning) UnknownText() string {
	if len(p.Unknown) == 0 {
		return ""
	}
	return "what Berth does not know changes nothing: " + p.Unknown.Line()
}

// Change is what a resize in place makes of a pod's CPUs.
type Change struct {
	// Changed is Pod.Changed: how many CPUs a placement gives cannot be checked. Resizing
	// says that they may change at this moment, and that this is not only presumed.
	Changed, Resizing bool
	// Movable says that the pod may be given other CPUs of its node while it runs. Move is what
	// is asked for, be it movable or not; nil where nothing is.
	Movable bool
	Move    *Move
}

// PinnedContainer is one container that gets exclusive CPUs, or might.
type PinnedContainer struct {
	Name string
	// CPUs is how many, at least 1; in Others the limit rounded up, or 0.
	CPUs int
	// Limit and Request are the container's in thousandths of a CPU, the limit that is in
	// force; with PerPod Limit is that of the pod.
	Limit, Request int64
	// Other is how many CPUs the other limit says, where that which is asked for and that
	// which the kubelet reports differ while the pod is resized, or put off; else 0. What is
	// infeasible says nothing.
	Other int
	// After is how many of Init end before the container starts.
	After int
	// Memory is what it may use in bytes: its limit, else its request, else the
	// pod's; 0 where it is not set.
	Memory int64
	// MemoryRequest is its own request in bytes, which ScheduledMemory has in it.
	MemoryRequest int64
	// Huge is what it may use in huge pages: its own, else the pod's. HugeRequest is its
	// own, which ScheduledHuge has in it.
	Huge, HugeRequest HugePages
}

// CPUs returns how many CPUs the pod as a whole gets, 0 where it gets none.
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

// MayPin says whether PinningOf can have anything to say about a pod with these
// labels and annotations: false for all pods that never heard of CPU sets, and for
// those of a class that gets none. It allocates nothing, so that every pod of a node can be asked.
func MayPin(labels, annotations map[string]string) bool {
	_, asked := annotations[v1alpha1.AnnotationCPUSetScheduler]
	_, policy := annotations[v1alpha1.AnnotationCPUPolicy]
	return asked || policy || classAsks(labels[v1alpha1.LabelQoSClass]) || placed(annotations)
}

// classAsks says whether a class asks for CPUs, or is none that exists, which is a
// problem of the pod.
func classAsks(class string) bool {
	switch v1alpha1.QoSClass(class) {
	case "", v1alpha1.QoSLS, v1alpha1.QoSBE, v1alpha1.QoSSystem:
		return false
	}
	return true
}

// placed says whether the pod has a placement: what it was given CPUs for, if it
// is bound, its keys may not say any more.
func placed(annotations map[string]string) bool {
	return annotations[v1alpha1.AnnotationPlacement] != ""
}

// PinningOf decides whether and how the containers of a pod get CPUs of their
// own. With problems the capability is off for the pod, whatever else it says:
// the returned value is not Wanted, has a Source only where the pod did ask, and
// the problems are an InvalidPolicy event.
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

// rest fills in what a placement is read by.
func (r *pinReader) rest() {
	p := &r.pod
	r.out.Scheduled, r.out.Overhead, r.out.Changed = p.Scheduled, p.Overhead, p.Changed
	r.out.Resizing = p.Resizing && !p.Presumed && !p.Held()
	r.out.PodMemory, r.out.Besides = p.Memory(), p.Besides
	for _, c := range p.Init {
		r.out.Init = append(r.out.Init, c.CPURequest)
	}
}

// pinReader collects a Pinning and what is wrong with the pod.
type pinReader struct {
	pod      Pod
	out      Pinning
	problems v1alpha1.FieldErrors
}

// off returns the Pinning of a pod that gets nothing, whose CPUs from before a
// change can still be read from its placement.
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

// optIn reads the two keys that ask, and the one that widens.
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

// class returns the class of the pod, or no class where it is none that exists.
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

// notFor refuses the classes that are defined by running on what others leave.
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

// bind takes one of the two bind policies, and says whether it settled how the
// CPUs lie on cores.
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

// exclusive is the same for exclusivity; a required None settles it too.
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

// decoded returns what the annotation key holds. It is not ok where the pod has none,
// or a bad one, whose problems are kept.
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

// refuseLimits says that no container has a limit that counts.
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

// ofPod says whether only the limit of the pod as a whole counts.
func (r *pinReader) ofPod() bool {
	return r.pod.CPULimit > 0 && len(r.pod.Containers) > 0 && !slices.ContainsFunc(r.pod.Containers, hasLimit)
}

// container returns what a container would get.
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

// wholeCPUs returns how many CPUs a limit in thousandths is, rounded up.
func wholeCPUs(limit int64) int { return int((min(limit, mostCPUs*milli) + milli - 1) / milli) }

func largestFirst(a, b PinnedContainer) int {
	return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.Name, b.Name))
}

// mostCPUs bounds a limit, far above the 1,024 CPUs that a machine may have and
// far below what overflows when several are added up.
const mostCPUs = 1 << 16

// counts says whether a limit in thousandths is worth CPUs.
func (r *pinReader) counts(limit int64) bool {
	return limit > 0 && (r.out.StaticBurst || limit >= mostCPUs*milli || limit%milli == 0)
}

func (r *pinReader) allowed() string {
	if r.out.StaticBurst {
		return "a limit above 0 (" + r.out.Source + ")"
	}
	return "a whole number of CPUs, 1 or more (" + r.out.Source + ")"
}

// limits shows what stands where a whole number should.
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

// memory returns what bounds the memory of a container.
func (r *pinReader) memory(c Container) int64 {
	return cmp.Or(c.Memory(), r.pod.Memory())
}
