package load

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Sample is the result of one request.
type Sample struct {
	// Intended is when the request was due, relative to the start of the arm.
	Intended time.Duration
	// Latency is the time from Intended to the end of the answer, including queueing in the generator.
	Latency time.Duration
	// Status is the HTTP status, or 0 when no answer came.
	Status int
}

// OK reports whether the request was served.
func (s Sample) OK() bool { return s.Status >= 200 && s.Status < 300 }

// Failures counts the samples that were not served.
func Failures(samples []Sample) int {
	failed := 0
	for _, s := range samples {
		if !s.OK() {
			failed++
		}
	}
	return failed
}

// Before returns the samples whose intended time is before end.
func Before(samples []Sample, end time.Duration) []Sample {
	kept := make([]Sample, 0, len(samples))
	for _, s := range samples {
		if s.Intended < end {
			kept = append(kept, s)
		}
	}
	return kept
}

// WriteCSV writes the raw samples with a header line, in nanoseconds.
func WriteCSV(w io.Writer, samples []Sample) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"intended_ns", "latency_ns", "status"})
	for _, s := range samples {
		_ = out.Write([]string{
			strconv.FormatInt(int64(s.Intended), 10),
			strconv.FormatInt(int64(s.Latency), 10),
			strconv.Itoa(s.Status),
		})
	}
	out.Flush() // out.Error returns the errors of Write.
	if err := out.Error(); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	return nil
}
