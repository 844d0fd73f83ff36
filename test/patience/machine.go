package patience

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// shortest is the shortest time over which steal is compared with work: the kernel counts both in ticks of 10 ms.
const shortest = time.Second

// machine is the kernel's view of the machine's load at one moment. A number is 0 if the kernel does not report it.
type machine struct {
	at             time.Time
	runnable, cpus int
	wanted, stolen int64         // Ticks of all CPUs: not idle, and of these taken by the hypervisor (/proc/stat).
	stalled        time.Duration // Time in which all tasks that were not idle waited for the disk (/proc/pressure/io).
}

func look() machine {
	m := machine{at: time.Now(), cpus: runtime.NumCPU(), runnable: runnable(read("/proc/loadavg")), stalled: stalled(read("/proc/pressure/io"))}
	m.wanted, m.stolen = ticks(read("/proc/stat"))
	return m
}

// share returns the share of a CPU that each runnable thread gets.
func (m machine) share() float64 { return min(1, float64(m.cpus)/float64(max(1, m.runnable))) }

// kept returns the part of the time since then that neither the hypervisor nor the disk took.
func (m machine) kept(then machine) float64 {
	kept := 1.0
	if wanted, stolen := m.wanted-then.wanted, m.stolen-then.stolen; stolen > 0 && wanted > 0 {
		kept -= min(1, float64(stolen)/float64(wanted))
	}
	if took, stalled := m.at.Sub(then.at), m.stalled-then.stalled; stalled > 0 && took > 0 {
		kept *= 1 - min(1, float64(stalled)/float64(took))
	}
	return kept
}

// read returns a file of the kernel, or "" if it does not exist.
func read(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(text)
}

// runnable returns the number of runnable threads: the number before the slash in "0.20 0.18 0.12 3/80 11206".
func runnable(loadavg string) int {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 0
	}
	running, _, _ := strings.Cut(fields[3], "/")
	return int(number(running))
}

// ticks parses the first line of /proc/stat, "cpu user nice system idle iowait irq softirq steal guest guest_nice". The
// kernel includes guests in user and nice, too.
func ticks(stat string) (wanted, stolen int64) {
	const first, idle, iowait, steal = 1, 4, 5, 8
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) <= steal || fields[0] != "cpu" {
		return 0, 0
	}
	for i := first; i <= steal; i++ {
		if i != idle && i != iowait {
			wanted += number(fields[i])
		}
	}
	return wanted, number(fields[steal])
}

// stalled parses the total of the line "full avg10=0.00 avg60=0.00 avg300=0.00 total=1234", in microseconds.
func stalled(pressure string) time.Duration {
	for line := range strings.Lines(pressure) {
		if text, found := strings.CutPrefix(line, "full "); found {
			_, total, _ := strings.Cut(text, "total=")
			return time.Duration(number(strings.TrimSpace(total))) * time.Microsecond
		}
	}
	return 0
}

// number parses a number of the kernel, and returns 0 for anything else.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
