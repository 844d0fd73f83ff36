package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// tuningPrefix, followed by the owner's process id, begins the names of the directories of Tunings.
const tuningPrefix = "berth-tuning-"

// ErrNotUndone reports a host profile that a benchmark applied and could not undo completely.
var ErrNotUndone = errors.New("the host is not as before")

// Tuning applies host profiles for a while, with a state directory of its own. All work is that of berth tune, whose
// deadline undoes a profile also if this process is killed. A Tuning is for one goroutine. The caller must close it.
type Tuning struct{ dir string }

// OpenTuning makes the state directory below the temporary directory.
func OpenTuning() (*Tuning, error) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", tuningPrefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("files of host profiles: %w", err)
	}
	t := &Tuning{dir}
	config := "workloadDir: " + dir + "\nstateDir: " + filepath.Join(dir, "state") + "\n"
	if err := os.WriteFile(t.config(), []byte(config), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("files of host profiles: %w", err), t.Close())
	}
	return t, nil
}

func (t *Tuning) config() string { return filepath.Join(t.dir, "agent.yaml") }

// WayBack returns the command with which a user undoes the profile after this process was killed.
func (t *Tuning) WayBack() string { return "berth tune rollback --config " + t.config() }

// Write writes a profile, and returns the path by which Plan and Apply know it.
func (t *Tuning) Write(name, text string) (string, error) {
	file := filepath.Join(t.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("files of host profiles: %w", err)
	}
	return file, nil
}

// Plan returns the plan of a profile as JSON (berth tune plan).
func (t *Tuning) Plan(ctx context.Context, profile string) (string, error) {
	return Command(ctx, "tune", "plan", profile, "-o", "json")
}

// Apply applies a profile, which the deadline undoes after the time of confirm, at least a second. After an error
// nothing is applied, unless ctx ended; Undo is then the way back. Where the host lacks a setting or a right, or another
// program sets the same, the error matches ErrMissing.
func (t *Tuning) Apply(ctx context.Context, profile string, confirm time.Duration) error {
	_, err := Command(ctx, "tune", "apply", profile, "--config", t.config(), "--confirm", confirm.String())
	var exit *exec.ExitError
	if errors.As(err, &exit) && slices.Contains(refusals(), exit.ExitCode()) {
		return fmt.Errorf("%w what this profile needs: %w", ErrMissing, err)
	}
	return err
}

// refusals are the exit codes of Berth for a host that cannot have what a command wants: 3 is a host that lacks something,
// 4 a host with values of other programs.
func refusals() []int { return []int{3, 4} }

// Verify returns the comparison of the host with the applied profile as JSON (berth tune verify). A host that differs,
// or that has no profile any more, is an error.
func (t *Tuning) Verify(ctx context.Context) (string, error) {
	return Command(ctx, "tune", "verify", "--config", t.config(), "-o", "json")
}

// Undo puts every original back. It has no context: an interrupted run needs it most. Without an applied profile it does
// nothing. After an error, Close tries again.
func (t *Tuning) Undo() error {
	_, err := Command(context.Background(), "tune", "rollback", "--config", t.config())
	return err
}

// Close undoes what is applied and removes the directory. If something cannot be undone, the directory with the originals
// stays, and the error matches ErrNotUndone. Close can be called twice.
func (t *Tuning) Close() error {
	if _, err := os.Stat(t.config()); err == nil {
		if err := t.Undo(); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrNotUndone, t.WayBack(), err)
		}
	}
	if err := os.RemoveAll(t.dir); err != nil {
		return fmt.Errorf("files of host profiles: %w", err)
	}
	return nil
}

// SweepTunings undoes what killed runs left applied, and removes their directories.
func SweepTunings() error {
	return Sweep(tuningPrefix, func(dir string) error { return (&Tuning{dir}).Close() })
}
