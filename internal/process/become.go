package process

import (
	"fmt"
	"os/exec"
	"syscall"
)

// Find returns the file of a program: a path as it is, else the first of its name in PATH
// that can be executed. Like a shell it takes no program from the current directory unless
// its path says so.
func Find(name string) (string, error) {
	file, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("program %s: %w", name, err)
	}
	return file, nil
}

// Become replaces this process by a program (execve(2)); the process id, and what the calling
// thread is allowed and limited to, stay. It returns only where that failed.
func Become(file string, args, env []string) error {
	return fmt.Errorf("execute %s: %w", file, syscall.Exec(file, args, env))
}
