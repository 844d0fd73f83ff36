package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// resetOnFork makes forks of the calling thread begin with the default policy and at most the default priority. If the
// kernel refuses, they inherit the thread's policy and priority.
func resetOnFork() {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return
	}
	attr.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
	_ = unix.SchedSetAttr(0, attr, 0)
}

// exposeToOOM resets the oom_score_adj of a process that inherited a negative value from this process. Children that
// the process has already forked keep the inherited value, but a system program has only just begun at that time.
func exposeToOOM(pid int) {
	const file = "/proc/%s/oom_score_adj"
	text, err := os.ReadFile(fmt.Sprintf(file, "self"))
	if err != nil || !bytes.HasPrefix(text, []byte("-")) {
		return
	}
	_ = os.WriteFile(fmt.Sprintf(file, strconv.Itoa(pid)), []byte("0"), 0) // best effort: the process may have ended
}
