package cli

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// recordedGroups opens a recorded host of package cgroup's tests.
func recordedGroups(t *testing.T, name string) *cgroup.Host {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("..", "linux", "cgroup", "testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if dir, is := strings.CutSuffix(f.Name, "/redis/cpu.cfs_quota_us"); is { // of a kernel without burst
			archive.Files = append(archive.Files, txtar.File{Name: dir + "/redis/cpu.cfs_burst_us", Data: []byte("12345\n")})
		}
	}
	dir := t.TempDir()
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// TestDriftNamesTheFile: a drift is reported with the file that another program wrote and with values in that file's
// format, on both cgroup versions.
func TestDriftNamesTheFile(t *testing.T) {
	for name, test := range map[string]struct {
		host              string
		knob              cgroup.Knob
		original          plan.Value
		file, found, want string
	}{
		"v1 burst": {"v1", cgroup.KnobBurst, "70000 100000", "/cpu.cfs_burst_us", "12345", "70000"},
		"v1 quota": {"v1", cgroup.KnobMax, "77000 100000", "/cpu.cfs_quota_us", "200000", "77000"},
		"v1 none":  {"v1", cgroup.KnobMax, "max 100000", "/cpu.cfs_quota_us", "200000", "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			host := recordedGroups(t, test.host)
			target := cgroupfile.Target("redis", test.knob)
			g, err := host.Group("redis")
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			id, err := g.ID(cgroup.CPU)
			if err != nil {
				t.Fatal(err)
			}
			e := journal.Entry{Target: target, ID: cgroupfile.Identity(id), Original: test.original, Intent: "1000 100000", Previous: test.original}
			all := apply.Compare(driver.Kinds(host, nil), []journal.Entry{e})
			said := outcome(all)
			if said == nil || !strings.Contains(said.Error(), test.file+` is "`+test.found+`"`) || !strings.Contains(said.Error(), `its original is "`+test.want+`"`) {
				t.Errorf("%v", said)
			}
			var b strings.Builder
			if err := printRestored(&b, lineUp(all, true), true); err != nil {
				t.Fatal(err)
			}
			if text := b.String(); !strings.Contains(text, path.Base(test.file)+"  "+test.found+" ") || strings.Contains(text, " 100000") {
				t.Errorf("rollback prints\n%s", text)
			}
			drift := status{Applied: []applied{{State: "drift", shown: inFileOf(all[0])}}}.drift()
			if drift == nil || !strings.Contains(drift.Error(), test.file+` is "`+test.found+`"`) {
				t.Errorf("status says %v", drift)
			}
		})
	}
}
