package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/berth-project/berth/internal/proof/bench"
)

// resolveSchedule returns the options that flags of bench schedule lead to.
func resolveSchedule(t *testing.T, args ...string) (o bench.ScheduleOptions, err error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "berth-scheduler", "benchschedule"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := &benchScheduleFlags{}
	flags := pflag.NewFlagSet("schedule", pflag.ContinueOnError)
	f.define(flags)
	if err := flags.Parse(append(args, "--programs="+dir)); err != nil {
		t.Fatal(err)
	}
	return f.resolve()
}

func TestScheduleSideBySide(t *testing.T) {
	plain, err := resolveSchedule(t)
	if err != nil || plain.SideBySide || plain.Repetitions != 5 || !slices.Equal(plain.Arms, bench.ScheduleArms()) {
		t.Errorf("without flags: %+v, %v", plain, err)
	}
	both, err := resolveSchedule(t, "--side-by-side")
	if err != nil || !both.SideBySide || both.Repetitions != 4 || both.Pods != 10_000 || slices.Contains(both.Arms, bench.SchedulePinned) {
		t.Errorf("side by side: %+v, %v", both, err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--side-by-side", "--arms=without Berth,Berth pinned"}, `--arms "Berth pinned": not with --side-by-side; allowed: without Berth, Berth ordinary, Berth beside a hiding pod, Berth with LS labels`},
		{[]string{"--side-by-side", "--arms=Berth ordinary"}, "--arms Berth ordinary: without Berth is missing"},
		{[]string{"--side-by-side", "--nodes=100", "--pods=1601"}, "--pods 1601: allowed: 10..1600 on 100 nodes"},
		{[]string{"--nodes=100", "--pods=3201"}, "--pods 3201: allowed: 10..3200 on 100 nodes"},
	} {
		_, err := resolveSchedule(t, c.args...)
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.args, err, c.says)
		}
	}
	for _, args := range [][]string{{"--nodes=100", "--pods=1600", "--side-by-side"}, {"--nodes=100", "--pods=3200"}} {
		if _, err := resolveSchedule(t, args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}
