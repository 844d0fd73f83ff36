package tuner_test

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
)

// TestListThatAnotherFileOverrules: what an apply, a commit and a verification say of a list names the file that
// gives the unit another list after a daemon-reload. The list itself is set, and is no drift before that.
func TestListThatAnotherFileOverrules(t *testing.T) {
	r, o, _ := newRegistry(t)
	r.start()
	r.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
	said := func() []string {
		a, _, err := tuner.Load(r.state)
		must(t, err)
		for _, row := range a.Verify(r.root.FS(), tuner.Kernel{}, nil) {
			if row.Differs() && row.Instance == "db.service" {
				t.Error(row)
			}
		}
		return a.Ahead(r.root.FS())
	}
	if got := said(); len(got) > 0 {
		t.Errorf("without such a file: %q", got)
	}
	r.write("/etc/systemd/system.control/db.service.d/50-AllowedCPUs.conf", "[Service]\nAllowedCPUs=\nAllowedCPUs=0-2\n")
	r.write("/etc/systemd/system/db.service.d/override.conf", "[Service]\nAllowedMemoryNodes=0\n")
	want := []string{
		"unit.cpus db.service: /etc/systemd/system.control/db.service.d/50-AllowedCPUs.conf has another AllowedCPUs=, which the unit gets after a daemon-reload, at its next start at the latest: remove it there, or the list from the profile",
		"unit.mems db.service: /etc/systemd/system/db.service.d/override.conf has another AllowedMemoryNodes=, which the unit gets after a daemon-reload, at its next start at the latest: remove it there, or the list from the profile",
	}
	if got := said(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	r.write("/etc/systemd/system.control/db.service.d/50-AllowedCPUs.conf", "[Service]\nAllowedCPUs=\nAllowedCPUs=1\n")
	if got := said(); !slices.Equal(got, want[1:]) {
		t.Errorf("with the same list: %q", got)
	}
	r.reboot("two", nil) // the unit does not run, and starts with the other list
	r.do(func(u *tuner.Tuner) {
		o.Again = true
		if _, err := u.Apply(stops(o)); err != nil {
			t.Error(err)
		}
	})
	if got := said(); !slices.Equal(got, want[1:]) {
		t.Errorf("stopped: %q", got)
	}
}
