package offline

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// Prober reports what the groups of a host support.
type Prober interface {
	Probe(k cgroup.Knob) (kernel.Support, error)
	Hierarchy(c cgroup.Controller) (cgroup.Hierarchy, error)
}

// identitySwitch disables Group Identity on kernels that have it. Berth only reports it.
const identitySwitch = "kernel.sched_group_identity_enabled"

// Support is this kernel's support of each mechanism that separates offline work.
type Support struct {
	// Cores are CPU sets, Idle is cpu.idle, GroupIdentity is cpu.bvt_warp_ns, and CoreScheduling is the kernel's core
	// scheduling.
	Cores          Mechanism `json:"cores"`
	Idle           Mechanism `json:"idle"`
	GroupIdentity  Mechanism `json:"groupIdentity"`
	CoreScheduling Mechanism `json:"coreScheduling"`
}

// Mechanism is one such mechanism.
type Mechanism struct {
	Support kernel.Support `json:"support"`
	// Note is why it is not supported, or what else it depends on.
	Note string `json:"note,omitempty"`
}

// String returns the support and the note.
func (m Mechanism) String() string {
	if m.Note == "" {
		return m.Support.String()
	}
	return fmt.Sprintf("%s (%s)", m.Support, m.Note)
}

// line returns the line of status, after the way to cores of offline work.
func (s Support) line(cores string, idle bool) string {
	groups := "offline groups idle"
	if !idle {
		groups = "cpu.idle " + s.Idle.String()
	}
	return strings.Join([]string{
		"isolation: " + cores, groups, "Group Identity " + s.GroupIdentity.String(), "core scheduling " + s.CoreScheduling.String(),
	}, "; ")
}

// probe asks the kernel, for a knob only until there is an answer: that reads every group.
func (s *Support) probe(host Prober, root *hostfs.Root) {
	s.Idle.probe(host, cgroup.KnobPrecedence, "no cpu.idle")
	s.GroupIdentity.probe(host, cgroup.KnobIdentity, "no "+string(cgroup.KnobIdentity))
	if s.GroupIdentity.Support == kernel.Supported {
		file := "proc/sys/" + strings.ReplaceAll(identitySwitch, ".", "/")
		if text, err := root.ReadFile(file); err == nil {
			s.GroupIdentity.Note = identitySwitch + " " + strings.TrimSpace(string(text))
		}
	}
	s.CoreScheduling.Support, s.CoreScheduling.Note = kernel.CoreScheduling()
	s.Cores = Mechanism{Support: kernel.Supported}
	switch hier, err := host.Hierarchy(cgroup.CPUSet); {
	case err != nil:
		s.Cores = Mechanism{kernel.Unsupported, "no cpuset controller"}
	case hier.ReadOnly:
		s.Cores = Mechanism{kernel.Unsupported, "cpuset is mounted read-only"}
	}
}

// probe asks for one knob of a group.
func (m *Mechanism) probe(host Prober, k cgroup.Knob, missing string) {
	if m.Support != kernel.Unknown {
		return
	}
	support, err := host.Probe(k)
	switch *m = (Mechanism{Support: support}); {
	case err != nil:
		*m = Mechanism{kernel.Unknown, err.Error()}
	case support == kernel.Unsupported:
		m.Note = missing
	case support == kernel.Unknown:
		m.Note = "no group has the cpu controller"
	}
}
