package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/test/cluster/vmnode"
)

// machine checks that Berth reports the machine that QEMU was configured to emulate.
func (s *second) machine(t *testing.T) {
	got := s.sh(t, "berth topology")
	head, _, _ := strings.Cut(got, "\n")
	for _, want := range []string{"20 CPUs", "10 cores", "2 threads a core", "2 sockets", "2 NUMA nodes"} {
		if !strings.Contains(head, want) {
			t.Errorf("no %q in %q", want, head)
		}
	}
	if got := s.sh(t, "cat /sys/devices/system/node/node*/distance"); got != "10 21\n21 10" {
		t.Errorf("distances %q", got)
	}
	if got := s.sh(t, "stat -fc %T /sys/fs/cgroup"); got != "cgroup2fs" {
		t.Errorf("/sys/fs/cgroup is %s, want cgroup v2", got)
	}
}

// commands checks commands that fail, time out or run concurrently.
func (s *second) commands(t *testing.T) {
	if _, err := s.node.Run(t.Context(), "echo no >&2; exit 7"); !errors.Is(err, vmnode.ErrCommand) || !strings.Contains(err.Error(), "7") || !strings.Contains(err.Error(), ": no") {
		t.Errorf("a failing script: %v", err)
	}
	if _, err := s.node.Exec(t.Context(), vmnode.Command{Argv: []string{"nothing-like-it"}}); !errors.Is(err, vmnode.ErrCommand) {
		t.Errorf("no such program: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := s.node.Run(short, "sleep 54321"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a script that was given up: %v", err)
	}
	s.eventually(t, "a script ends that was given up", func() string {
		if n := s.sh(t, "pgrep -cx -f 'sleep 54321' || true"); n != "0" {
			return n + " go on"
		}
		return ""
	})
	large := strings.Repeat("0123456789abcdef", 1<<16)
	got, err := s.node.Exec(t.Context(), vmnode.Command{Argv: []string{"cat"}, Stdin: []byte(large)})
	if err != nil || string(got.Stdout) != large {
		t.Errorf("1 MiB comes back as %d bytes, %v", len(got.Stdout), err)
	}
}

// open opens the node as another process would.
func (s *second) open(t *testing.T) {
	if _, err := vmnode.Open(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open of nothing: %v", err)
	}
	if !s.node.On() || s.node.Name() != vmName {
		t.Errorf("the node is %s, on: %t", s.node.Name(), s.node.On())
	}
	if err := s.node.Boot(t.Context()); !errors.Is(err, vmnode.ErrOn) {
		t.Errorf("Boot of a node that is on: %v", err)
	}
}

// shutdown ends the machine with its power button, twice.
func (s *second) shutdown(t *testing.T) {
	for range 2 {
		if err := s.node.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.node.On() {
			t.Fatal("on after the shutdown")
		}
	}
}
