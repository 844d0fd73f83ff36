package pages_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/pages"
)

// answersChild makes TestAnswersChild wait.
const answersChild = "BERTH_TEST_ANSWERS_CHILD"

// TestAnswersChild is a process that lives until its standard input ends. Without its variable it does nothing.
func TestAnswersChild(t *testing.T) {
	if os.Getenv(answersChild) == "" {
		return
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Error(err)
	}
}

// TestAnswersLive asks the running kernel: a living process and its files answer, and an ended process is reported as
// such.
func TestAnswersLive(t *testing.T) {
	t.Parallel()
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	k := pages.Live(root)
	// A busy machine may not answer within the time, and answers later.
	answer := func(pids ...int) (err error) {
		for err = pages.ErrStuck; errors.Is(err, pages.ErrStuck) && t.Context().Err() == nil; {
			err = pages.AllAnswer(k, pids)
		}
		return err
	}
	if err := answer(os.Getpid()); err != nil {
		t.Errorf("this process: %v", err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAnswersChild$")
	child.Env = append(os.Environ(), answersChild+"=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := answer(child.Process.Pid); err != nil {
		t.Errorf("a child: %v", err)
	}
	if err := answer(1, child.Process.Pid, os.Getpid()); err != nil {
		t.Errorf("some processes: %v", err)
	}
	_ = in.Close()
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if err := pages.Answers(k, child.Process.Pid); !errors.Is(err, pages.ErrExited) {
		t.Errorf("a child that ended: %v", err)
	}
}
