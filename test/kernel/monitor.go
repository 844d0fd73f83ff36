package kernel

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"time"
)

// postMortem is how long a hung guest has for its last messages, and QEMU for its end.
const postMortem = time.Minute

// interrupt asks QEMU for the state of each processor of a hung guest, and writes it down. Then it sends the guest an
// NMI, which no kernel can mask. Berth's own kernel panics on it, which prints the stacks of all tasks on the console
// and ends QEMU. interrupt also writes down errors of the requests: QEMU itself may hang, and is killed after
// postMortem.
func interrupt(monitor string, into io.Writer) {
	said, err := order(monitor, "info registers -a\nnmi\n")
	if err != nil {
		fmt.Fprintln(into, "monitor:", err)
	}
	for _, line := range regexp.MustCompile(`(?m)^(CPU#|[ER]IP=).*$`).FindAllString(said, -1) {
		fmt.Fprintln(into, line)
	}
}

// order sends commands to QEMU and returns its output until QEMU closes the connection, or for at most a third of
// postMortem.
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
