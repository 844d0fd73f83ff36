package isolate

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// QOS is how one workload shares CPUs, as it was asked for. No field is left to inherit.
type QOS struct {
	// Enabled says that precedence is asked for at all.
	Enabled bool
	// Identity is from -1, which yields, to 2, which goes first; 0 is neither.
	Identity int64
	// Idle says that it runs when nothing else does.
	Idle bool
	// Expel says that offline work is to be kept off the other thread of a core.
	Expel bool
	// Source is where it is written, and Own says that it is the workload's annotation.
	Source string
	Own    bool
}

// QOSOf reads the annotation of a pod or workload of a class, and completes it by what the class
// gets, nil for nothing; source is where that is written. With problems in refused nothing is
// asked for. Fields in unknown change nothing.
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

// Means are the files for precedence that a kernel has.
type Means struct {
	// Identity is cpu.bvt_warp_ns, Idle is cpu.idle.
	Identity, Idle bool
}

// Idle is the precedence of a group that is idle, as package cgroup writes it.
const Idle = "idle"

// Precedence decides what the group of a workload of a class gets: Idle, a Group Identity in
// decimal, or "" for nothing. Where the kernel has Group Identity, that is what says it; elsewhere
// work that yields is idle. refused is why what was asked for is not done, "" where it is.
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

// Undone says what is asked for beside precedence that Berth does not do, where classes are kept
// apart by a policy: "" for nothing.
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

// NotOwn says why a group is not one that a workload has for itself, which may be idle, "" where
// it is: of a pod the one that the kubelet named by its UID, of a workload without a pod, "", any
// but those of the kubelet for a QoS class. The kubelet writes the shares of these when it starts,
// is refused where they are idle, and does not start.
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
