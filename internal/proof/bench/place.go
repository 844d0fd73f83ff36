package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/internal/proof/load"
)

// PlaceOptions configures bench place.
type PlaceOptions struct {
	Options

	// Machines are the machines to place pods on, on paper.
	Machines []PlaceMachine
	// Events is the number of events of one trace, half of them arrivals.
	Events int
	// Seed is the seed of the first trace, one for each repetition, and of the states in which latency is measured.
	Seed uint64
	// Calls is how many calls are timed for each state and request; 1,000 support a p99.
	Calls int
}

// PlaceReport is the outcome of bench place. Its JSON is a stable contract.
type PlaceReport struct {
	Machine     Machine       `json:"machine"`
	Setup       PlaceSetup    `json:"setup"`
	Latency     []LatencyLine `json:"latency"`
	Arms        []PlaceArm    `json:"arms"`
	Comparisons []PlaceRatio  `json:"comparisons"`
	Goals       []Goal        `json:"goals"`
	Notes       []string      `json:"notes,omitempty"`
}

// PlaceSetup describes the run.
type PlaceSetup struct {
	Events      int    `json:"events"`
	Repetitions int    `json:"repetitions"`
	Seed        uint64 `json:"seed"`
	Calls       int    `json:"calls"`
	Quick       bool   `json:"quick"`
}

// PlaceArm is one arm on one machine over all traces.
type PlaceArm struct {
	On      string `json:"on"`
	Name    string `json:"name"`
	Promise string `json:"promise"`
	// Counts has the counts of each trace, in the order of the seeds.
	Counts []PlaceCounts `json:"counts"`
}

// PlaceRatio compares Berth with one peer on one machine, under the same promise. A nil ratio is a ratio to zero: the
// peer's arm has no such pod.
type PlaceRatio struct {
	On        string      `json:"on"`
	Arm       string      `json:"arm"`
	Reference string      `json:"reference"`
	Metric    string      `json:"metric"`
	Ratio     *load.Ratio `json:"ratio"`
	// AlignsL3 is true if the reference knows L3 domains, Promised if both arms refuse pods to keep their promise.
	AlignsL3 bool `json:"referenceAlignsL3"`
	Promised bool `json:"promised"`
	// Better is the direction: greater, or less.
	Better string `json:"better"`
}

// RunPlace times decisions and plays the traces. It needs no privilege and changes nothing.
func RunPlace(ctx context.Context, o PlaceOptions) (*PlaceReport, error) {
	if err := o.open("place"); err != nil {
		return nil, err
	}
	r := &PlaceReport{Machine: o.Machine, Setup: PlaceSetup{
		Events: o.Events, Repetitions: o.Repetitions, Seed: o.Seed, Calls: o.Calls, Quick: o.Quick,
	}}
	var err error
	if r.Latency, err = o.latency(ctx); err != nil {
		return nil, err
	}
	for _, m := range o.Machines {
		arms, err := o.traces(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		r.Arms = append(r.Arms, arms...)
	}
	r.Comparisons = comparePlaces(r.Arms)
	r.Goals = judgePlace(r)
	r.Notes = o.notes()
	if err := o.writeCounts(r.Arms); err != nil {
		return nil, err
	}
	return r, WriteSummary(o.Out, r)
}

// traces plays every trace against every arm on one machine.
func (o PlaceOptions) traces(ctx context.Context, m PlaceMachine) ([]PlaceArm, error) {
	capacity := m.Topology.Containers().Size()
	arms := placeArms()
	results := make([]PlaceArm, len(arms))
	for i, arm := range arms {
		results[i] = PlaceArm{On: m.Name, Name: arm.name, Promise: arm.promise}
	}
	for repetition := range o.Repetitions {
		events := newTrace(o.Seed+uint64(repetition), capacity, o.Events)
		o.Progress(fmt.Sprintf("%s: trace %d of %d", m.Name, repetition+1, o.Repetitions))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0)) // Traces are not timed.
		for i, arm := range arms {
			group.Go(func() error {
				counts, err := arm.play(ctx, m.Topology, events)
				results[i].Counts = append(results[i].Counts, counts)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err //nolint:wrapcheck // What play says.
		}
	}
	return results, nil
}

func (o PlaceOptions) notes() []string {
	notes := []string{
		"the peers are emulated from their published rules (package rival); their own speed is not measured",
		"a peer that refuses pods to keep a promise is compared to Berth under the same promise",
	}
	if o.Quick {
		notes = append(notes, "quick: shorter traces than the goals ask for; run without --quick for verdicts")
	}
	return notes
}

// writeCounts writes the counts of every trace.
func (o PlaceOptions) writeCounts(arms []PlaceArm) error {
	rows := [][]string{{"machine", "arm", "seed", "arrivals", "admitted", "one_numa", "one_l3", "numa_nodes", "l3s", "shared_cores"}}
	for _, a := range arms {
		for i, c := range a.Counts {
			row := []string{a.On, a.Name, strconv.FormatUint(o.Seed+uint64(i), 10)}
			for _, n := range []int{c.Arrivals, c.Admitted, c.OneNUMA, c.OneL3, c.NUMANodes, c.L3s, c.SharedCores} {
				row = append(row, strconv.Itoa(n))
			}
			rows = append(rows, row)
		}
	}
	return WriteRows(o.Out, "traces.csv", rows)
}

// WriteRows writes a CSV file into the directory out, unless out is empty.
func WriteRows(out, name string, rows [][]string) (err error) {
	if out == "" {
		return nil
	}
	file, err := os.Create(filepath.Join(out, name))
	if err != nil {
		return fmt.Errorf("raw data: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := csv.NewWriter(file).WriteAll(rows); err != nil {
		return fmt.Errorf("raw data %s: %w", name, err)
	}
	return nil
}
