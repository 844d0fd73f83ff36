package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// runc is built with cgo, because it enters name spaces before Go's threads exist.
const runc = "github.com/opencontainers/runc"

// libseccomp is the directory of the Go binding of libseccomp in Debian's package; runtime/go.mod also contains it.
const libseccomp = "/usr/share/gocode/src/github.com/seccomp/libseccomp-golang"

// lacking declares a constant that runc uses and the binding of Debian 12 does not have yet: an architecture that
// neither the binding nor its libseccomp knows.
const lacking = `package seccomp

const ArchLOONGARCH64 ScmpArch = 1 << 16
`

// completed writes an overlay for the compiler into dir, which adds the missing declarations to the binding, and
// returns its path.
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
