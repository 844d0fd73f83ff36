package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-project/berth/internal/proof/bench"
)

// The knob of the part tune: how often the kernel folds its per-CPU counters of memory, in seconds. Any value is
// harmless, and the undo is exact.
const (
	tunedFile = "/proc/sys/vm/stat_interval"
	tunedKnob = "sysctl.vm.stat_interval"
)

// tunePrefix, followed by the owner's process id, begins the names of the temporary directories of this part.
const tunePrefix = "berth-demo-tune-"

// tune plans a built-in profile, and applies, verifies and undoes one of its own.
type tune struct {
	Options

	dir   string
	proof proof
}

func (p *tune) lacks() string { return p.Profile }

func (p *tune) show(ctx context.Context, r *Report) (lacks string, err error) {
	if p.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", tunePrefix, os.Getpid())); err != nil {
		return "", fmt.Errorf("files of the demo: %w", err)
	}
	p.proof.host = p.Home.Place.Host
	if err := p.proof.watchFile(tunedFile); err != nil || len(p.proof.files) == 0 {
		return "this kernel has no " + tunedFile, err
	}
	want := "10"
	if p.proof.files[0].Before == want {
		want = "5"
	}
	profile := "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: demo}\nspec:\n  settings: {" + tunedKnob + ": " + want + "}\n"
	config := "workloadDir: " + p.dir + "\nstateDir: " + filepath.Join(p.dir, "state") + "\n"
	err = errors.Join(os.WriteFile(p.config(), []byte(config), 0o600), os.WriteFile(filepath.Join(p.dir, "demo.yaml"), []byte(profile), 0o600))
	if err != nil {
		return "", fmt.Errorf("files of the demo: %w", err)
	}
	table := Part{Capability: "tune", Header: []string{"KNOB", "BEFORE", "APPLIED", "BERTH TUNE VERIFY"}}
	p.Progress("tune: plan of the profile balanced")
	if table.Title, err = plan(ctx); err != nil {
		return "", err
	}
	p.Progress("tune: apply and verify")
	if _, err := bench.Command(ctx, "tune", "apply", filepath.Join(p.dir, "demo.yaml"), "--config", p.config(), "--confirm", "1m"); err != nil {
		return fmt.Sprintf("%s cannot be written here: %v", tunedFile, err), nil
	}
	if err := p.proof.during(); err != nil {
		return "", err
	}
	verified, err := p.verify(ctx)
	if err != nil {
		return "", err
	}
	table.Rows = [][]string{{tunedKnob, p.proof.files[0].Before, p.proof.files[0].During, verified}}
	r.Parts = append(r.Parts, table)
	err = p.back(ctx)
	r.Files = append(r.Files, p.proof.changed()...)
	return "", err
}

func (p *tune) config() string { return filepath.Join(p.dir, "agent.yaml") }

// plan says what the profile balanced would do.
func plan(ctx context.Context) (string, error) {
	said, err := bench.Command(ctx, "tune", "plan", "balanced", "-o", "json")
	if err != nil {
		return "", err
	}
	var planned struct {
		Settings []struct{ Now, Want, Support string }
	}
	if err := json.Unmarshal([]byte(said), &planned); err != nil {
		return "", fmt.Errorf("berth tune plan: %w", err)
	}
	stands, changes := 0, 0
	for _, s := range planned.Settings {
		switch {
		case s.Support != "settable":
		case s.Now == s.Want:
			stands++
		default:
			changes++
		}
	}
	n := len(planned.Settings)
	return fmt.Sprintf("of %d settings of the profile balanced %d stand, %d would change, %d cannot be set here; a profile of one setting, applied:",
		n, stands, changes, n-stands-changes), nil
}

// verify returns the state of the setting.
func (p *tune) verify(ctx context.Context) (string, error) {
	said, err := bench.Command(ctx, "tune", "verify", "--config", p.config(), "-o", "json")
	if err != nil {
		return "", err
	}
	var verified struct{ Settings []struct{ State string } }
	if err := json.Unmarshal([]byte(said), &verified); err != nil || len(verified.Settings) != 1 {
		return "", fmt.Errorf("berth tune verify: %w: %s", err, said)
	}
	return verified.Settings[0].State, nil
}

// back rolls the profile back and reads the file.
func (p *tune) back(ctx context.Context) error {
	if _, err := bench.Command(ctx, "tune", "rollback", "--config", p.config()); err != nil {
		return err
	}
	return p.proof.after()
}

// close rolls back what an interrupt left, also when the context has ended.
func (p *tune) close() error {
	if p.dir == "" {
		return nil
	}
	return sweepTune(p.dir)
}

// sweepTune rolls back the profile of a demonstration, and removes its files.
func sweepTune(dir string) error {
	config := filepath.Join(dir, "agent.yaml")
	if _, err := os.Stat(config); err == nil {
		if _, err := bench.Command(context.Background(), "tune", "rollback", "--config", config); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
