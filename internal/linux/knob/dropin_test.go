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
		"it adds nothing":                {edited, "[Service]\nAllowedCPUs=1\n", cpus, false},
		"it adds a CPU":                  {edited, "[Service]\nAllowedCPUs=3\n", cpus, true},
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

// TestDropIns checks what several drop-ins make of the list 0-1 together.
func TestDropIns(t *testing.T) {
	t.Parallel()
	const (
		etc    = "/etc/systemd/system/db.service.d/"
		run    = "/run/systemd/system/db.service.d/"
		lib    = "/usr/lib/systemd/system/db.service.d/"
		keeps  = "[Service]\nAllowedCPUs=\nAllowedCPUs=0-1\n"
		others = "[Service]\nAllowedCPUs=\nAllowedCPUs=2\n"
	)
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a later file has the list again":       {map[string]string{etc + "60-a.conf": others, run + "70-b.conf": keeps}, ""},
		"a later file has another list":         {map[string]string{run + "60-a.conf": keeps, lib + "70-b.conf": others}, lib + "70-b.conf"},
		"a file of that name hides it":          {map[string]string{etc + "90-cpus.conf": "[Service]\nNice=1\n", lib + "90-cpus.conf": others}, ""},
		"an empty file hides it":                {map[string]string{run + "90-cpus.conf": "", lib + "90-cpus.conf": others}, ""},
		"a lower file of that name":             {map[string]string{etc + "90-cpus.conf": others, lib + "90-cpus.conf": keeps}, etc + "90-cpus.conf"},
		"before and after":                      {map[string]string{etc + "10-a.conf": others, etc + "60-b.conf": "[Service]\nAllowedCPUs=1\n"}, ""},
		"set-property, and the list once more":  {map[string]string{persistently: others, etc + "60-a.conf": keeps}, ""},
		"set-property adds to an earlier file":  {map[string]string{persistently: "[Service]\nAllowedCPUs=1\n", etc + "10-a.conf": "[Service]\nAllowedCPUs=0\n"}, ""},
		"set-property lacks a CPU of this list": {map[string]string{persistently: "[Service]\nAllowedCPUs=1\n"}, persistently},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := fstest.MapFS{}
			for file, text := range tt.files {
				tree[file[1:]] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := knob.DropIn(knob.Open(tree), "db.service", "AllowedCPUs", "0-1"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

const persistently = "/etc/systemd/system.control/db.service.d/50-AllowedCPUs.conf"
