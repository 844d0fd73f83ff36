package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/kernel/job"
	"github.com/berth-project/berth/test/kernel/mems"
)

// memsTest is the live test that measures.
func memsTest() kernel.Cases {
	return kernel.Cases{Package: "internal/agent", Tests: []string{"TestLiveMemsOfARunningGroup"}}
}

// errNoReport reports that the test wrote no report.
var errNoReport = errors.New("the test wrote no report")

// showMems boots a machine whose nodes have room for a running group, and prints the test's report.
func showMems(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vm mems", flag.ContinueOnError)
	size := flags.String("bytes", "1GiB", "how much of the group's memory is on the wrong node; of host memory it takes two and a half times as much")
	origin := flags.String("kernel", "own", originText)
	layout := flags.String("layout", "v2", "the cgroup layout")
	file := flags.String("json", filepath.Join("out", "mems.json"), "where the report is written")
	if err := flags.Parse(args); err != nil {
		return err
	}
	bytes, err := parseSize(*size)
	if err != nil {
		return err
	}
	k, err := kernelOf(ctx, *origin)
	if err != nil {
		return err
	}
	result, err := memsIn(ctx, kernel.VM{Machine: kernel.TwoNodes(memoryFor(bytes)), Kernel: k, Layout: *layout, Stride: 1}, bytes)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, result.Output)
	}
	var report mems.Report
	if len(result.File) == 0 {
		return fmt.Errorf("%w, exit code %d\n%s", errNoReport, result.Code, result.Output)
	}
	if err := json.Unmarshal(result.File, &report); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(*file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(*file, result.File, 0o644); err != nil {
		return err
	}
	if err := report.Print(os.Stdout); err != nil {
		return err
	}
	if result.Code != 0 {
		return fmt.Errorf("%s: exit code %d\n%s", memsTest().Tests[0], result.Code, result.Output)
	}
	return nil
}

// memsIn runs the test in a VM.
func memsIn(ctx context.Context, vm kernel.VM, bytes int64) (job.Result, error) {
	const report = "/tmp/mems.json"
	return testsIn(ctx, vm, memsTest(), job.Job{Name: "mems", File: report, Env: []string{
		mems.BytesVariable + "=" + strconv.FormatInt(bytes, 10), mems.ReportVariable + "=" + report,
	}})
}

// kernelOf returns a kernel by its origin, or the kernel of an image. Guests need no modules.
func kernelOf(ctx context.Context, origin string) (kernel.Kernel, error) {
	switch origin {
	case "own":
		return kernel.Own(ctx, os.Stderr)
	case "distro":
		return kernel.Distro(ctx, os.Stderr)
	}
	if _, err := os.Stat(origin); err != nil {
		return kernel.Kernel{}, fmt.Errorf("-kernel %q: own, distro, or the path of an image: %w", origin, err)
	}
	return kernel.Kernel{Image: origin}, nil
}

// memoryFor returns how many MiB a machine of two nodes needs for that: an agent binds at most nine tenths of a node,
// and the guest itself needs the remainder.
func memoryFor(bytes int64) int {
	const rest = 640
	node := (bytes+mems.SharedOf(bytes))>>20*10/9 + rest
	return 2 * int(node)
}

// parseSize parses a size such as 96MiB or 8GiB.
func parseSize(text string) (int64, error) {
	for suffix, one := range map[string]int64{"MiB": 1 << 20, "GiB": 1 << 30} {
		number, has := strings.CutSuffix(text, suffix)
		if !has {
			continue
		}
		const least, most = mems.Slack, 1 << 40
		if n, err := strconv.ParseInt(number, 10, 32); err == nil && n*one > least && n*one <= most {
			return n * one, nil
		}
	}
	return 0, fmt.Errorf("-bytes %q: a number with MiB or GiB, above %d MiB", text, mems.Slack>>20)
}
