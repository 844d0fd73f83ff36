// Program mask prints, as its very first act, the CPUs and the memory nodes that the kernel
// lets it use, the two lines of /proc/self/status, and then waits until it is told to end.
// What it prints is what a container's first instruction had.
//
//	mask            prints and waits
//	mask once       prints and ends
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Fprintln(os.Stderr, "mask:", err)
		os.Exit(1)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cpus_allowed_list:") || strings.HasPrefix(line, "Mems_allowed_list:") {
			fmt.Print(line)
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "once" {
		return
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
