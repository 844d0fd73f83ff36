package controlplane

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asParent makes the test binary start a child, print its process id and wait.
const asParent = "BERTH_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(asParent)
	if dir == "" {
		os.Exit(m.Run())
	}
	child, err := StartChild(dir, "sleeper", "/bin/sleep", "600")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(child.PID())
	time.Sleep(10 * time.Minute)
}

// gone waits until no running process has the process id.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 500 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("process %d still runs", pid)
}

func TestKillTakesTheWholeGroup(t *testing.T) {
	child, err := StartChild(t.TempDir(), "group", "/bin/sh", "-c", "sleep 600 & echo $!; wait")
	if err != nil {
		t.Fatal(err)
	}
	var grandchild int
	for grandchild == 0 {
		text, err := os.ReadFile(child.Log())
		if err != nil {
			t.Fatal(err)
		}
		grandchild, _ = strconv.Atoi(strings.TrimSpace(string(text))) // Not written yet: 0.
	}
	if err := child.Alive(); err != nil {
		t.Errorf("Alive() = %v, want nil", err)
	}
	for range 2 { // The second call finds the process ended.
		if err := child.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, child.PID())
	gone(t, grandchild)
}

func TestAnEndedChildShowsItsLog(t *testing.T) {
	child, err := StartChild(t.TempDir(), "short", "/bin/sh", "-c", "seq 1 1000; echo no such flag >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	err = child.Alive()
	if !errors.Is(err, ErrEnded) {
		t.Fatalf("Alive() = %v, want %v", err, ErrEnded)
	}
	for _, want := range []string{"short", "exit status 3", "no such flag", "\n1000\n"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Alive() = %q, which lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n500\n") {
		t.Errorf("Alive() shows the whole log, not its end: %q", err)
	}
}

func TestAMissingProgramIsNamed(t *testing.T) {
	_, err := StartChild(t.TempDir(), "etcd", "/nowhere/etcd")
	if !errors.Is(err, ErrProgram) || !strings.Contains(err.Error(), "/nowhere/etcd") {
		t.Errorf("StartChild = %v, want %v and the path", err, ErrProgram)
	}
}

func TestAChildDiesWithItsParent(t *testing.T) {
	parent := exec.CommandContext(t.Context(), "/proc/self/exe")
	parent.Env = append(os.Environ(), asParent+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent said %q", line)
	}
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the child does not run: %v", err)
	}
	if err := parent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // It was killed.
	gone(t, child)
}

func TestAFrozenChildDoesNothing(t *testing.T) {
	child, err := StartChild(t.TempDir(), "counter", "/bin/sh", "-c", "while :; do echo; done")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Kill() })
	size := func() int64 {
		info, err := os.Stat(child.Log())
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for range 3 {
		if err := child.Freeze(); err != nil {
			t.Fatal(err)
		}
		before := size()
		time.Sleep(20 * time.Millisecond)
		if after := size(); after != before {
			t.Fatalf("a frozen child wrote %d bytes", after-before)
		}
		if err := child.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for size() == before { // If the process stays frozen, this loop ends with the test's time.
			time.Sleep(time.Millisecond)
		}
	}
}
