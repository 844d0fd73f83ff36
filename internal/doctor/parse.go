package doctor

import (
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// keyed reads lines "name number": cpu.stat, numastat, and meminfo of a node, whose lines begin with "Node 0" and end
// with "kB". It skips lines of another form.
func keyed(text string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), " kB"))
		if len(fields) < 2 {
			continue
		}
		if n, ok := decimal(fields[len(fields)-1]); ok {
			all[strings.TrimSuffix(fields[len(fields)-2], ":")] = n
		}
	}
	return all
}

// cpuTime is the time that a CPU spent since boot, in seconds.
type cpuTime struct{ total, idle, interrupts, steal float64 }

func (t cpuTime) minus(other cpuTime) cpuTime {
	return cpuTime{
		max(0, t.total-other.total), max(0, t.idle-other.idle),
		max(0, t.interrupts-other.interrupts), max(0, t.steal-other.steal),
	}
}

// userHZ is the number of ticks per second in /proc/stat and in a thread's stat.
const userHZ = 100

// parseStat reads the lines "cpuN" of /proc/stat, by CPU; -1 is the sum.
func parseStat(text string) map[int]cpuTime {
	all := map[int]cpuTime{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		cpu := -1
		if fields[0] != "cpu" {
			n, err := strconv.Atoi(fields[0][len("cpu"):])
			if err != nil || n < 0 {
				continue
			}
			cpu = n
		}
		var columns [8]float64 // user nice system idle iowait irq softirq steal
		var t cpuTime
		for i := range columns {
			columns[i] = number(fields[i+1]) / userHZ
			t.total += columns[i]
		}
		t.idle, t.interrupts, t.steal = columns[3]+columns[4], columns[5]+columns[6], columns[7]
		all[cpu] = t
	}
	return all
}

// number reads a decimal number; anything else is 0.
func number(text string) float64 {
	n, _ := decimal(text)
	return n
}

func decimal(text string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n > -1e20 && n < 1e20) {
		return 0, false
	}
	return n, true
}

// count is a line of counters, one for each CPU.
type count struct {
	perCPU map[int]float64
	what   string // the text after the numbers
}

// parseCounts reads /proc/interrupts and /proc/softirqs: a line of CPUs, then lines "name: number…" with a number for
// each CPU, and for interrupts a description.
func parseCounts(text string) map[string]count {
	head, rest, _ := strings.Cut(text, "\n")
	var cpus []int
	for name := range strings.FieldsSeq(head) {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "CPU"))
		if err != nil || n < 0 {
			return nil
		}
		cpus = append(cpus, n)
	}
	all := map[string]count{}
	for line := range strings.Lines(rest) {
		name, numbers, ok := strings.Cut(line, ":")
		fields := strings.Fields(numbers)
		if !ok || len(fields) < len(cpus) {
			continue
		}
		c := count{perCPU: map[int]float64{}, what: strings.Join(fields[len(cpus):], " ")}
		for i, cpu := range cpus {
			c.perCPU[cpu] = number(fields[i])
		}
		all[strings.TrimSpace(name)] = c
	}
	return all
}

// Numbers of include/uapi/linux/sched.h and include/linux/sched.h.
const (
	policyFIFO, policyRR, policyDeadline = 1, 2, 6
	flagKernelThread, flagBound          = 0x00200000, 0x04000000
)

// thread is one thread in one sample. Times are in seconds.
type thread struct {
	pid, tid, comm, start string
	state                 byte
	kernel, bound         bool // a kernel thread; it cannot leave its CPUs
	cpu, policy, priority int
	busy                  float64 // in steps of 10 ms
	run, wait, slices     float64 // from schedstat, -1 without it
	allowed               cpuset.Set
	voluntary, forced     float64 // context switches
	wchan                 string
}

// realtime reports whether the thread precedes all fair threads.
func (t thread) realtime() bool {
	return t.policy == policyFIFO || t.policy == policyRR || t.policy == policyDeadline
}

// statFields is the number of fields read after the name: 3 to 41 of proc(5).
const statFields = 39

// parseThreadStat reads /proc/PID/task/TID/stat.
func parseThreadStat(text string) (t thread, ok bool) {
	tid, rest, _ := strings.Cut(text, " (")
	end := strings.LastIndexByte(rest, ')')
	if end < 0 {
		return thread{}, false
	}
	fields := strings.Fields(rest[end+1:])
	if len(fields) < statFields || len(fields[0]) != 1 {
		return thread{}, false
	}
	at := func(field int) string { return fields[field-3] } // numbered as in proc(5)
	flags := uint64(number(at(9)))
	return thread{
		tid: tid, comm: rest[:end], state: at(3)[0], start: at(22),
		kernel: flags&flagKernelThread != 0, bound: flags&flagBound != 0,
		busy: (number(at(14)) + number(at(15))) / userHZ,
		cpu:  int(number(at(39))), priority: int(number(at(40))), policy: int(number(at(41))),
		run: -1,
	}, true
}

// scrubStat truncates a thread's stat after the last field that is read, and removes the addresses from it.
func scrubStat(text string) string {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return ""
	}
	fields := strings.Fields(text[end+1:])
	fields = fields[:min(len(fields), statFields)]
	for i := 26; i <= 35 && i-3 < len(fields); i++ {
		fields[i-3] = "0"
	}
	return text[:end+1] + " " + strings.Join(fields, " ") + "\n"
}

// threadOf splits proc/PID/task/TID/FILE.
func threadOf(name string) (dir, file string, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 5 || parts[0] != "proc" || parts[2] != "task" {
		return "", "", false
	}
	return strings.Join(parts[:4], "/"), parts[4], true
}

const nanos = 1e9

// threads reads the threads of a sample, by directory.
func (s *Sample) threads() map[string]thread {
	all := map[string]thread{}
	for name, text := range s.files {
		dir, file, ok := threadOf(name)
		if !ok || file != "stat" {
			continue
		}
		t, ok := parseThreadStat(text)
		if !ok {
			continue
		}
		t.pid = strings.Split(dir, "/")[1]
		if f := strings.Fields(s.files[dir+"/schedstat"]); len(f) >= 3 {
			t.run, t.wait, t.slices = number(f[0])/nanos, number(f[1])/nanos, number(f[2])
		}
		status := s.files[dir+"/status"]
		switches := keyed(status)
		t.voluntary, t.forced = switches["voluntary_ctxt_switches"], switches["nonvoluntary_ctxt_switches"]
		t.allowed = list(value(status, "Cpus_allowed_list:"))
		t.wchan = strings.TrimRight(s.files[dir+"/wchan"], "\x00\n")
		all[dir] = t
	}
	return all
}

// value returns the text after a word at the beginning of a line.
func value(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// list reads a CPU list; "(null)" and invalid text is the empty set.
func list(text string) cpuset.Set {
	set, err := cpuset.Parse(strings.TrimSpace(text))
	if err != nil {
		return cpuset.Set{}
	}
	return set
}
