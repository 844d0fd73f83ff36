package bootargs_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestLiveInForce checks, for each argument of the running kernel, that the kernel's own statement is used.
// TestBootArguments of test/kernel boots a kernel with isolcpus=, and with a nohz_full= that it ignores.
func TestLiveInForce(t *testing.T) {
	root := os.DirFS("/")
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range bootargs.Tokens(string(cmdline)) {
		have, _ := bootargs.InForce(root, token)
		if name, _, _ := strings.Cut(token, "="); !strings.HasPrefix(have, name) {
			t.Errorf("%s is %q", token, have)
		}
		if token == "nohz_full=2-3,1000" && have != "nohz_full=" {
			t.Errorf("%s is %q, and the kernel ignores it", token, have)
		}
		if cpus, is := strings.CutPrefix(token, "isolcpus=managed_irq,domain,"); is {
			isolated(t, cpus)
			if have != token {
				t.Errorf("%s is %q", token, have)
			}
		}
	}
	if have, booted := bootargs.InForce(root, "nohz_full=1"); booted || have == "nohz_full=1" {
		t.Errorf("nohz_full=1 is %q, %v", have, booted)
	}
}

// isolated checks that the scheduler starts no program on these CPUs.
func isolated(t *testing.T, list string) {
	t.Helper()
	cpus, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	for cpu := range cpus.All() {
		if mine.IsSet(cpu) {
			t.Errorf("CPU %d is not isolated", cpu)
		}
	}
}
