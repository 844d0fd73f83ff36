package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/berth-project/berth/internal/linux/process"
)

// The arms of bench schedule. All run the same program with the same flags.
const (
	ScheduleOff      = "without Berth"
	ScheduleOrdinary = "Berth ordinary"
	// ScheduleHiding has one bound pod with more exclusive CPUs than it requests, and ordinary pods.
	ScheduleHiding = "Berth beside a hiding pod"
	// ScheduleLabelled has ordinary pods with a label that Berth reads.
	ScheduleLabelled = "Berth with LS labels"
	SchedulePinned   = "Berth pinned"
	// ScheduleAgain runs only beside ScheduleOff, which it equals. Their ratio shows the noise of the others.
	ScheduleAgain = "without Berth again"
)

// ScheduleArms lists the arms of bench schedule in the order of its table.
func ScheduleArms() []string {
	return []string{ScheduleOff, ScheduleOrdinary, ScheduleHiding, ScheduleLabelled, SchedulePinned}
}

// SideBySideArms lists the arms that can be chosen to run side by side.
func SideBySideArms() []string {
	return []string{ScheduleOff, ScheduleOrdinary, ScheduleHiding, ScheduleLabelled}
}

// ScheduleOptions configures bench schedule. The program that measures reads the options as JSON from its standard
// input. As many repetitions as arms have each arm once at each place of the order.
type ScheduleOptions struct {
	Options

	Programs SchedulePrograms
	// Nodes are the sizes of the clusters; each node has 256 CPUs.
	Nodes []int
	// Percentages are values of percentageOfNodesToScore; 0 lets kube-scheduler choose by the size of the cluster.
	Percentages []int
	// Pods is the number of pods of one scheduler in one run, with 4 CPUs each.
	Pods int
	// Arms are the arms to run, with ScheduleOff; empty means all.
	Arms []string
	// SideBySide runs each other arm, and ScheduleAgain, at the same time as ScheduleOff, each with its own pods.
	SideBySide bool
}

// SchedulePrograms are the programs that bench schedule starts.
type SchedulePrograms struct {
	Etcd, APIServer string
	// Scheduler is berth-scheduler, which runs in every arm.
	Scheduler string
	// Measure is benchschedule, which starts the other programs and measures.
	Measure string
}

// FindPrograms searches the directories for each program, in their order.
func FindPrograms(dirs ...string) (SchedulePrograms, error) {
	var p SchedulePrograms
	for _, program := range []struct {
		name string
		path *string
	}{
		{"etcd", &p.Etcd}, {"kube-apiserver", &p.APIServer}, {"berth-scheduler", &p.Scheduler}, {"benchschedule", &p.Measure},
	} {
		for _, dir := range dirs {
			// Absolute, because each program starts in another directory.
			file, err := filepath.Abs(filepath.Join(dir, program.name))
			if err != nil {
				return p, fmt.Errorf("%s in %s: %w", program.name, dir, err)
			}
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && *program.path == "" {
				*program.path = file
			}
		}
		if *program.path == "" {
			return p, fmt.Errorf("%s: %w in %q", program.name, os.ErrNotExist, dirs)
		}
	}
	return p, nil
}

// ScheduleMessage is one line of JSON that benchschedule writes to its standard output: its current step or, in the
// last line, the outcome.
type ScheduleMessage struct {
	Progress string `json:"progress,omitempty"`
	// Report is the result, and Table the result for people; both are empty without a result.
	Report json.RawMessage `json:"report,omitempty"`
	Table  string          `json:"table,omitempty"`
	// Error describes a failure. Denied is true if a permission was missing.
	Error  string `json:"error,omitempty"`
	Denied bool   `json:"denied,omitempty"`
}

// ScheduleReport is the result of bench schedule. Its JSON is a stable contract, which benchschedule writes.
type ScheduleReport struct {
	report json.RawMessage
	table  string
}

// MarshalJSON returns the report as benchschedule wrote it.
func (r *ScheduleReport) MarshalJSON() ([]byte, error) { return r.report, nil }

// WriteScheduleTable prints a schedule report for people.
func WriteScheduleTable(w io.Writer, r *ScheduleReport) error {
	if _, err := io.WriteString(w, r.table); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// RunSchedule makes benchschedule measure every size of cluster with every percentage, and waits for its end. When ctx
// ends, RunSchedule asks benchschedule to end. That is an error, like a failed run; the report then has the finished
// results, and is nil without any.
func RunSchedule(ctx context.Context, o ScheduleOptions) (*ScheduleReport, error) {
	options, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("options of benchschedule: %w", err)
	}
	said, complaint := &scheduleOutput{progress: o.Progress}, &tail{}
	cmd := exec.Command(o.Programs.Measure) // Not CommandContext: SIGTERM ends it in order.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(options), said, complaint
	child, err := process.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChild, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Signal(syscall.SIGTERM) }) // It may have ended.
	end := child.Wait()
	stop()
	if err := said.outcome.failure(end, complaint); err != nil {
		return said.outcome.result(), errors.Join(ctx.Err(), err)
	}
	return said.outcome.result(), nil
}

// result returns the report, nil without one.
func (m ScheduleMessage) result() *ScheduleReport {
	if m.Report == nil {
		return nil
	}
	return &ScheduleReport{report: m.Report, table: m.Table}
}

// failure returns the program's own error, or else how it ended.
func (m ScheduleMessage) failure(end error, complaint *tail) error {
	switch {
	case m.Error != "":
		return &scheduleError{text: m.Error, denied: m.Denied}
	case end != nil:
		return fmt.Errorf("%w: benchschedule: %w: %s", ErrChild, end, complaint)
	case m.Report == nil:
		return fmt.Errorf("%w: benchschedule said nothing: %s", ErrChild, complaint)
	}
	return nil
}

// scheduleError is an error in benchschedule's words.
type scheduleError struct {
	text   string
	denied bool
}

func (e *scheduleError) Error() string { return e.text }

// Is reports whether the error is of a class.
func (e *scheduleError) Is(class error) bool {
	return class == ErrChild || e.denied && class == fs.ErrPermission
}

// scheduleOutput reads the messages of benchschedule.
type scheduleOutput struct {
	progress func(string)
	line     []byte
	outcome  ScheduleMessage
}

// Write fails at a line that is not a message.
func (s *scheduleOutput) Write(p []byte) (int, error) {
	s.line = append(s.line, p...)
	for {
		line, rest, whole := bytes.Cut(s.line, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		s.line = rest
		var m ScheduleMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return 0, fmt.Errorf("message %.100q: %w", line, err)
		}
		if m.Progress == "" {
			s.outcome = m
		} else if s.progress != nil {
			s.progress(m.Progress)
		}
	}
}
