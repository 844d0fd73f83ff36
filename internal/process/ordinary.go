package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// resetOnFork has what the calling thread forks begin with the default policy and at most the default priority. Where
// the kernel does not take that, it begins with those of the thread.
func resetOnFork() {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return
	}
	attr.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
	_ = unix.SchedSetAttr(0, attr, 0)
}

// exposeToOOM takes from a process what it inherited where this one is killed late or never for memory. What it
// forked before that keeps it; a program of the system has only just begun then.
func exposeToOOM(pid int) {
	const file = "/proc/%s/oom_score_adj"
	text, err := os.ReadFile(fmt.Sprintf(file, "self"))
	if err != nil || !bytes.HasPrefix(text, []byte("-")) {
		return
	}
	_ = os.WriteFile(fmt.Sprintf(file, strconv.Itoa(pid)), []byte("0"), 0) // it may have ended
}
