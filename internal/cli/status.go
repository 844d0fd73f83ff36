package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/checkpoint"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/table"
)

// status is the output of berth status; its JSON is a stable contract.
type status struct {
	Agent agentStatus
	// views are the capabilities' statements, in their order.
	views     views
	Workloads []view.Status
	// Problems are what users must fix, such as documents that are not in effect.
	Problems []string
	Applied  []applied
	// damage is what is wrong with the journal; Problems has it, too.
	damage error
	// next is the next step if no agent runs, or if there is no workload; for people only.
	next string
	// asked says that a workload asks for something, or that the node cannot give it.
	asked bool
	// unmanaged are what quotas throttle although no workload asked for burst; for people only.
	unmanaged []view.Workload
	// profile is the applied host profile if no agent runs, nil for none.
	profile *inForce
	// config is the agent's file.
	config v1alpha1.AgentConfig
}

// MarshalJSON implements json.Marshaler.
func (s status) MarshalJSON() ([]byte, error) {
	all := capability.Joined{capability.Sections{"agent": s.Agent}}
	for _, v := range s.views.nodes {
		all = append(all, v.Sections)
	}
	if s.profile != nil {
		all = append(all, capability.Sections{"appliedProfile": s.profile})
	}
	type rest struct {
		Workloads []view.Status `json:"workloads"`
		Problems  []string      `json:"problems"`
		Applied   []applied     `json:"applied"`
	}
	return append(all, rest{s.Workloads, s.Problems, s.Applied}).MarshalJSON()
}

type agentStatus struct {
	Alive   bool   `json:"alive"`
	PID     int    `json:"pid,omitempty"`
	Version string `json:"version,omitempty"`
	// Written is when the agent last saved this data.
	Written *time.Time `json:"written,omitempty"`
}

// applied is one value on the host that Berth has written.
type applied struct {
	Group string `json:"group"`
	Knob  string `json:"knob"`
	// File is the file that Berth wrote. It is empty if the group is gone.
	File     string     `json:"file,omitempty"`
	Original plan.Value `json:"original"`
	Current  plan.Value `json:"current,omitempty"`
	// State is "applied", "original" (restored), "drift" (another program's value), "gone" or "unreadable".
	State    string    `json:"state"`
	Owner    string    `json:"owner"`
	Workload string    `json:"workload"`
	Why      string    `json:"why"`
	Since    time.Time `json:"since"`
	Writes   int       `json:"writes"`
	shown    inFile
}

func newStatusCommand(g *globals) *cobra.Command {
	var config string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show every value that Berth applied, by whom and since when",
		Long: `Shows every workload, and compares every value that Berth has written with the kernel's
value now. The command only reads, with or without an agent. Exit code 4 says that
another program changed a value, exit code 1 that the journal is damaged.

--watch -o json prints the agent's view instead, once a second until Ctrl-C: first a line
with all of it, then lines with the changes (docs/view.md). berth web --replay FILE plays
such a recording.`,
		Example: "  berth status\n  berth status -o json\n  sudo berth status --watch -o json > node.jsonl",
		Args:    noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			if watch {
				return watchStatus(cmd, format, config)
			}
			s, err := readStatus(cmd, g, config)
			if err != nil {
				return err
			}
			if err := show(cmd.OutOrStdout(), format, s, s.print); err != nil {
				return err
			}
			return s.drift()
		}),
	}
	configFlag(cmd, &config)
	cmd.Flags().BoolVar(&watch, "watch", false, "with -o json: print what changes until Ctrl-C, for berth web --replay")
	return cmd
}

// readStatus combines journal, checkpoint and kernel.
func readStatus(cmd *cobra.Command, g *globals, config string) (status, error) {
	cfg, err := loadState(cmd, config)
	if err != nil {
		return status{}, err
	}
	root, closed, err := g.openReading()
	if err != nil {
		return status{}, err
	}
	defer closed()
	s := status{Workloads: []view.Status{}, Problems: []string{}, Applied: []applied{}, config: cfg}
	if s.Agent.PID, s.Agent.Alive, err = journal.Holder(cfg.StateDir); err != nil {
		return s, fmt.Errorf("stateDir: %w", err)
	}
	seen, err := look(cmd.Context(), cfg.StateDir, s.Agent.Alive)
	if err != nil {
		return s, fmt.Errorf("stateDir: %w", err)
	}
	s.take(seen)
	if s.views, err = readViews(g.capabilities, s.Agent.Alive, seen); err != nil {
		return s, fmt.Errorf("stateDir: %w", err)
	}
	snapshot, err := journal.Load(cfg.StateDir, driver.Values())
	if err != nil {
		return s, fmt.Errorf("stateDir: %w", err)
	}
	if snapshot.Damage != nil {
		s.damage = snapshot.Damage
		s.Problems = append(s.Problems, snapshot.Damage.Error())
	}
	if s.Applied, err = compare(root, snapshot); err != nil {
		return s, g.hostError(err)
	}
	if !s.Agent.Alive {
		s.next = nextStep(cfg, config, s.Applied)
		if g.unpacked == "" { // a recording has no state
			s.profile = g.inForceOr(cmd, config)
		}
	} else if !s.asked {
		s.next = firstStep(cfg)
	}
	return s, nil
}

// firstStep describes what to do if no workload has opted in.
func firstStep(cfg v1alpha1.AgentConfig) string {
	if *cfg.Cluster.Enabled {
		return `no workload asks for anything: give a pod the annotation cpuset-scheduler: "true" for CPUs of its own, or koordinator.sh/cpuBurst for burst`
	}
	return fmt.Sprintf("no workload: describe one in a file in %s, which the agent reads at once (docs/install.md)", cfg.WorkloadDir)
}

// unmanagedRows lists workloads and services that did not ask for burst, although their quota throttles them.
func unmanagedRows(all []view.Workload) [][]string {
	rows := [][]string{{"UNMANAGED", "LIMIT", "USED", "THROTTLED", "BURST"}}
	for _, w := range all {
		t, helps := w.Throttling, "-"
		if t.BurstHelps {
			helps = "would help"
		}
		rows = append(rows, []string{
			w.Name, fmt.Sprintf("%.3g CPUs", t.Limit), fmt.Sprintf("%.3g CPUs", t.Used),
			fmt.Sprintf("%d of %d periods in %.0f s", t.Throttled, t.Periods, t.Seconds), helps,
		})
	}
	return rows
}

// nextStep describes what to do if no agent runs.
func nextStep(cfg v1alpha1.AgentConfig, config string, left []applied) string {
	step := fmt.Sprintf("berth agent --config %s starts it", config)
	switch {
	case *cfg.Cluster.Enabled:
		step = "it runs as the DaemonSet berth-agent: kubectl -n berth-system get pods -l app.kubernetes.io/name=berth-agent -o wide"
	case cfg.WorkloadDir == "": // the defaults, because there is no file
		step = fmt.Sprintf("write %s (berth agent --print-config prints one), then run berth agent", config)
	}
	if slices.ContainsFunc(left, func(a applied) bool { return a.State == "applied" || a.State == "drift" }) {
		step += fmt.Sprintf("; berth rollback --config %s puts back what is applied", config)
	}
	return step
}

// agentAnswers is how long an agent has to answer a command.
const agentAnswers = 2 * time.Second

// look returns the current view of the agent of stateDir. If no agent is alive or it does not answer, look returns the
// last saved view.
func look(ctx context.Context, stateDir string, alive bool) (*view.View, error) {
	if alive {
		if seen, err := ask(ctx, stateDir); err == nil {
			return seen, nil
		}
	}
	saved, err := checkpoint.Load(stateDir)
	if err != nil {
		return nil, err
	}
	return saved.View(), nil
}

// ask asks the live agent of stateDir for a current view, over its socket.
func ask(ctx context.Context, stateDir string) (*view.View, error) {
	ctx, cancel := context.WithTimeout(ctx, agentAnswers)
	defer cancel()
	text, err := window.View(ctx, stateDir)
	if err != nil {
		return nil, err
	}
	var v view.View
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("view of the agent: %w", err)
	}
	return &v, nil
}

// take copies a view. Without an agent it omits workloads and problems, which are an ended agent's.
func (s *status) take(seen *view.View) {
	s.Agent.Version = seen.Version
	if !seen.At.IsZero() {
		s.Agent.Written = &seen.At
	}
	if s.Agent.Alive {
		s.Workloads = append(s.Workloads, seen.Statuses()...)
		s.Problems = append(s.Problems, seen.Problems...)
		s.asked = seen.Obstacle != ""
		for _, w := range seen.Workloads {
			s.asked = s.asked || asks(w)
			if w.Unmanaged() && w.Throttling.Throttled > 0 {
				s.unmanaged = append(s.unmanaged, w)
			}
		}
	}
}

// asks reports whether a workload asks for anything. A pod that asks for CPUs and gets none has no status.
func asks(w view.Workload) bool {
	return w.Status != nil || w.CPUs != nil && (w.CPUs.Exclusive || w.CPUs.Refused != "")
}

// compare reads the present value of every journal entry of this boot.
func compare(root *hostfs.Root, snapshot journal.Snapshot) ([]applied, error) {
	out := []applied{}
	if len(snapshot.Entries) == 0 {
		return out, nil
	}
	boot, err := kernel.BootID(root)
	if err != nil {
		return out, err
	}
	entries, _ := snapshot.Of(boot)
	host, err := cgroup.Open(root)
	if err != nil {
		return out, fmt.Errorf("find cgroups: %w", err)
	}
	for _, r := range apply.Compare(driver.Kinds(host, nil), entries) {
		e := r.Entry
		out = append(out, applied{
			Group: e.Target.Object, Knob: e.Target.Knob, File: r.File, Original: e.Original, Current: r.Found,
			State: stateOf(r.Outcome), Owner: string(e.Owner),
			Workload: e.Workload, Why: e.Why, Since: e.Since, Writes: e.Writes, shown: inFileOf(r),
		})
	}
	return out, nil
}

// stateOf translates the outcome of a hypothetical restore to a status.
func stateOf(o apply.Outcome) string {
	switch o {
	case apply.OutcomeRestored, apply.OutcomePartly:
		return "applied"
	case apply.OutcomeAlready:
		return "original"
	case apply.OutcomeDrifted:
		return "drift"
	case apply.OutcomeGone:
		return "gone"
	default:
		return "unreadable"
	}
}

// drift returns an error if another program changed a value, or if the journal is damaged.
func (s status) drift() error {
	for _, a := range s.Applied {
		if a.State == "drift" {
			said := fmt.Errorf("%w: %s of %s is %q", ErrDiffers, a.Knob, a.Group, a.Current)
			if a.shown.file != "" {
				said = fmt.Errorf("%w: %s is %q", ErrDiffers, a.shown.file, a.shown.found)
			}
			return errors.Join(said, s.damage)
		}
	}
	return s.damage
}

func (s status) print(w io.Writer) error {
	b := table.PageFor(w)
	if s.Agent.Alive {
		b.Line("agent: running, pid %d, version %s%s", s.Agent.PID, s.Agent.Version, s.views.headline())
	} else {
		b.Line("agent: not running")
		b.Line("next: %s", s.next)
		if s.profile != nil {
			b.Line("tune: %s", s.profile)
		}
	}
	s.views.printNode(b)
	printRows(b, s.views.table(s.Workloads))
	if s.Agent.Alive && s.next != "" {
		b.Line("next: %s", s.next)
	}
	printRows(b, unmanagedRows(s.unmanaged))
	rows := [][]string{{"FILE (VALUE PERIOD)", "ORIGINAL", "NOW", "STATE", "OWNER", "WORKLOAD", "SINCE"}}
	for _, a := range s.Applied {
		rows = append(rows, []string{
			where(a.File, a.Group, a.Knob), string(a.Original), string(a.Current), a.State, a.Owner, a.Workload, a.Since.Format(time.RFC3339),
		})
	}
	printRows(b, rows)
	for i, p := range s.Problems {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.Line("problem: %s", p)
	}
	return writeOutput(w, b.String())
}

// printRows prints a table below a blank line, if it has more than its header.
func printRows(b *table.Page, rows [][]string) {
	if len(rows) > 1 {
		b.WriteByte('\n')
		_ = table.Write(b, rows) // a page accepts everything
	}
}

// where names a value by its file, or by group and knob if the file is gone.
func where(file, group, knob string) string {
	if file != "" {
		return file
	}
	return group + " " + knob
}
