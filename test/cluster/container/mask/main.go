// Program mask prints, as its very first act, the CPUs and the memory nodes that the kernel
// lets it use, the two lines of /proc/self/status, and then waits until a signal ends it.
// What it prints is what a container's first instruction had.
//
//	mask            prints and waits
//	mask once       prints and ends
//	mask watch      prints, then says when its CPUs change for the first time, and waits
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// lookEvery is how often mask looks whether its CPUs have changed.
	lookEvery = time.Millisecond
	// lookFor is how long it looks.
	lookFor = 5 * time.Second
)

func main() {
	begin := time.Now()
	cpus, mems, err := allowed()
	fmt.Print(cpus, mems)
	if err == nil && slices.Contains(os.Args[1:], "watch") {
		err = watch(begin, cpus)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mask:", err)
		os.Exit(1)
	}
	if slices.Contains(os.Args[1:], "once") {
		return
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}

// allowed are the two lines.
func allowed() (cpus, mems string, err error) {
	status, err := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		switch {
		case strings.HasPrefix(line, "Cpus_allowed_list:"):
			cpus = line
		case strings.HasPrefix(line, "Mems_allowed_list:"):
			mems = line
		}
	}
	return cpus, mems, err
}

// watch says how long after begin the CPUs are others than before.
func watch(begin time.Time, before string) error {
	for time.Since(begin) < lookFor {
		time.Sleep(lookEvery)
		cpus, _, err := allowed()
		if err != nil {
			return err
		}
		if cpus != before {
			fmt.Printf("after %d us %s", time.Since(begin).Microseconds(), cpus)
			return nil
		}
	}
	fmt.Printf("after %d us the same\n", lookFor.Microseconds())
	return nil
}
