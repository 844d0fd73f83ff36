// Program guest runs commands for the host inside a virtual machine. It listens on a TCP port that QEMU forwards and
// runs one command for each connection; see package wire.
//
//	guest TOKENFILE
package main

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/test/cluster/vmnode/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, append(os.Args, "")[1]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		stop()
		os.Exit(1)
	}
}

func serve(ctx context.Context, tokenFile string) error {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", fmt.Sprintf(":%d", wire.Port))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var commands errgroup.Group
	for {
		conn, err := listener.Accept()
		if err != nil {
			return errors.Join(ignoreClosed(err), commands.Wait())
		}
		commands.Go(func() error {
			defer conn.Close()
			answer(ctx, conn, string(token))
			return nil
		})
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// answer serves one connection.
func answer(ctx context.Context, conn net.Conn, token string) {
	var request wire.Request
	if err := json.NewDecoder(conn).Decode(&request); err != nil {
		return // The host only checks whether the program runs.
	}
	var result wire.Answer
	switch {
	case subtle.ConstantTimeCompare([]byte(request.Token), []byte(strings.TrimSpace(token))) != 1:
		result.Failure = "wrong token"
	case len(request.Argv) == 0:
		result.Failure = "no command"
	default:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { // Ends with the connection; the host sends nothing more.
			_, _ = conn.Read(make([]byte, 1))
			cancel()
		}()
		result = run(ctx, request)
	}
	_ = json.NewEncoder(conn).Encode(result)
}

// run executes one command in a separate process group, which ends with ctx.
func run(ctx context.Context, request wire.Request) wire.Answer {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, request.Argv[0], request.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request.Stdin), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // A background child keeps the pipes open.
	err := cmd.Run()
	result := wire.Answer{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if cmd.ProcessState == nil {
		result.Failure = err.Error()
		return result
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	result.Code = status.ExitStatus()
	if status.Signaled() {
		result.Code = 128 + int(status.Signal())
	}
	return result
}
