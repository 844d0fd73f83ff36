package cgroup_test

import (
	"errors"
	"syscall"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// idle checks the kernel behavior on which the precedence knob relies. An idle group forgets its weight, accepts none,
// and has the default weight when it stops being idle.
func (l *live) idle() {
	support, err := l.host.Probe(cgroup.KnobPrecedence)
	l.must(err)
	if support != kernel.Supported {
		l.Fatalf("cpu.idle is %s; Linux has it since 5.15", support)
	}
	low, middle, normal := cgroup.SharesValue(2), cgroup.SharesValue(700), cgroup.SharesValue(1024)
	if l.version == 2 {
		low, middle, normal = cgroup.WeightValue(1), cgroup.WeightValue(70), cgroup.DefaultWeight
	}
	stands := func(what string, want cgroup.Value) {
		l.Helper()
		if got := l.read(l.group, cgroup.KnobPrecedence); got != want {
			l.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	stands("a new group", normal)
	for _, v := range []cgroup.Value{middle, low} {
		l.must(put(l.group, cgroup.KnobPrecedence, v))
		stands("a weight", v)
		l.must(put(l.group, cgroup.KnobPrecedence, cgroup.Idle))
		stands("idle", cgroup.Idle)
		l.must(put(l.group, cgroup.KnobPrecedence, cgroup.Idle))
		stands("idle twice", cgroup.Idle)
		dir, err := l.group.Handle().Dir(cgroup.CPU)
		l.must(err)
		file := map[int]string{1: "cpu.shares", 2: "cpu.weight"}[l.version]
		l.want("a weight of an idle group", hostwrite.Existing(dir, file, "500"), syscall.EINVAL)
		stands("and after that", cgroup.Idle)
		l.must(put(l.group, cgroup.KnobPrecedence, v))
		stands("between the two writes", normal)
		if !cgroup.LeftByIdle(normal) {
			l.Errorf("%q is not known as what idle leaves", normal)
		}
		l.must(put(l.group, cgroup.KnobPrecedence, v))
		stands("after the second", v)
	}
	if err := put(l.group, cgroup.KnobIdentity, "-1"); err == nil || errors.Is(err, cgroup.ErrMalformed) {
		l.Errorf("a kernel without Group Identity: %v", err)
	}
}
