package isolate

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

var (
	// ErrNoForm is why a precedence is not carried out: no file of this kernel says it.
	ErrNoForm = errors.New("no form on this kernel")
	// ErrOnline is why online work is never idle.
	ErrOnline = errors.New("only offline work can be idle")
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
	refused, unknown = below(key, refused), below(key, unknown)
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

// below moves problems of an annotation's value below the annotation's field.
func below(key string, problems v1alpha1.FieldErrors) v1alpha1.FieldErrors {
	for i := range problems {
		field := problems[i].Field
		if problems[i].Field = "metadata.annotations[" + key + "]"; field != "" {
			problems[i].Field += "." + field
		}
	}
	return problems
}

func isTrue(b *bool) bool { return b != nil && *b }

// Means are the files for precedence that a kernel has.
type Means struct {
	// Identity is cpu.bvt_warp_ns, Idle is cpu.idle.
	Identity, Idle bool
}

// Precedence is what is desired of the group of a workload.
type Precedence struct {
	// Idle says that the group is idle.
	Idle bool
	// Identity is its Group Identity, nil for none.
	Identity *int64
	// Why is a sentence.
	Why string
}

// Precedence decides what a workload of a class gets. Where the kernel has Group Identity, that
// is what says it; elsewhere work that yields is idle. The error says why what was asked for is
// not done, and matches ErrNoForm or ErrOnline.
func (q QOS) Precedence(class v1alpha1.QoSClass, m Means) (Precedence, error) {
	if !q.Enabled {
		return Precedence{}, nil
	}
	yields := q.Idle || q.Identity == v1alpha1.GroupIdentityYields
	switch {
	case m.Identity && (q.Identity != 0 || q.Idle):
		identity := q.Identity
		if q.Idle {
			identity = v1alpha1.GroupIdentityYields
		}
		return Precedence{Identity: &identity, Why: fmt.Sprintf("groupIdentity %d, by %s", identity, q.Source)}, nil
	case m.Identity:
		return Precedence{}, nil
	case q.Identity > 0 && !q.Idle:
		return Precedence{}, fmt.Errorf("groupIdentity %d has %w: there is no cpu.bvt_warp_ns", q.Identity, ErrNoForm)
	case !yields:
		return Precedence{}, nil
	case !class.Offline():
		return Precedence{}, fmt.Errorf("%w: its class is %s", ErrOnline, class)
	case !m.Idle:
		return Precedence{}, fmt.Errorf("an idle group has %w: there is no cpu.idle, which Linux has since 5.15", ErrNoForm)
	}
	return Precedence{Idle: true, Why: "offline work runs when nothing beside it wants the CPU, by " + q.Source}, nil
}

// ErrNotOwn says that a group is not the workload's own.
var ErrNotOwn = errors.New("not the workload's own group")

// OwnGroup says whether a group is one that a workload has for itself, which may be idle: of a
// pod the one that the kubelet named by its UID, of a workload without a pod, "", any but those
// of the kubelet for a QoS class. The kubelet writes the shares of these when it starts, is
// refused where they are idle, and does not start. The error matches ErrNotOwn.
func OwnGroup(group, pod string) error {
	name := path.Base(group)
	plain := strings.TrimSuffix(name, ".slice")
	switch {
	case group == "":
		return fmt.Errorf("%w: it is not known yet", ErrNotOwn)
	case plain == "kubepods" || plain == "besteffort" || plain == "burstable" ||
		strings.HasSuffix(plain, "kubepods-besteffort") || strings.HasSuffix(plain, "kubepods-burstable"):
		return fmt.Errorf("%w: %s is the kubelet's", ErrNotOwn, group)
	case pod == "" || strings.Contains(name, pod) || strings.Contains(name, strings.ReplaceAll(pod, "-", "_")):
		return nil
	}
	return fmt.Errorf("%w: %s has no name of pod %s", ErrNotOwn, group, pod)
}
