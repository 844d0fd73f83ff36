package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// Run runs a system program by its path until it ends, without a shell and without the environment of this process. The
// program has an ordinary priority and an ordinary OOM score, even if this process has a real-time priority and is
// killed last. The error contains the end of the program's output.
func Run(ctx context.Context, file string, args ...string) error {
	var printed bytes.Buffer
	cmd := exec.Command(file, args...) //nolint:noctx // the whole group is killed, not the program alone
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = &printed, &printed
	p, err := start(cmd, syscall.SIGKILL, true)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		err = errors.Join(context.Cause(ctx), p.Signal(syscall.SIGKILL))
	}
	if err = errors.Join(err, p.Wait()); err == nil {
		return nil
	}
	const most = 500
	text := strings.TrimSpace(printed.String())
	return fmt.Errorf("%s: %w: %s", strings.Join(append([]string{file}, args...), " "), err, text[max(0, len(text)-most):])
}
