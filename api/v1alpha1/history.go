package v1alpha1

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// HistoryConfig says how much history the agent retains on disk, beyond the last minutes.
type HistoryConfig struct {
	// Enabled is true by default without Kubernetes, and false in a cluster. Never nil after SetAgentConfigDefaults.
	Enabled *bool `json:"enabled,omitempty"`
	// Retention is how long history is retained, as a duration such as "24h".
	Retention string `json:"retention,omitempty"`
	// MaxBytes bounds all files of the history together, as a size such as "64Mi".
	MaxBytes string `json:"maxBytes,omitempty"`
	// Listen is the loopback host:port that answers PromQL over the history; empty for none.
	Listen string `json:"listen,omitempty"`
}

// exampleQueries is an address for Listen.
const exampleQueries = "127.0.0.1:9317"

// Bounds of a HistoryConfig.
const (
	shortestHistory, longestHistory = 15 * time.Minute, 31 * 24 * time.Hour
	leastHistory, mostHistory       = 1 << 20, 4 << 30
)

// Period returns Retention as a duration, 0 if it is not valid.
func (h HistoryConfig) Period() time.Duration {
	d, err := time.ParseDuration(h.Retention)
	if err != nil {
		return 0
	}
	return d
}

// Bytes returns MaxBytes in bytes, 0 if it is not valid.
func (h HistoryConfig) Bytes() int64 {
	number, shift := h.MaxBytes, 0
	for i, unit := range []string{"Ki", "Mi", "Gi"} {
		if rest, found := strings.CutSuffix(h.MaxBytes, unit); found {
			number, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n > math.MaxInt64>>shift {
		return 0
	}
	return int64(n) << shift //nolint:gosec // it was compared with the most that fits
}

// Same reports whether two configurations with their defaults mean the same.
func (h HistoryConfig) Same(other HistoryConfig) bool {
	return *h.Enabled == *other.Enabled && h.Period() == other.Period() && h.Bytes() == other.Bytes() && h.Listen == other.Listen
}

// Descriptions of the allowed values of Retention and MaxBytes, for error messages.
const (
	allowedRetention = "a duration from 15m to 744h, for example " + DefaultHistoryRetention
	allowedMaxBytes  = "a size from 1Mi to 4Gi, for example " + DefaultHistoryMaxBytes
)

// history checks the limits and the address of the history.
func (e *FieldErrors) history(field string, c AgentConfig) {
	h := c.History
	if d := h.Period(); d < shortestHistory || d > longestHistory {
		e.add(field+".retention", h.Retention, allowedRetention)
	}
	if n := h.Bytes(); n < leastHistory || n > mostHistory {
		e.add(field+".maxBytes", h.MaxBytes, allowedMaxBytes)
	}
	switch {
	case h.Listen == "":
	case *c.Cluster.Enabled:
		e.add(field+".listen", h.Listen, "nothing with cluster.enabled: each pod in the host's network reaches the address; have Prometheus ask for the metrics")
	case h.Listen == c.Listen || !IsLoopback(h.Listen):
		e.add(field+".listen", h.Listen, "a loopback address other than that of listen, for example "+exampleQueries)
	default:
		e.listen(field+".listen", h.Listen)
	}
}
