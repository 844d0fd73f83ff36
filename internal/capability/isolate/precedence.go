package isolate

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// QOS is the requested CPU sharing of one workload, with all defaults filled in.
type QOS struct {
	// Enabled is true if precedence is requested at all.
	Enabled bool
	// Identity is from -1, which yields, to 2, which goes first; 0 is neutral.
	Identity int64
	// Idle is true if the workload should run only when nothing else does.
	Idle bool
	// Expel is true if offline work should be kept off the other thread of a core.
	Expel bool
	// Source is where the request is written. Own is true if that is the workload's annotation.
	Source string
	Own    bool
}

// QOSOf reads the annotation of a pod or workload, and completes it with the strategy of its class, nil for none;
// source is where the strategy is written. If refused has problems, nothing is requested. Fields in unknown change
// nothing.
func QOSOf(annotations map[string]string, class v1alpha1.QoSClass, strategy *v1alpha1.ClassCPUQOS, source string) (q QOS, refused, unknown v1alpha1.FieldErrors) {
	const key = v1alpha1.AnnotationCPUQOS
	var asked v1alpha1.ClassCPUQOS
	text, found := annotations[key]
	if found {
		asked, refused, unknown = v1alpha1.DecodeCPUQOS(text)
		source = "annotation " + key
	}
	q = QOS{Source: source, Own: found}
	refused, unknown = refused.InAnnotation(key), unknown.InAnnotation(key)
	if len(refused) > 0 {
		return q, refused, unknown
	}
	if strategy != nil {
		asked = asked.Inherit(*strategy)
	}
	q.Identity = v1alpha1.DefaultGroupIdentity(class)
	q.Enabled, q.Expel = isTrue(asked.Enable), isTrue(asked.CoreExpeller)
	if asked.GroupIdentity != nil {
		q.Identity = *asked.GroupIdentity
	}
	q.Idle = asked.SchedIdle != nil && *asked.SchedIdle == 1
	return q, nil, unknown
}

func isTrue(b *bool) bool { return b != nil && *b }

// Means records which precedence files a kernel has.
type Means struct {
	// Identity is for cpu.bvt_warp_ns, Idle for cpu.idle.
	Identity, Idle bool
}

// Idle is the precedence of an idle group, as package cgroup writes it.
const Idle = "idle"

// Precedence returns the value for the group of a workload: Idle, a Group Identity in decimal, or "" for nothing. A
// kernel with Group Identity uses the identity; on other kernels work that yields is idle. refused is why the request
// is not applied, "" if it is.
func (q QOS) Precedence(class v1alpha1.QoSClass, m Means) (value, refused string) {
	yields := q.Idle || q.Identity == v1alpha1.GroupIdentityYields
	switch {
	case !q.Enabled || q.Identity == 0 && !q.Idle:
		return "", ""
	case m.Identity && yields:
		return strconv.FormatInt(v1alpha1.GroupIdentityYields, 10), ""
	case m.Identity:
		return strconv.FormatInt(q.Identity, 10), ""
	case !yields:
		return "", fmt.Sprintf("groupIdentity %d has no form on this kernel: there is no cpu.bvt_warp_ns", q.Identity)
	case !class.Offline():
		return "", fmt.Sprintf("only offline work can be idle: its class is %s", class)
	case !m.Idle:
		return "", "an idle group has no form on this kernel: there is no cpu.idle, which Linux has since 5.15"
	}
	return Idle, ""
}

// Undone returns the requests, other than the precedence itself, that Berth does not apply, "" for none. policy is the
// node's policy for separating classes.
func (q QOS) Undone(class v1alpha1.QoSClass, policy string, resctrl map[string]any) string {
	var all []string
	if q.Enabled && q.Expel && class.Offline() && policy != v1alpha1.CPUPolicyCoreSched {
		all = append(all, "coreExpeller: it needs cpuPolicy coreSched")
	}
	if enabled, _ := resctrl["enable"].(bool); enabled {
		all = append(all, "resctrlQOS: Berth sets no cache and no memory bandwidth")
	}
	return strings.Join(all, "; ")
}

// NotOwn returns why a group is not a workload's own group, which may be idle, or "" if it is. A pod's own group has
// the pod's UID in its name. Without a pod (""), any group is valid except the kubelet's groups for QoS classes. The
// kubelet writes their shares when it starts: the kernel refuses that if they are idle, and the kubelet does not start.
func NotOwn(group, pod string) string {
	name := path.Base(group)
	plain := strings.TrimSuffix(name, ".slice")
	switch {
	case group == "":
		return "its group is not known yet"
	case plain == "kubepods" || plain == "besteffort" || plain == "burstable" ||
		strings.HasSuffix(plain, "kubepods-besteffort") || strings.HasSuffix(plain, "kubepods-burstable"):
		return "not the workload's own group: " + group + " is the kubelet's"
	case pod == "" || strings.Contains(name, pod) || strings.Contains(name, strings.ReplaceAll(pod, "-", "_")):
		return ""
	}
	return fmt.Sprintf("not the workload's own group: %s has no name of pod %s", group, pod)
}
