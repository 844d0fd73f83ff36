package tuner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/linux/knob"
)

// ignored is a nohz_full= that names a CPU which no machine of the tests has: the kernel ignores all of it.
const ignored = "nohz_full=2-3,1000"

// TestLiveBootArguments: a profile asks for the boot arguments that the running kernel was booted with by hand. The
// plan shows that they stand, an apply writes nothing, and verify compares the kernel's own statement: an argument that
// the kernel ignored is not in effect. Other arguments need a reboot. TestBootArguments of test/kernel boots kernels
// with such arguments; any other kernel has none to compare.
func TestLiveBootArguments(t *testing.T) {
	inGuest(t)
	h := hostOf(t, "/", filepath.Join(t.TempDir(), "tune"))
	tree := h.Root.FS()
	line, err := os.ReadFile("/proc/cmdline")
	must(t, err)
	var want []string
	for _, token := range bootargs.Tokens(string(line)) {
		if strings.HasPrefix(token, "nohz_full=") || strings.HasPrefix(token, "isolcpus=") {
			want = append(want, token)
		}
	}
	if len(want) == 0 {
		return
	}
	planned := func(args ...string) []tune.Setting {
		facts := knob.Open(tree).Facts()
		files, err := bootargs.Make(tree, args)
		p := tune.Make(profile.Bound{Name: "test", Boot: args}, tune.Host{Boot: tune.Boot{Want: args, Cmdline: facts.Cmdline, Files: &files, Err: err}}, nil)
		return p.Settings
	}
	for _, row := range planned(want...) {
		if !row.Stands() || row.Reboot || row.Support != knob.Settable || !strings.Contains(row.Why, "by hand") {
			t.Errorf("planned: %+v", row)
		}
	}
	for _, row := range planned("nohz_full=1", "skew_tick=1") {
		if row.Stands() || !row.Reboot || row.Support != knob.Absent || row.Instance == "nohz_full" && !strings.HasPrefix(row.Now, "nohz_full=2-3") {
			t.Errorf("other arguments: %+v", row)
		}
	}
	u := unlocked(t, h)
	if r, err := u.Apply(tuner.Order{Boot: want}); err != nil || r.Writes > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	a, is := u.Applied()
	rows := a.Verify(tree, h.Kernel, nil)
	if !is || len(rows) != len(want) {
		t.Errorf("on record: %v, verified: %+v", is, rows)
	}
	for _, row := range rows {
		state := tune.OK
		if row.Want == ignored {
			state = tune.Ignored
		}
		if row.State != state || state == tune.OK && row.Effective != row.Want {
			t.Errorf("verified: %+v", row)
		}
	}
	u.Rollback()
	must(t, u.Close())
}
