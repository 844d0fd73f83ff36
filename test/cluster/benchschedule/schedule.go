package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/internal/node/apiclient"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// fileScheduler is the name of the scheduler's log.
const fileScheduler = "berth-scheduler"

// measurement holds the options of the measurement.
type measurement bench.ScheduleOptions

// Report is the outcome of bench schedule. Its JSON is a stable
// contract.
type Report struct {
	Machine     bench.Machine `json:"machine"`
	Setup       Setup         `json:"setup"`
	Runs        []Run         `json:"runs"`
	Comparisons []Ratio       `json:"comparisons"`
	Goals       []bench.Goal  `json:"goals"`
	// Incomplete reports that some of the runs of Setup are missing.
	Incomplete bool     `json:"incomplete,omitempty"`
	Notes      []string `json:"notes,omitempty"`
}

// Setup describes the load and the repetitions.
type Setup struct {
	Arms []string `json:"arms"`
	// SideBySide reports that each other arm ran at the same time as the arm without Berth.
	SideBySide  bool `json:"sideBySide,omitempty"`
	Pods        int  `json:"pods"`
	PodCPUs     int  `json:"podCPUs"`
	Repetitions int  `json:"repetitions"`
	QPS         int  `json:"clientQPS"`
	// LeaseSeconds is the time between two renewals of one agent's Lease.
	LeaseSeconds int  `json:"leaseSeconds"`
	Quick        bool `json:"quick"`
}

// Run is one arm of one repetition.
type Run struct {
	Nodes      int    `json:"nodes"`
	Percentage int    `json:"percentageOfNodesToScore"`
	Repetition int    `json:"repetition"`
	Arm        string `json:"arm"`
	// Beside is the arm that ran side by side with this one; it is empty without one.
	Beside string `json:"sideBySideWith,omitempty"`
	// Place is the place of the arm, or of the two arms side by side, in the order of its repetition, from 0.
	Place int `json:"place"`
	// Pods is the number of pods bound in Seconds, during which the scheduler used CPUSeconds. It excludes the first
	// tenth of the pods, which warm the scheduler's caches. Side by side, it excludes all pods of the time in which the
	// other arm was not warm yet or had no pods left.
	Pods       int     `json:"pods"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakMiB is the scheduler's peak resident memory.
	PeakMiB float64 `json:"peakMiB"`
	// Reopened counts watches of this program that ended early and were continued. They indicate a machine that is
	// short of CPU. Side by side, only the run whose scheduler started first has them.
	Reopened int `json:"watchesReopened"`
}

// Ratio compares an arm with the arm without Berth, over the repetitions that have both. Its field Ratio is nil with
// fewer than two repetitions.
type Ratio struct {
	Nodes      int    `json:"nodes"`
	Percentage int    `json:"percentageOfNodesToScore"`
	Arm        string `json:"arm"`
	Reference  string `json:"reference"`
	Metric     string `json:"metric"`
	// Repetitions is the number of repetitions that have both arms.
	Repetitions int         `json:"repetitions"`
	Ratio       *load.Ratio `json:"ratio"`
}

// arms returns the arms to run, in the order of the table.
func (o measurement) arms() []string {
	arms := bench.ScheduleArms()
	if o.SideBySide {
		arms = bench.SideBySideArms()
	}
	arms = slices.DeleteFunc(arms, func(arm string) bool {
		return len(o.Arms) > 0 && !slices.Contains(o.Arms, arm)
	})
	if o.SideBySide {
		arms = append(arms, armAgain)
	}
	return arms
}

// turnArms returns the arms that have a turn in each repetition. Side by side, the arm without Berth runs in all turns.
func (o measurement) turnArms() []string {
	return slices.DeleteFunc(o.arms(), func(arm string) bool { return o.SideBySide && arm == armOff })
}

// turn returns the arms that run at the same time in the turn of an arm, in the order of their start. This order
// alternates between repetitions.
func (o measurement) turn(arm string, percentage, repetition int) []scheduleArm {
	one := scheduleArm{name: arm, percentage: percentage, pods: o.Pods}
	if !o.SideBySide {
		return []scheduleArm{one}
	}
	off := one
	off.name = armOff
	both := []scheduleArm{off, one}
	if repetition%2 == 1 {
		slices.Reverse(both)
	}
	both[0].side, both[1].side = sideOne, sideTwo
	return both
}

// scheduleOrder returns the order of the arms in a repetition: a row of a Latin square. In n repetitions of n arms each
// arm is once at each place. In n repetitions, or 2n if n is odd, each arm also follows each other arm equally often
// (the design of Williams).
func scheduleOrder(arms []string, repetition int) []string {
	n := len(arms)
	order := make([]string, n)
	for i := range order {
		at := (i + 1) / 2 // 0, 1, n-1, 2, n-2 and so on.
		if i%2 == 0 {
			at = n - at
		}
		order[i] = arms[(at+repetition)%n]
	}
	if n%2 == 1 && repetition/n%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// scheduleQPS is the client-side limit of requests per second, and the burst, of the scheduler and of this program.
const scheduleQPS = 5000

// run measures every cluster size with every percentage. All child processes have ended when it returns, also when ctx
// ends. It returns an error if ctx ends or a run fails; the report then has the runs finished before, and is nil if
// there are none.
func (o measurement) run(ctx context.Context) (_ *Report, err error) {
	dir := o.Out
	if dir == "" {
		if dir, err = os.MkdirTemp("", "berth-bench-"); err != nil {
			return nil, fmt.Errorf("bench schedule: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	r := &Report{Machine: o.Machine, Setup: Setup{
		Arms: o.arms(), SideBySide: o.SideBySide, Pods: o.Pods, PodCPUs: podCPUs, Repetitions: o.Repetitions, QPS: scheduleQPS,
		LeaseSeconds: int(apiclient.LeaseRenewed.Seconds()), Quick: o.Quick,
	}}
	for _, nodes := range o.Nodes {
		var runs []Run
		runs, err = o.cluster(ctx, filepath.Join(dir, fmt.Sprintf("nodes-%d", nodes)), nodes)
		r.Runs = append(r.Runs, runs...)
		if err != nil {
			err = fmt.Errorf("%d nodes: %w", nodes, errors.Join(ctx.Err(), err))
			break
		}
	}
	if len(r.Runs) == 0 {
		return nil, err
	}
	o.conclude(r)
	return r, errors.Join(err, o.writeRuns(r.Runs), bench.WriteSummary(o.Out, r))
}

// conclude computes all other fields of the report from its runs.
func (o measurement) conclude(r *Report) {
	r.Incomplete = len(r.Runs) < o.runs()
	r.Comparisons = compareSchedules(r.Runs)
	r.Goals = judgeSchedule(r)
	r.Notes = o.notes(r.Runs)
}

// runs returns the total number of runs.
func (o measurement) runs() int {
	each := len(o.turnArms())
	if o.SideBySide {
		each *= 2
	}
	return len(o.Nodes) * len(o.Percentages) * o.Repetitions * each
}

// cluster measures one cluster size. With an error it returns the finished runs.
func (o measurement) cluster(ctx context.Context, dir string, nodes int) (runs []Run, err error) {
	o.Progress(fmt.Sprintf("control plane with %d nodes", nodes))
	programs := controlplane.Programs{Etcd: o.Programs.Etcd, APIServer: o.Programs.APIServer}
	plane, err := controlplane.Start(ctx, dir, programs, quietFlags()...)
	if err != nil {
		return nil, fmt.Errorf("bench schedule: %w", err)
	}
	defer func() { err = errors.Join(err, plane.Stop(), clean(dir)) }()
	c, err := newCluster(plane, o.Programs.Scheduler)
	if err != nil {
		return nil, err
	}
	if err := c.install(ctx, nodes); err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	leasing, stop := context.WithCancel(ctx)
	group.Go(func() error { return c.renewLeases(leasing) })
	group.Go(func() (err error) {
		defer stop()
		runs, err = o.turns(ctx, c)
		return err
	})
	err = group.Wait()
	return runs, err
}

// turns runs the arms in turns. With an error it returns the finished runs.
func (o measurement) turns(ctx context.Context, c *cluster) (runs []Run, err error) {
	nodes := len(c.leases)
	o.Progress(fmt.Sprintf("%d nodes, warm-up", nodes))
	if _, err := c.run(ctx, scheduleArm{name: armOff, pods: max(1, o.Pods/warmShare)}); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	for _, percentage := range o.Percentages {
		for repetition := range o.Repetitions {
			for place, arm := range scheduleOrder(o.turnArms(), repetition) {
				o.Progress(fmt.Sprintf("%d nodes, percentage %d, repetition %d of %d, %s", nodes, percentage, repetition+1, o.Repetitions, arm))
				turn, err := c.run(ctx, o.turn(arm, percentage, repetition)...)
				if err != nil {
					return runs, fmt.Errorf("arm %s: %w", arm, err)
				}
				for _, run := range turn {
					run.Nodes, run.Repetition, run.Place = nodes, repetition, place
					runs = append(runs, run)
				}
			}
		}
	}
	return runs, nil
}

// quietFlags are flags of the API server that keep the work of one run out of the next. No event expires, and the
// program itself compacts the store between runs. Pods are deleted by several workers.
func quietFlags() []string {
	return []string{"--event-ttl=24h", "--etcd-compaction-interval=0", "--delete-collection-workers=16"}
}

// clean removes all files of an ended control plane except the logs and configurations.
func clean(dir string) error {
	var errs []error
	for _, name := range []string{"etcd", "pki", "kubeconfig"} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

func (o measurement) notes(runs []Run) []string {
	notes := []string{
		"etcd, the API server and the scheduler share the CPUs of this machine: only the ratios mean anything",
	}
	reopened := 0
	for _, run := range runs {
		reopened += run.Reopened
	}
	if reopened > 0 {
		notes = append(notes, fmt.Sprintf("%d watches of the benchmark itself ended early and went on: the machine was short of CPU", reopened))
	}
	if len(runs) < o.runs() {
		notes = append(notes, fmt.Sprintf("ended early: %d of %d runs were finished, and only these count", len(runs), o.runs()))
	}
	if o.Quick {
		notes = append(notes, "quick: fewer pods and repetitions than a verdict needs")
	}
	return notes
}

func (o measurement) writeRuns(runs []Run) error {
	rows := [][]string{{"nodes", "percentage", "repetition", "place", "arm", "side_by_side_with", "pods", "seconds", "cpu_seconds", "peak_mib", "watches_reopened"}}
	for _, r := range runs {
		rows = append(rows, []string{
			strconv.Itoa(r.Nodes), strconv.Itoa(r.Percentage), strconv.Itoa(r.Repetition), strconv.Itoa(r.Place), r.Arm, r.Beside, strconv.Itoa(r.Pods),
			strconv.FormatFloat(r.Seconds, 'f', 6, 64), strconv.FormatFloat(r.CPUSeconds, 'f', 6, 64),
			strconv.FormatFloat(r.PeakMiB, 'f', 1, 64), strconv.Itoa(r.Reopened),
		})
	}
	return bench.WriteRows(o.Out, "runs.csv", rows)
}
