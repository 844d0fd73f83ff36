package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// runc is built with cgo: it enters name spaces before Go's threads exist.
const runc = "github.com/opencontainers/runc"

// libseccomp is where Debian's package has the Go binding of libseccomp; runtime/go.mod says so, too.
const libseccomp = "/usr/share/gocode/src/github.com/seccomp/libseccomp-golang"

// lacking is what runc names of the binding and Debian 12's does not have yet: an architecture that
// neither it nor its libseccomp knows.
const lacking = `package seccomp

const ArchLOONGARCH64 ScmpArch = 1 << 16
`

// completed writes the overlay for the compiler that adds to the binding what it lacks, into the
// directory, and returns its path.
func completed(dir string) (string, error) {
	source, err := os.ReadFile(filepath.Join(libseccomp, "seccomp.go"))
	if err != nil {
		return "", fmt.Errorf("the Go binding of libseccomp: %w; run: make deps", err)
	}
	var overlay struct{ Replace map[string]string }
	if !strings.Contains(string(source), "ArchLOONGARCH64") {
		added := filepath.Join(dir, "seccomp.go")
		if err := os.WriteFile(added, []byte(lacking), 0o600); err != nil {
			return "", err
		}
		overlay.Replace = map[string]string{filepath.Join(libseccomp, "lacking.go"): added}
	}
	content, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, content, 0o600)
}
