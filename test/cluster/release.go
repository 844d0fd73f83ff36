package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Release is what the shipped programs and their images contain about themselves. It makes the programs and images of
// the cluster the same as those of `make dist` for the same commit.
type Release struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Seconds int64  `json:"seconds"` // The date of the commit, in seconds since 1970.
}

// The commands by which the Makefile and tools/dist.sh find version, commit and date.
const (
	askVersion = "git describe --tags --always --dirty"
	askCommit  = "git rev-parse HEAD"
	askDate    = "git log -1 --format=%ct"
)

// currentRelease returns the release of this source tree. As for `make dist`, VERSION, COMMIT and SOURCE_DATE_EPOCH in
// the environment take precedence over git. Without git the version is "dev".
func currentRelease(ctx context.Context) (Release, error) {
	root, err := Root()
	if err != nil {
		return Release{}, err
	}
	ask := func(variable, command, otherwise string) string {
		if value := os.Getenv(variable); value != "" {
			return value
		}
		words := strings.Fields(command)
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Dir = root
		said, err := cmd.Output()
		if err != nil {
			return otherwise
		}
		return strings.TrimSpace(string(said))
	}
	date := ask("SOURCE_DATE_EPOCH", askDate, "0")
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil {
		return Release{}, fmt.Errorf("date of the release: %w", err)
	}
	return Release{Version: ask("VERSION", askVersion, "dev"), Commit: ask("COMMIT", askCommit, ""), Seconds: seconds}, nil
}

// kubernetesVersion returns the linker's flag for the version that programs of Kubernetes report.
func kubernetesVersion() string {
	return "-X k8s.io/component-base/version.gitVersion=" + kubernetesRelease
}

// linking returns the flags with which `make dist` links a shipped program.
func (r Release) linking(program string) string {
	flags := "-s -w -X main.version=" + r.Version + " -X main.commit=" + r.Commit
	if program == "berth-scheduler" {
		flags += " " + kubernetesVersion()
	}
	return flags
}

// releaseFile returns the path of the file that names the release of a program, beside the program. Git answers only
// the owner of the tree, who builds the programs, and root starts the cluster.
func releaseFile(program string) string { return filepath.Join(filepath.Dir(program), "release.json") }

// write writes the release beside a program, under the lock of the builds. A rename makes it visible, so that no reader
// sees a part of it.
func (r Release) write(program string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	unlock, err := lock(filepath.Join(filepath.Dir(program), "lock"))
	if err != nil {
		return fmt.Errorf("write release: %w", err)
	}
	defer unlock()
	file := releaseFile(program)
	draft := file + ".draft"
	if err = os.WriteFile(draft, content, 0o644); err == nil {
		err = os.Rename(draft, file)
	}
	if err != nil {
		return fmt.Errorf("write release: %w", err)
	}
	return nil
}

// readRelease returns the release of a program, or ErrNotBuilt.
func readRelease(program string) (r Release, err error) {
	file := releaseFile(program)
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return r, fmt.Errorf("%s %w", filepath.Base(file), ErrNotBuilt)
	}
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read release %s: %w", file, err)
	}
	return r, nil
}
