package v1alpha1

// Defaults of the fields that a user may leave out.
const (
	DefaultStateDir                   = "/var/lib/berth"
	DefaultListen                     = "127.0.0.1:9316"
	DefaultCPUBurstPercent            = 1000
	DefaultCFSQuotaBurstPercent       = 300
	DefaultCFSQuotaBurstPeriodSeconds = 60
	DefaultSharePoolThresholdPercent  = 50
	DefaultMaxPercent                 = 1000
	DefaultMaxPeriodSeconds           = 3600
	DefaultMaxBandwidthMiBps          = 256
	DefaultLeaseNamespace             = "berth-system"
	DefaultStaleAfterSeconds          = 180
	DefaultKubeletDir                 = "/var/lib/kubelet"
	DefaultNRISocket                  = "/var/run/nri/nri.sock"
	DefaultHistoryRetention           = "24h"
	DefaultHistoryMaxBytes            = "64Mi"
)

// SetAgentConfigDefaults sets every absent field of c except WorkloadDir, which has no default. Afterwards no pointer
// in c is nil.
func SetAgentConfigDefaults(c *AgentConfig) {
	setText(&c.StateDir, DefaultStateDir)
	setText(&c.Listen, DefaultListen)
	setDefault(&c.Burst.Enabled, true)
	setDefault(&c.Burst.MaxPercent, DefaultMaxPercent)
	setDefault(&c.Burst.MaxPeriodSeconds, DefaultMaxPeriodSeconds)
	setDefault(&c.Burst.AllowUnlimited, false)
	setDefault(&c.Locality.Enabled, true)
	setDefault(&c.Locality.MaxBandwidthMiBps, DefaultMaxBandwidthMiBps)
	SetCPUBurstDefaults(&c.CPUBurst.ClusterStrategy.CPUBurst)
	setDefault(&c.CPUBurst.ClusterStrategy.SharePoolThresholdPercent, DefaultSharePoolThresholdPercent)
	threshold := &c.ResourceThreshold.ClusterStrategy
	setDefault(&threshold.Enable, false)
	setDefault(&threshold.CPUSuppressThresholdPercent, 65)
	setDefault(&threshold.CPUSuppressMinPercent, 0)
	setDefault(&threshold.CPUSuppressPolicy, CPUSuppressCPUSet)
	setDefault(&c.Isolation.PullReservePercent, 0)
	setDefault(&c.Cluster.Enabled, false)
	setDefault(&c.Web.Token, *c.Cluster.Enabled)
	setDefault(&c.History.Enabled, !*c.Cluster.Enabled)
	setText(&c.History.Retention, DefaultHistoryRetention)
	setText(&c.History.MaxBytes, DefaultHistoryMaxBytes)
	setDefault(&c.Cluster.Pinning.MaxPinnedCPUsPerNamespace, 0)
	setText(&c.Cluster.Pinning.RequestBelowLimit, RequestBelowLimitAllow)
	setText(&c.Cluster.KubeletDir, DefaultKubeletDir)
	setText(&c.Cluster.NRISocket, DefaultNRISocket)
}

// SetCPUBurstDefaults sets every absent field of b.
func SetCPUBurstDefaults(b *CPUBurst) {
	setDefault(&b.Policy, CPUBurstNone)
	setDefault(&b.CPUBurstPercent, DefaultCPUBurstPercent)
	setDefault(&b.CFSQuotaBurstPercent, DefaultCFSQuotaBurstPercent)
	setDefault(&b.CFSQuotaBurstPeriodSeconds, DefaultCFSQuotaBurstPeriodSeconds)
}

// SetSchedulerArgsDefaults sets every absent field of a. Afterwards no pointer in a is nil.
func SetSchedulerArgsDefaults(a *SchedulerArgs) {
	setDefault(&a.MaxPinnedCPUsPerNamespace, 0)
	if a.RequestBelowLimit == "" {
		a.RequestBelowLimit = RequestBelowLimitAllow
	}
	if a.NUMAAllocateStrategy == "" {
		a.NUMAAllocateStrategy = NUMAMostAllocated
	}
	setText(&a.LeaseNamespace, DefaultLeaseNamespace)
	setDefault(&a.StaleAfterSeconds, DefaultStaleAfterSeconds)
}

// Inherit returns b with every absent field copied from parent.
func (b CPUBurst) Inherit(parent CPUBurst) CPUBurst {
	inherit(&b.Policy, parent.Policy)
	inherit(&b.CPUBurstPercent, parent.CPUBurstPercent)
	inherit(&b.CFSQuotaBurstPercent, parent.CFSQuotaBurstPercent)
	inherit(&b.CFSQuotaBurstPeriodSeconds, parent.CFSQuotaBurstPeriodSeconds)
	return b
}

// setText sets an empty text.
func setText[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

// setDefault points an absent field at a separate copy of value.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// inherit copies the value, because the two fields must not change together.
func inherit[T any](field **T, parent *T) {
	if *field == nil && parent != nil {
		value := *parent
		*field = &value
	}
}
