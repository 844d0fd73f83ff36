package knob_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
)

// running returns the files of the running kernel.
func running(t *testing.T) *hostfs.Root {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("debugfs needs root; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// TestLiveProbe checks Probe against the kernel: root can open settable files for writing, and absent files do not
// exist. The test writes nothing.
func TestLiveProbe(t *testing.T) {
	host := knob.Open(running(t).FS())
	settable := 0
	for _, k := range knob.Catalogue() {
		for _, f := range host.Probe(k) {
			t.Logf("%s %s: %s %q %s %s", k.Name, f.Instance, f.Support, f.Now, f.File, f.Why)
			switch f.Support {
			case knob.Settable:
				settable++
				file, err := os.OpenFile(f.File, os.O_WRONLY, 0)
				if err != nil {
					t.Errorf("%s: %v", k.Name, err)
					continue
				}
				_ = file.Close()
			case knob.Absent:
				for _, p := range k.Places {
					if unix.Access(p.File, unix.F_OK) == nil {
						t.Errorf("%s: %s is there", k.Name, p.File)
					}
				}
			case knob.ReadOnly, knob.Unknown:
				if f.Why == "" {
					t.Errorf("%s: no reason for %s", k.Name, f.Support)
				}
			}
		}
	}
	if settable == 0 {
		t.Error("no knob can be set on this kernel")
	}
	lockedDown(t, host)
}

// lockedDown checks that a locked-down kernel denies root the files of debugfs, and shows the slice elsewhere.
func lockedDown(t *testing.T, host *knob.Host) {
	t.Helper()
	modes, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil || !strings.Contains(string(modes), "[integrity]") {
		return
	}
	slice, _ := knob.Lookup("fair.slice")
	if f := host.Probe(slice)[0]; f.Support != knob.ReadOnly || f.Now == "" || !strings.Contains(f.Why, "lockdown") {
		t.Errorf("%+v, want read-only, with a value", f)
	}
	if host.Lockdown != "integrity" {
		t.Errorf("lockdown is %q", host.Lockdown)
	}
}

// TestLiveRecord checks that the recording of the running kernel gives the same answers as the kernel.
func TestLiveRecord(t *testing.T) {
	tree := running(t).FS()
	recorded := fstest.MapFS{}
	for file, content := range knob.Record(tree) {
		recorded[file] = &fstest.MapFile{Data: content}
	}
	want, got := knob.Open(tree).Survey(knob.Names()), knob.Open(recorded).Survey(knob.Names())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-kernel +recorded):\n%s", diff)
	}
}
