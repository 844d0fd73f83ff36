// Program mask first prints the CPUs and memory nodes that the kernel permits it, as the two lines of
// /proc/self/status, and then waits until a signal ends it. Its output shows what the first instruction of a container
// was permitted.
//
//	mask            prints and waits
//	mask once       prints and ends
//	mask watch      prints, then reports the first change of its CPUs, and waits
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
	// lookEvery is the interval between two checks of the CPUs.
	lookEvery = time.Millisecond
	// lookFor is the total time of these checks.
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

// allowed returns the two lines of /proc/self/status.
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

// watch prints the time between begin and the first change of the CPUs.
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
