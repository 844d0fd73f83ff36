package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindProfile is the kind of a Profile document.
const KindProfile = "Profile"

// Profile says how to tune a host: the purpose of its CPUs, the kernel's settings, and where systemd's units run. Only
// name, labels and annotations of the metadata have a meaning here.
//
// +kubebuilder:skipversion
type Profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec ProfileSpec `json:"spec"`
}

// ProfileSpec is what a profile asks for.
type ProfileSpec struct {
	// Inherit names one other profile that this profile extends: maps merge, lists replace.
	Inherit string `json:"inherit,omitempty"`
	// CPUs are named sets of CPUs.
	CPUs map[string]ProfileCPUs `json:"cpus,omitempty"`
	// Settings are the values of knobs by their name. A name that begins with "sysctl." is any sysctl.
	Settings map[string]ProfileSetting `json:"settings,omitempty"`
	// Units are systemd's units with their desired settings.
	Units []ProfileUnit `json:"units,omitempty"`
	// Boot lists arguments of the kernel's command line. In each, $NAME stands for the CPU list of the set NAME.
	Boot []string `json:"boot,omitempty"`
}

// ProfileCPUs is a set of CPUs: whole cores of the machine or of some of its NUMA nodes, or listed CPUs, without the
// CPUs of other sets.
type ProfileCPUs struct {
	// CPUs is a CPU list such as "0-3,8".
	CPUs string `json:"cpus,omitempty"`
	// NUMANodes is a list of NUMA nodes such as "0" or "0-1"; all nodes if it is absent.
	NUMANodes string `json:"numaNodes,omitempty"`
	// CoresPerNUMANode is how many whole cores of each node the set has, those with the lowest CPUs.
	CoresPerNUMANode *int64 `json:"coresPerNUMANode,omitempty"`
	// Without names sets whose CPUs are left out.
	Without []string `json:"without,omitempty"`
	// Partition is the kind of cpuset partition that the set becomes.
	Partition CPUPartition `json:"partition,omitempty"`
}

// CPUPartition is a kind of cpuset partition, in the kernel's words.
type CPUPartition string

// The kinds of partitions. PartitionMember, the default, is no partition.
const (
	PartitionMember   CPUPartition = "member"
	PartitionRoot     CPUPartition = "root"
	PartitionIsolated CPUPartition = "isolated"
)

// CPUPartitions returns the kinds, the default first.
func CPUPartitions() []CPUPartition {
	return []CPUPartition{PartitionMember, PartitionRoot, PartitionIsolated}
}

// ProfileSetting is the value of one knob. In a document it is the value alone, or an object with the value and whether
// it is optional.
type ProfileSetting struct {
	// Value is in the knob's own format, for example 3ms.
	Value ProfileValue `json:"value"`
	// Optional says that a kernel without the knob is no error.
	Optional bool `json:"optional,omitempty"`
}

// ProfileValue is a text, a number or true or false, kept as text.
type ProfileValue string

// ProfileUnit has the desired settings of a unit of the system's systemd.
type ProfileUnit struct {
	// Unit is a service, scope or slice.
	Unit string `json:"unit"`
	// CPUs is the name of a set or a CPU list.
	CPUs string `json:"cpus,omitempty"`
	// Mems is "local", for the memory nodes of its CPUs, or a list of nodes.
	Mems string `json:"mems,omitempty"`
	// Policy is the scheduling policy of its threads: other, batch, idle, fifo:N or rr:N.
	Policy string `json:"policy,omitempty"`
	// Slice is the fair slice of its threads, 100us to 100ms.
	Slice string `json:"slice,omitempty"`
	// RTBudget is the least time in each second that the real-time threads of its group may run, 1ms to 1s. It applies
	// to cgroup v1, where the kernel gives groups such a budget.
	RTBudget string `json:"rtBudget,omitempty"`
}

// DecodeProfile reads one Profile document, given as JSON, and checks its form, not the meaning of its values. If there
// are problems, the returned value has the valid fields.
func DecodeProfile(data []byte) (Profile, FieldErrors) {
	var p Profile
	shape := decodeStrict(data, &p)
	return p, append(shape, unnamed(shape, ValidateProfile(p))...)
}

// UnmarshalJSON also accepts the value alone.
func (s *ProfileSetting) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return s.Value.UnmarshalJSON(data)
	}
	type plainly ProfileSetting
	if err := json.Unmarshal(data, (*plainly)(s)); err != nil {
		return fmt.Errorf("decode setting: %w", err)
	}
	return nil
}

// MarshalJSON returns the value alone if nothing else is set.
func (s ProfileSetting) MarshalJSON() ([]byte, error) {
	if !s.Optional {
		return s.Value.MarshalJSON()
	}
	type plainly ProfileSetting
	return json.Marshal(plainly(s)) //nolint:wrapcheck // a marshaler hands its errors on
}

// UnmarshalJSON stores a number or a truth value as it is written.
func (v *ProfileValue) UnmarshalJSON(data []byte) error {
	text := string(bytes.TrimSpace(data))
	switch {
	case text == "null":
		return nil
	case text != "" && text[0] == '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("decode value: %w", err)
		}
		text = s
	}
	*v = ProfileValue(text)
	return nil
}

// MarshalJSON returns a number or a truth value if the text is one.
func (v ProfileValue) MarshalJSON() ([]byte, error) {
	text := string(v)
	n, err := strconv.ParseInt(text, 10, 64)
	if text == "true" || text == "false" || err == nil && strconv.FormatInt(n, 10) == text {
		return []byte(text), nil
	}
	return json.Marshal(text) //nolint:wrapcheck // a marshaler hands its errors on
}
