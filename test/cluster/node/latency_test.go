package node

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/berth-project/berth/test/cluster/local"
)

// metrics returns the agent's metrics by name with labels; nil while there is no agent.
func metrics(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := local.AgentMetrics(context.WithoutCancel(t.Context())) // also after the test
	if err != nil {
		return nil
	}
	return parseMetrics(bytes.NewReader(text))
}

func parseMetrics(in io.Reader) map[string]float64 {
	all := map[string]float64{}
	line := regexp.MustCompile(`^([a-z_]+(?:\{.*\})?) (\S+)$`)
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		if m := line.FindStringSubmatch(scanner.Text()); m != nil {
			all[m[1]], _ = strconv.ParseFloat(m[2], 64) // An unreadable value counts as zero.
		}
	}
	return all
}

// latency returns the histogram of NRI answers: cumulative counts by upper bound in seconds.
func (s *stage) latency(t *testing.T) map[float64]float64 {
	t.Helper()
	buckets := map[float64]float64{}
	for name, value := range metrics(t) {
		if m := regexp.MustCompile(`^berth_nri_request_seconds_bucket\{le="(.*)"\}$`).FindStringSubmatch(name); m != nil {
			bound, err := strconv.ParseFloat(m[1], 64)
			must(t, err)
			buckets[bound] = value
		}
	}
	if len(buckets) == 0 {
		t.Fatal("the agent has no histogram of NRI's answers")
	}
	return buckets
}

// reportLatency records how long the runtime has waited since before, under names that begin with about.
func (s *stage) reportLatency(t *testing.T, about string, before map[float64]float64) {
	t.Helper()
	after := s.latency(t)
	bounds := make([]float64, 0, len(after))
	for bound := range after {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	all := after[math.Inf(1)] - before[math.Inf(1)]
	if all <= 0 {
		t.Fatalf("the runtime asked nothing: %v, before %v", after, before)
	}
	for _, q := range []float64{0.5, 0.99, 1} {
		for _, bound := range bounds {
			if after[bound]-before[bound] >= q*all {
				s.figure(t, fmt.Sprintf("%sNRI answer p%g at most, ms", about, q*100), bound*1000)
				break
			}
		}
	}
	s.figure(t, about+"NRI requests", all)
}

// quantile returns a quantile of measured durations, rounded up to a measured value.
func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, int(math.Ceil(q*float64(len(all))))-1)]
}
