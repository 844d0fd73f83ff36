// Program pi computes digits of Pi on many threads at once. It replaces the image java-pi of ACK's documentation, and
// has the same environment variables and output.
//
//	limit       number of digits (default 20000)
//	threadNum   number of threads that share the work (default 1)
//	seconds     how long to compute again and again: then the time is the mean, and the CPUs that the kernel permits are
//	            printed before and after (default: compute once)
//	stay        whether the program waits for a signal when it has computed once, as a server waits for requests, with
//	            all its threads (any value; default: it ends)
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pi:", err)
		os.Exit(1)
	}
}

func run() error {
	digits, err := number("limit", 20000)
	if err != nil {
		return err
	}
	threads, err := number("threadNum", 1)
	if err != nil {
		return err
	}
	if _, set := os.LookupEnv("seconds"); set {
		return repeat(digits, threads)
	}
	fmt.Printf("computing Pi with %d Threads...", threads)
	load.LetRun(threads)
	start := time.Now()
	pi := load.Pi(digits, threads)
	fmt.Printf("computed the first %d digets of pi in %d ms!\n", digits, time.Since(start).Milliseconds())
	fmt.Printf("the first digets are: %.10s\nwriting to pi.txt...\n", pi)
	if err := os.WriteFile(filepath.Join(os.TempDir(), "pi.txt"), []byte(pi+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Println("finished!")
	if _, set := os.LookupEnv("stay"); set {
		stay()
	}
	return nil
}

// stay waits for a signal. Go's runtime keeps the threads of a computation. It would wake many of them every two
// minutes to collect garbage, which uses up the quota of a container on a slow machine.
func stay() {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}

// repeat computes again and again.
func repeat(digits, threads int) error {
	seconds, err := number("seconds", 1)
	if err != nil {
		return err
	}
	before, err := permitted()
	if err != nil {
		return err
	}
	fmt.Printf("%scomputing Pi with %d Threads...\n", before, threads)
	took, err := load.TimePi(context.Background(), digits, threads, time.Duration(seconds)*time.Second)
	if err != nil {
		return err
	}
	after, err := permitted()
	if err != nil {
		return err
	}
	fmt.Printf("computed the first %d digets of pi in %d ms!\n%s", digits, took.Milliseconds(), after)
	return nil
}

// permitted returns the line of /proc/self/status with the CPUs that the kernel permits this program.
func permitted() (string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cpus_allowed_list:") {
			return line, nil
		}
	}
	return "", errors.New("/proc/self/status has no Cpus_allowed_list")
}

// number returns an environment variable as a number from 1 to a million.
func number(name string, otherwise int) (int, error) {
	text, set := os.LookupEnv(name)
	if !set {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, fmt.Errorf("%s=%q: want a number from 1 to 1000000", name, text)
	}
	return n, nil
}
