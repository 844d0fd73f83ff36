package service

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// Name is the name of the unit, as in the packages.
	Name = "berth-agent.service"
	// StateDir is the only state directory that the unit lets the agent write to.
	StateDir = "/var/lib/berth"

	// mark is the first line of a unit by Install.
	mark = "# Written by berth install-systemd, which replaces and removes only files that begin so.\n"
	// packagedProgram and packagedConfig are the paths in the unit of the packages.
	packagedProgram = "/usr/bin/berth"
	packagedConfig  = "/etc/berth/agent.yaml"
)

// Text returns the unit of the packages for a program and the agent's file, both absolute paths. The errors match
// ErrPath: systemd interprets blanks, quotes and % in a command line, and the agent's own mount namespace has no home
// directories and another /tmp.
func Text(packages, program, config string) (string, error) {
	for _, path := range []string{program, config} {
		if !regexp.MustCompile(`^/[A-Za-z0-9/._+@:-]+$`).MatchString(path) {
			return "", fmt.Errorf("%q: %w: allowed: absolute, of letters, digits and /._+@:-", path, ErrPath)
		}
		for _, hidden := range []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"} {
			if strings.HasPrefix(filepath.Clean(path)+"/", hidden) {
				return "", fmt.Errorf("%s: %w: it has no %s (ProtectHome, PrivateTmp): install the file elsewhere, such as in /usr/local/bin", path, ErrPath, hidden)
			}
		}
	}
	if !strings.Contains(packages, packagedProgram+" agent --config "+packagedConfig) {
		return "", fmt.Errorf("unit of the packages: no %q: %w", packagedProgram+" agent", ErrPath)
	}
	return mark + strings.NewReplacer(packagedProgram+" ", program+" ", packagedConfig, config).Replace(packages), nil
}
