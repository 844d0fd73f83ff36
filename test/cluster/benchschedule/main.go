// Program benchschedule measures what the plugin costs the scheduler. `berth bench schedule` starts it. It runs the
// scheduler as a child against a control plane of package controlplane, alternating with and without the plugin. It
// counts bound pods per second and per CPU-second of that child.
//
// It reads [bench.ScheduleOptions] as JSON from its standard input and writes lines of [bench.ScheduleMessage] to its
// standard output. After SIGTERM it ends the programs that it started and reports the finished runs. Its exit code is 0
// for success and 1 for failure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/proof/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchschedule:", err)
		os.Exit(1)
	}
}

// serve measures according to the options in its input, and writes progress and outcome.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	said := json.NewEncoder(out)
	var o measurement
	options := json.NewDecoder(in)
	options.DisallowUnknownFields() // A berth of another version may send unknown fields.
	if err := options.Decode(&o); err != nil {
		err = fmt.Errorf("options of benchschedule: %w", err)
		return errors.Join(err, said.Encode(outcome(nil, err)))
	}
	o.Progress = func(what string) {
		_ = said.Encode(bench.ScheduleMessage{Progress: what}) // A reader that is gone needs no progress.
	}
	report, err := o.run(ctx)
	return errors.Join(err, said.Encode(outcome(report, err)))
}

// outcome is the last message.
func outcome(r *Report, err error) (m bench.ScheduleMessage) {
	if r != nil {
		var table strings.Builder
		encoded, encodeErr := json.Marshal(r)
		err = errors.Join(err, encodeErr, writeTable(&table, r))
		m.Report, m.Table = encoded, table.String()
	}
	if err != nil {
		m.Error, m.Denied = err.Error(), errors.Is(err, fs.ErrPermission)
	}
	return m
}
