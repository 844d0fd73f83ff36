package kernel

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"time"
)

// postMortem is what a guest that hangs has for its last words, and QEMU for an end.
const postMortem = time.Minute

// interrupt asks QEMU what each processor of a guest that hangs does, and writes that down. Then it
// sends the guest the interrupt that no kernel can hold back: ours panics at it, which ends QEMU, and
// prints the stacks of all tasks on its console. What cannot be asked is written down too: QEMU itself
// may hang, and is killed after postMortem.
func interrupt(monitor string, into io.Writer) {
	said, err := order(monitor, "info registers -a\nnmi\n")
	if err != nil {
		fmt.Fprintln(into, "monitor:", err)
	}
	for _, line := range regexp.MustCompile(`(?m)^(CPU#|[ER]IP=).*$`).FindAllString(said, -1) {
		fmt.Fprintln(into, line)
	}
}

// order gives QEMU orders and returns what it says until it has carried them out and ended, or for a
// third of what it has left.
func order(monitor, orders string) (string, error) {
	conn, err := net.DialTimeout("unix", monitor, postMortem/3)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(postMortem / 3)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, orders); err != nil {
		return "", err
	}
	said, err := io.ReadAll(conn)
	return string(said), err
}
