package main

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
)

// TestLook checks that only processes of arms are found, by their groups in any hierarchy.
func TestLook(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	proc := fstest.MapFS{
		"1/cgroup": file("0::/berth-bench-victim-idle-1\n"), "1/task/1/comm": file("init"), "self/cgroup": file(""), "uptime": file(""),
	}
	g, err := newGroups(proc)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"20/cgroup": "0::/user.slice/berth-bench.scope\n", "20/task/20/comm": "berth",
		"21/cgroup": "4:cpu,cpuacct:/berth-bench-victim-idle-with-reserve-20\n1:name=systemd:/\n", "21/task/21/comm": "exe", "21/task/25/comm": "exe",
		"22/cgroup": "0::/berth-bench.scope/berth-bench-hogs-idle-with-reserve-20\n", "22/task/22/comm": "exe",
		"23/cgroup": "0::/berth-bench-calibrate-20\n", "23/task/23/comm": "exe",
		"24/cgroup": "0::/berth-bench-victim-alone-20\n", // Its threads are gone.
		"26/stat":   "",                                  // It is gone.
	} {
		proc[name] = file(text)
	}
	got, err := g.look()
	if err != nil {
		t.Fatal(err)
	}
	want := []side{{"idle with reserve", server, "21", []int{21, 25}}, {"idle with reserve", hog, "22", []int{22}}}
	if !slices.EqualFunc(got, want, func(a, b side) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("%v, want %v", got, want)
	}
}
