package journal

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lockedBy names the directory that a child of the test locks.
const lockedBy = "BERTH_TEST_LOCK"

// TestMain turns the test binary into a process that holds the lock until its standard input ends.
func TestMain(m *testing.M) {
	dir := os.Getenv(lockedBy)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := Open(dir, boot, nil); err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("locked\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if pid, alive, err := Holder(dir); pid != 0 || alive || err != nil {
		t.Fatalf("Holder of a new directory: %d, %v, %v", pid, alive, err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), lockedBy+"="+dir)
	stdin, err := child.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	if n, err := stdout.Read(make([]byte, 16)); n == 0 {
		t.Fatalf("the child did not lock: %v", err)
	}
	if pid, alive, err := Holder(dir); pid != child.Process.Pid || !alive || err != nil {
		t.Errorf("Holder: %d, %v, %v, want %d", pid, alive, err, child.Process.Pid)
	}
	_, err = Open(dir, boot, nil)
	var locked *LockedError
	if !errors.As(err, &locked) || !errors.Is(err, ErrLocked) || locked.PID != child.Process.Pid {
		t.Errorf("Open: %v, want process %d", err, child.Process.Pid)
	}
	if _, err := Load(dir, nil); err != nil {
		t.Errorf("Load: %v", err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait() // killed
	if pid, alive, err := Holder(dir); pid != child.Process.Pid || alive || err != nil {
		t.Errorf("Holder after the kill: %d, %v, %v", pid, alive, err)
	}
	j := mustOpen(t, dir)
	if pid, alive, err := Holder(dir); pid != os.Getpid() || !alive || err != nil {
		t.Errorf("Holder: %d, %v, %v, want this process", pid, alive, err)
	}
	must(t, j.Close())
	if pid, alive, err := Holder(dir); pid != 0 || alive || err != nil {
		t.Errorf("Holder after Close: %d, %v, %v", pid, alive, err)
	}
}

func TestLockedErrorNamesThePID(t *testing.T) {
	if text := (&LockedError{Dir: "/d", PID: 4711}).Error(); !strings.Contains(text, "4711") {
		t.Error(text)
	}
	if text := (&LockedError{Dir: "/d"}).Error(); strings.Contains(text, " 0") {
		t.Error(text)
	}
}
