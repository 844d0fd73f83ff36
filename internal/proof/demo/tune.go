package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
)

// The knob of the part tune: how often the kernel folds its per-CPU counters of memory, in seconds. Any value is
// harmless, and the undo is exact.
const (
	tunedFile = "/proc/sys/vm/stat_interval"
	tunedKnob = "sysctl.vm.stat_interval"
)

// tune plans a built-in profile, and applies, verifies and undoes one of its own.
type tune struct {
	Options

	tuning *bench.Tuning
	proof  proof
}

func (p *tune) lacks() string { return p.Profile }

func (p *tune) show(ctx context.Context, r *Report) (lacks string, err error) {
	if p.tuning, err = bench.OpenTuning(); err != nil {
		return "", err
	}
	p.proof.host = p.Home.Place.Host
	if err := p.proof.watchFile(tunedFile); err != nil || len(p.proof.files) == 0 {
		return "this kernel has no " + tunedFile, err
	}
	want := "10"
	if p.proof.files[0].Before == want {
		want = "5"
	}
	profile, err := p.tuning.Write("demo", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: demo}\nspec:\n  settings: {"+tunedKnob+": "+want+"}\n")
	if err != nil {
		return "", err
	}
	table := Part{Capability: "tune", Header: []string{"KNOB", "BEFORE", "APPLIED", "BERTH TUNE VERIFY"}}
	p.Progress("tune: plan of the profile balanced")
	if table.Title, err = p.plan(ctx); err != nil {
		return "", err
	}
	p.Progress("tune: apply and verify")
	if err := p.tuning.Apply(ctx, profile, time.Minute); err != nil {
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
	err = p.back()
	r.Files = append(r.Files, p.proof.changed()...)
	return "", err
}

// plan says what the profile balanced would do.
func (p *tune) plan(ctx context.Context) (string, error) {
	said, err := p.tuning.Plan(ctx, "balanced")
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
	said, err := p.tuning.Verify(ctx)
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
func (p *tune) back() error {
	if err := p.tuning.Undo(); err != nil {
		return err
	}
	return p.proof.after()
}

// close rolls back what an interrupt left, also when the context has ended.
func (p *tune) close() error {
	if p.tuning == nil {
		return nil
	}
	return p.tuning.Close()
}
