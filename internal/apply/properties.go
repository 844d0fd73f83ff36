package apply

import (
	"fmt"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/journal"
)

// Properties are what systemd itself has on record for the groups of its units and
// writes again at every daemon-reload. A container runtime with the systemd driver puts
// its answers there, too.
type Properties interface {
	// Property returns the value on record for a knob of a group. It says false where
	// there is none, or none that a container runtime puts there.
	Property(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error)
	// SetProperty replaces it until the next boot. systemd writes a quota to the file at
	// once, rounded to what it can keep.
	SetProperty(group string, k cgroup.Knob, v cgroup.Value) error
}

// settleUnits takes Berth's values out of systemd's records. It comes after the files,
// and before their entries are forgotten: what a crash leaves undone is done again.
func (a *Applier) settleUnits(list []Restored) {
	if a.properties == nil {
		return
	}
	for i, r := range list {
		if r.Outcome != OutcomeRestored && r.Outcome != OutcomeAlready {
			continue
		}
		if err := a.settleUnit(r.Entry); err != nil {
			list[i] = r.failed(fmt.Errorf("take it back from systemd: %w", err))
		}
	}
}

// settleUnit puts the original on record where a value of Berth's own is, and the file
// right if systemd wrote another one then.
func (a *Applier) settleUnit(e journal.Entry) error {
	t := e.Target
	has, recorded, err := a.properties.Property(t.Group, t.Knob)
	if err == nil && recorded && isLeftOnRecord(e, has) {
		err = a.properties.SetProperty(t.Group, t.Knob, e.Original)
	} else if err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	groups := a.open() // anew: systemd may have switched the controller, and its files with it
	defer groups.close()
	g, err := groups.get(t.Group)
	if err != nil {
		return err
	}
	stands, err := read(g, t.Knob, t.Group)
	if err != nil || stands == cgroup.Inherit || e.IsOriginal(stands) || attainable(g, e).IsOriginal(stands) {
		return err
	}
	_, _, err = a.write(g, wayBack(e, stands), StepRestored, StepRestoreVerified)
	return err
}

// isLeftOnRecord says that systemd has a value of Berth's own on record. Without a quota
// it knows no period either.
func isLeftOnRecord(e journal.Entry, v cgroup.Value) bool {
	n, _, err := v.Pair()
	if _, period, bad := e.Original.Pair(); err == nil && bad == nil && n < 0 {
		v = cgroup.MaxValue(n, period)
	}
	return e.IsOurs(v) && !e.IsOriginal(v)
}
