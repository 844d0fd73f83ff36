package systemd

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// The properties of a unit behind cgroup.KnobMax, both in microseconds, and the properties that identify the unit.
const (
	propertyQuota     = "CPUQuotaPerSecUSec" // CPU time per second; the largest number for no quota
	propertyPeriod    = "CPUQuotaPeriodUSec" // the largest number for the default
	propertyGroup     = "ControlGroup"       // its path, with a leading slash
	propertySlice     = "Slice"              // the unit above its group
	propertyTransient = "Transient"          // whether a program made it, not a file
	second            = 1_000_000            // in microseconds
	defaultPeriod     = unit.Micros(100_000) // of systemd, and of the kernel
	quotaStep         = 10_000               // systemd stores whole percents of a CPU
)

// propertyOf returns the property of a unit for a list.
func propertyOf(k cgroup.Knob) string {
	if k == cgroup.KnobMems {
		return "AllowedMemoryNodes"
	}
	return "AllowedCPUs"
}

// MayRecord implements cgroupfile.Properties: the units of groups have quotas and lists, and Berth never answers a
// container runtime with a precedence.
func (*Conn) MayRecord(group string, k cgroup.Knob) bool {
	return UnitOf(group) != "" && (k == cgroup.KnobMax || k.Controller() == cgroup.CPUSet)
}

// Property implements cgroupfile.Properties. It reports a quota of transient units only, which container runtimes and
// the kubelet make: an administrator gave any other unit its quota, and Berth never set it. The errors are D-Bus
// errors, with the unit, and cgroupfile.ErrNoUnits.
func (s *Conn) Property(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error) {
	if !s.MayRecord(group, k) {
		return "", false, nil
	}
	all, err := s.properties(group)
	if err != nil || all == nil {
		return "", false, err
	}
	if k != cgroup.KnobMax {
		list, _ := all[propertyOf(k)].([]byte)
		if set := setOf(list); !set.IsEmpty() {
			return cgroup.ListValue(set), true, nil
		}
		return cgroup.Inherit, true, nil
	}
	quota, found := all[propertyQuota].(uint64)
	transient, _ := all[propertyTransient].(bool)
	if !found || !transient {
		return "", false, nil
	}
	period := defaultPeriod
	if p, found := all[propertyPeriod].(uint64); found && p > 0 && p <= second {
		period = unit.Micros(p)
	}
	if quota > math.MaxInt64/second {
		return cgroup.MaxValue(unit.NoLimit, period), true, nil
	}
	return cgroup.MaxValue(unit.Micros(quota)*period/second, period), true, nil
}

// properties returns the properties of the unit of a group, and nil if the group is another unit's of the same name.
func (s *Conn) properties(group string) (map[string]any, error) {
	all, err := s.unit(UnitOf(group))
	if err != nil || !isGroupOf(group, all) {
		return nil, err
	}
	return all, nil
}

// unit returns the properties of a unit. systemd also has properties of a unit that does not exist.
func (s *Conn) unit(name string) (all map[string]any, err error) {
	err = s.call(func(ctx context.Context, b bus) error {
		all, err = b.GetAllPropertiesContext(ctx, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("properties of unit %s: %w", name, err)
	}
	return all, nil
}

// Asked implements cgroupfile.Askers: CPUAffinity and NUMAMask of the unit. A slice has neither. Without a NUMAPolicy
// of NUMA nodes, systemd ignores NUMAMask.
func (s *Conn) Asked(group string, k cgroup.Knob) (cpuset.Set, error) {
	const preferred, interleave int32 = 1, 3 // and bind between them (MPOL_PREFERRED in linux/mempolicy.h)
	all, err := s.properties(group)
	if policy, _ := all["NUMAPolicy"].(int32); k == cgroup.KnobMems && (policy < preferred || policy > interleave) {
		return cpuset.Set{}, err
	}
	mask, _ := all[cgroupfile.Asks(k)].([]byte)
	return setOf(mask), err
}

// Origin implements cgroupfile.Origins.
func (s *Conn) Origin(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error) {
	return s.Property(group, k)
}

// isGroupOf reports whether a group is that of the unit with these properties, or would be if the unit ran.
func isGroupOf(group string, properties map[string]any) bool {
	at, _ := properties[propertyGroup].(string)
	slice, _ := properties[propertySlice].(string)
	return at == "/"+group || at == "" && slice == cmp.Or(UnitOf(path.Dir(group)), "-.slice")
}

// SetProperty implements cgroupfile.Properties. It rounds a quota up to a whole percent of a CPU, as container runtimes
// do: systemd would round it down.
func (s *Conn) SetProperty(group string, k cgroup.Knob, v cgroup.Value) error {
	name := UnitOf(group)
	if k != cgroup.KnobMax {
		return s.SetList(name, k, v)
	}
	quota, period, err := v.Pair()
	if err != nil {
		return fmt.Errorf("unit %s: %w", name, err)
	}
	perSecond := uint64(math.MaxUint64)
	if quota >= 0 {
		steps := (int64(quota)*second/int64(period) + quotaStep - 1) / quotaStep
		perSecond = uint64(steps) * quotaStep
	}
	properties := []sd.Property{{Name: propertyQuota, Value: dbus.MakeVariant(perSecond)}}
	if period != defaultPeriod {
		properties = append(properties, sd.Property{Name: propertyPeriod, Value: dbus.MakeVariant(uint64(period))})
	}
	return s.set(name, properties...)
}

// setOf returns the set that systemd means by bytes, the reverse of bytesOf.
func setOf(mask []byte) cpuset.Set {
	var set cpuset.Set
	for i, b := range mask {
		for bit := range 8 {
			if b&(1<<bit) != 0 {
				set = set.Add(8*i + bit)
			}
		}
	}
	return set
}
