package burst

import (
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
)

// config is burst's part of the agent's file, with the defaults.
func config() string {
	return fmt.Sprintf(configText,
		v1alpha1.CPUBurstNone, v1alpha1.DefaultCPUBurstPercent, v1alpha1.DefaultCFSQuotaBurstPercent,
		v1alpha1.DefaultCFSQuotaBurstPeriodSeconds, v1alpha1.DefaultSharePoolThresholdPercent,
		v1alpha1.DefaultMaxPercent, v1alpha1.DefaultMaxPeriodSeconds)
}

const configText = `# For every workload without the annotation koordinator.sh/cpuBurst, and for
# what such an annotation leaves out.
cpu-burst-config:
  clusterStrategy:
    # none, cpuBurstOnly (the kernel's own burst), cfsQuotaBurstOnly (a moving quota), auto (both).
    policy: %s
    # The kernel's burst in percent of the limit, 0 to 10000; clamped to what the kernel takes.
    cpuBurstPercent: %d
    # The highest quota in percent of the limit, 100 to 10000.
    cfsQuotaBurstPercent: %d
    # How long the highest quota lasts from full credit, 0 to 86400 seconds; -1 sets no limit to the credit.
    cfsQuotaBurstPeriodSeconds: %d
    # Use of the shared pool from which on its headroom is divided, 0 to 100 percent.
    sharePoolThresholdPercent: %d

burst:
  # false: no quota and no burst is ever written.
  enabled: true
  # Caps cfsQuotaBurstPercent of every annotation and of the strategy above, 100 to 10000.
  maxPercent: %d
  # Caps cfsQuotaBurstPeriodSeconds of every annotation, 0 to 86400 seconds.
  maxPeriodSeconds: %d
  # true: an annotation may ask for credit without limit, a cfsQuotaBurstPeriodSeconds of -1.
  allowUnlimited: false

`
