package knob_test

import (
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/linux/knob"
)

// TestDropIn checks which drop-ins of a unit prevail over the list that Berth gave it. TestHostOfSystemd of
// test/cluster compares the same with systemd.
func TestDropIn(t *testing.T) {
	t.Parallel()
	const (
		cpus, mems = "AllowedCPUs", "AllowedMemoryNodes"
		control    = "/etc/systemd/system.control/db.service.d/"
		edited     = "/etc/systemd/system/db.service.d/override.conf"
		list       = "[Service]\nAllowedCPUs=0-2\n"
	)
	for name, tt := range map[string]struct {
		file, text, property string
		is                   bool
	}{
		"set-property":                   {control + "50-AllowedCPUs.conf", "[Service]\nAllowedCPUs=\nAllowedCPUs=0-2\n", cpus, true},
		"set-property to nothing":        {control + "50-AllowedCPUs.conf", "[Service]\nAllowedCPUs=\n", cpus, true},
		"a file without a list":          {control + "50-AllowedCPUs.conf", "", cpus, true},
		"set-property to the same":       {control + "50-AllowedCPUs.conf", "[Service]\nAllowedCPUs=\nAllowedCPUs=0 1\n", cpus, false},
		"of the other list":              {control + "50-AllowedCPUs.conf", list, mems, false},
		"the other list of set-property": {control + "50-AllowedMemoryNodes.conf", "[Service]\nAllowedMemoryNodes=0\n", cpus, false},
		"memory nodes":                   {control + "50-AllowedMemoryNodes.conf", "[Service]\nAllowedMemoryNodes=0\n", mems, true},
		"of another unit":                {"/etc/systemd/system.control/web.service.d/50-AllowedCPUs.conf", list, cpus, false},
		"until the next boot":            {"/run/systemd/system.control/db.service.d/50-AllowedCPUs.conf", list, cpus, false},
		"systemctl edit":                 {edited, list, cpus, true},
		"with spaces":                    {edited, "[Service]\n AllowedCPUs = 0-2\n", cpus, true},
		"the same, in two lines":         {edited, "[Service]\nAllowedCPUs=1\nAllowedCPUs=0\n", cpus, false},
		"another property":               {edited, "[Service]\nStartupAllowedCPUs=0-2\n#AllowedCPUs=0\n", cpus, false},
		"systemctl edit --runtime":       {"/run/systemd/system/db.service.d/override.conf", list, cpus, true},
		"of a package":                   {"/usr/lib/systemd/system/db.service.d/90-cpus.conf", list, cpus, true},
		"before the list of Berth":       {"/etc/systemd/system/db.service.d/10-cpus.conf", list, cpus, false},
		"of the same name elsewhere":     {"/etc/systemd/system/db.service.d/50-AllowedCPUs.conf", list, cpus, false},
		"no drop-in":                     {edited + ".orig", list, cpus, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := ""
			if tt.is {
				want = tt.file
			}
			host := knob.Open(fstest.MapFS{tt.file[1:]: {Data: []byte(tt.text)}})
			if got := knob.DropIn(host, "db.service", tt.property, "0-1"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
