// Package job is the protocol between the host and the guest of a test VM. The host puts a list of commands into the
// initramfs. The guest answers on a serial port with the output of each command between two marker lines, and with the
// file that the job asks for.
package job

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// File is the path of the JSON list of jobs in the initramfs.
const File = "/jobs.json"

// Parameters of the kernel command line, each followed by "=" and its value.
const (
	LayoutParam  = "berth.cgroup"  // The cgroup layout to mount.
	WithoutParam = "berth.without" // Names of jobs that this boot omits, separated by commas.
	StrideParam  = "berth.stride"  // Which of many similar repetitions a test makes; see Stride.
)

// mark starts each line that the guest itself writes, rather than a command.
const mark = "@@berth "

// Job is one command that the guest runs.
type Job struct {
	Name string   // Unique, without spaces; the host finds the result by it.
	Dir  string   // Working directory in the guest.
	Argv []string // Program and arguments; no shell, no search path.
	Env  []string // Additional environment of the job, as NAME=VALUE.
	File string   // Sent to the host after the command, if not empty.
}

// Result is the outcome of one job.
type Result struct {
	Output string // Standard output and error, interleaved.
	File   []byte // Content of Job.File.
	Ended  bool   // False if the guest died first.
	Code   int    // Exit code; -1 if the command did not start or was killed by a signal.
	Took   time.Duration
}

// Param returns the value of a parameter of the command line in /proc/cmdline, "" if it is missing.
func Param(commandLine, name string) string {
	for word := range strings.FieldsSeq(commandLine) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}

// Guest reports whether this machine is the tests' virtual machine. Only there may a test change the whole host.
func Guest() (bool, error) {
	line, err := os.ReadFile("/proc/cmdline")
	return Param(string(line), LayoutParam) != "", err
}

// Stride is 1 on a real machine, and wherever a test has to make all its repetitions. For a stride of n, a test with
// many similar steps makes every nth step, and a random history has an nth of its events. An emulated processor needs
// at least ten times as long for each.
func Stride() (int, error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return 0, err
	}
	return stride(string(line))
}

func stride(commandLine string) (int, error) {
	text := Param(commandLine, StrideParam)
	if text == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%q is no number from 1 on", StrideParam, text)
	}
	return n, nil
}

// Begin returns the line before the output of the job.
func Begin(name string) string { return mark + "begin " + name + "\n" }

// End returns the line after the output of the job.
func End(name string, code int, took time.Duration) string {
	return fmt.Sprintf("%send %s %d %d\n", mark, name, code, took.Milliseconds())
}

// Content returns the line that transfers a file, in base64, because a recorded sysfs may contain NULs.
func Content(name string, data []byte) string {
	return mark + "file " + name + " " + base64.StdEncoding.EncodeToString(data) + "\n"
}

// Read collects the results from the guest's serial port until it closes. It returns lines outside any job (the guest's
// own messages) as rest.
func Read(r io.Reader) (results map[string]Result, rest string, err error) {
	t := transcript{results: map[string]Result{}}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		t.take(strings.ReplaceAll(line, "\r", ""))
		switch {
		case errors.Is(err, io.EOF):
			return t.results, t.rest.String(), t.err
		case err != nil:
			return t.results, t.rest.String(), fmt.Errorf("read serial port: %w", err)
		}
	}
}

// transcript is the state of Read between two lines.
type transcript struct {
	results map[string]Result
	current string // Job whose output is being read.
	rest    strings.Builder
	err     error
}

func (t *transcript) take(line string) {
	text, marked := strings.CutPrefix(line, mark)
	if !marked {
		t.output(line)
		return
	}
	word := append(strings.Fields(text), "", "", "", "")
	kind, name, value := word[0], word[1], word[2]
	result := t.results[name]
	switch kind {
	case "begin":
		t.current = name
	case "end":
		t.current = ""
		result.Ended = true
		result.Code = t.number(value)
		result.Took = time.Duration(t.number(word[3])) * time.Millisecond
	case "file":
		result.File = t.decode(value)
	}
	t.results[name] = result
}

func (t *transcript) output(line string) {
	if t.current == "" {
		t.rest.WriteString(line)
		return
	}
	result := t.results[t.current]
	result.Output += line
	t.results[t.current] = result
}

func (t *transcript) number(s string) int {
	n, err := strconv.Atoi(s)
	t.err = errors.Join(t.err, err)
	return n
}

func (t *transcript) decode(s string) []byte {
	data, err := base64.StdEncoding.DecodeString(s)
	t.err = errors.Join(t.err, err)
	return data
}
