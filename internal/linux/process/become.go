package process

import (
	"fmt"
	"os/exec"
	"syscall"
)

// Find returns the file of a program: a path unchanged, or else the first executable of that name in PATH. It uses a
// program of the current directory only if name is a path to it.
func Find(name string) (string, error) {
	file, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("program %s: %w", name, err)
	}
	return file, nil
}

// Become replaces this process by a program (execve(2)). The process id and the permissions and limits of the calling
// thread stay. Become returns only on failure.
func Become(file string, args, env []string) error {
	return fmt.Errorf("execute %s: %w", file, syscall.Exec(file, args, env))
}
