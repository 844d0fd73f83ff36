package v1alpha1

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// AnnotationMemoryLocality holds a MemoryLocality as JSON. ACK defined it.
const AnnotationMemoryLocality = "koordinator.sh/memoryLocality"

// AnnotationMemoryLocalityStatus holds a MemoryLocalityStatus as JSON. The agent writes it.
const AnnotationMemoryLocalityStatus = "koordinator.sh/memory-locality-status"

// Reasons of the events about memory locality, with ACK's names.
const (
	// EventMemoryLocalityCompleted: a pass over the memory of a pod ended.
	EventMemoryLocalityCompleted = "MemoryLocalityCompleted"
	// EventMemoryLocalitySkipped: there was nothing to do, with the reason.
	EventMemoryLocalitySkipped = "MemoryLocalitySkipped"
	// EventMemoryLocalityFailed: a pass stopped early, with the reason.
	EventMemoryLocalityFailed = "MemoryLocalityFailed"
)

// MemoryLocalityPolicy says whether the pages of a workload move to the memory nodes of its CPUs. Its letter case does
// not matter.
type MemoryLocalityPolicy string

// The locality policies.
const (
	// MemoryLocalityBestEffort moves the pages, as far as the nodes have room.
	MemoryLocalityBestEffort MemoryLocalityPolicy = "bestEffort"
	// MemoryLocalityNone moves no page. It is the default.
	MemoryLocalityNone MemoryLocalityPolicy = "none"
)

// MemoryLocalityPolicies returns the policies in the order of messages and documentation.
func MemoryLocalityPolicies() []MemoryLocalityPolicy {
	return []MemoryLocalityPolicy{MemoryLocalityBestEffort, MemoryLocalityNone}
}

// Defaults and bounds of a MemoryLocality.
const (
	DefaultTargetLocalityRatio = 100
	maxMigrateIntervalMinutes  = 7 * 24 * 60
)

// intervalNone is the interval that means MemoryLocalityNone, in any letter case.
const intervalNone = "none"

// MemoryLocality is the value of AnnotationMemoryLocality. A nil field is inherited from the strategy of the workload's
// class, or else from the defaults.
type MemoryLocality struct {
	// Policy is MemoryLocalityBestEffort or MemoryLocalityNone.
	Policy *MemoryLocalityPolicy `json:"policy,omitempty"`
	// MigrateIntervalMinutes is the least number of minutes between two passes, 0 to 10080; 0 is a single pass. "none"
	// is the same as the policy none.
	MigrateIntervalMinutes any `json:"migrateIntervalMinutes,omitempty"`
	// TargetLocalityRatio is the share of local memory, 0 to 100 percent, from which on no page has to move.
	TargetLocalityRatio *int64 `json:"targetLocalityRatio,omitempty"`
}

// DecodeMemoryLocality reads the value of AnnotationMemoryLocality, as DecodeCPUBurst does.
func DecodeMemoryLocality(value string) (m MemoryLocality, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &m)
	var e FieldErrors
	e.memoryLocality("", m)
	return m, append(shape, unnamed(shape, e)...), unknown
}

// memoryLocality checks the fields of m, whose names have the prefix at.
func (e *FieldErrors) memoryLocality(at string, m MemoryLocality) {
	if m.Policy != nil && !slices.ContainsFunc(MemoryLocalityPolicies(), m.Policy.is) {
		oneOf(e, at+"policy", *m.Policy, MemoryLocalityPolicies())
	}
	if _, ok := m.minutes(); !ok {
		e.add(at+"migrateIntervalMinutes", m.MigrateIntervalMinutes, `0 to 10080, or "none"`)
	}
	e.between(at+"targetLocalityRatio", m.TargetLocalityRatio, 0, 100)
}

// Inherit returns m with every absent field copied from parent. An interval of "none" is a policy, so it does not
// override a policy of m.
func (m MemoryLocality) Inherit(parent MemoryLocality) MemoryLocality {
	if _, none := parent.MigrateIntervalMinutes.(string); m.MigrateIntervalMinutes == nil && (!none || m.Policy == nil) {
		m.MigrateIntervalMinutes = parent.MigrateIntervalMinutes
	}
	inherit(&m.Policy, parent.Policy)
	inherit(&m.TargetLocalityRatio, parent.TargetLocalityRatio)
	return m
}

// BestEffort reports whether pages should move.
func (m MemoryLocality) BestEffort() bool {
	text, _ := m.MigrateIntervalMinutes.(string)
	return m.Policy != nil && m.Policy.is(MemoryLocalityBestEffort) && text == ""
}

// Interval returns the least time between two passes, 0 for a single pass.
func (m MemoryLocality) Interval() time.Duration {
	minutes, _ := m.minutes()
	return time.Duration(minutes) * time.Minute
}

// Target returns the share of local memory, in percent, from which on no page has to move.
func (m MemoryLocality) Target() int {
	if m.TargetLocalityRatio == nil {
		return DefaultTargetLocalityRatio
	}
	return int(*m.TargetLocalityRatio)
}

// minutes returns the interval, 0 for "none", and whether the interval is allowed.
func (m MemoryLocality) minutes() (int64, bool) {
	switch v := m.MigrateIntervalMinutes.(type) {
	case nil:
		return 0, true
	case string:
		return 0, strings.EqualFold(v, intervalNone)
	case float64:
		return int64(v), v == math.Trunc(v) && v >= 0 && v <= maxMigrateIntervalMinutes
	}
	return 0, false
}

func (p MemoryLocalityPolicy) is(q MemoryLocalityPolicy) bool {
	return strings.EqualFold(string(p), string(q))
}

// MemoryLocalityPhase is the progress of moving a pod's pages.
type MemoryLocalityPhase string

// The phases.
const (
	// MemoryLocalityInProgress: a pass waits for its turn, moves pages, or pauses.
	MemoryLocalityInProgress MemoryLocalityPhase = "InProgress"
	// MemoryLocalityPhaseCompleted: the last pass ended, with any result.
	MemoryLocalityPhaseCompleted MemoryLocalityPhase = "Completed"
	// MemoryLocalityClosed: the policy is none, or no NUMA node is local any more.
	MemoryLocalityClosed MemoryLocalityPhase = "Closed"
)

// MemoryLocalityStatus is the value of AnnotationMemoryLocalityStatus.
type MemoryLocalityStatus struct {
	// Phase is the progress of the current pass, or of the last one.
	Phase MemoryLocalityPhase `json:"phase"`
	// LastResult is how the last pass ended, nil before the first pass ended.
	LastResult *MemoryLocalityResult `json:"lastResult,omitempty"`
}

// MemoryLocalityResult is how a pass over the memory of a pod ended.
type MemoryLocalityResult struct {
	// CompletedTime is when the pass ended.
	CompletedTime time.Time `json:"completedTime"`
	// Result is Completed, Skipped or Failed.
	Result string `json:"result"`
	// CompletedTimeLocalityRatio is the share of local memory at that time, in percent, rounded down.
	CompletedTimeLocalityRatio int `json:"completedTimeLocalityRatio"`
	// CompletedTimeRemotePages is the memory that was not local at that time, in base pages.
	CompletedTimeRemotePages int64 `json:"completedTimeRemotePages"`
}

// Encode returns s as the value of AnnotationMemoryLocalityStatus.
func (s MemoryLocalityStatus) Encode() string {
	text, _ := json.Marshal(s) // encoding it cannot fail
	return string(text)
}

// LocalityConfig enables and limits the moving of pages on this host.
type LocalityConfig struct {
	// Enabled false means that no page is ever moved. Never nil after SetAgentConfigDefaults.
	Enabled *bool `json:"enabled,omitempty"`
	// MaxBandwidthMiBps is how many MiB all workloads together move per second, 0 to 65536; 0 is no limit. Never nil
	// after SetAgentConfigDefaults.
	MaxBandwidthMiBps *int64 `json:"maxBandwidthMiBps,omitempty"`
}

// ResourceQOSConfig has the form of the key resource-qos-config in a cluster's configuration.
type ResourceQOSConfig struct {
	// ClusterStrategy applies to every workload of a class.
	ClusterStrategy ResourceQOS `json:"clusterStrategy,omitzero"`
}

// Of returns the configuration of a class, and the name of its field. The empty class is treated as LS.
func (q ResourceQOS) Of(class QoSClass) (*ClassQOS, string) {
	switch class {
	case QoSLSE, QoSLSR:
		return q.LSRClass, "lsrClass"
	case QoSBE:
		return q.BEClass, "beClass"
	case QoSSystem:
		return q.SystemClass, "systemClass"
	case QoSLS:
	}
	return q.LSClass, "lsClass"
}

// Inherit returns c with every absent field that Berth reads copied from parent.
func (c ClassQOS) Inherit(parent ClassQOS) ClassQOS {
	if c.CPUQOS == nil || parent.CPUQOS == nil {
		inherit(&c.CPUQOS, parent.CPUQOS)
	} else {
		own := c.CPUQOS.Inherit(*parent.CPUQOS)
		c.CPUQOS = &own
	}
	if c.MemoryLocality == nil || parent.MemoryLocality == nil {
		inherit(&c.MemoryLocality, parent.MemoryLocality)
	} else {
		own := c.MemoryLocality.Inherit(*parent.MemoryLocality)
		c.MemoryLocality = &own
	}
	if c.ResctrlQOS == nil {
		c.ResctrlQOS = parent.ResctrlQOS // it is never changed
	}
	return c
}
