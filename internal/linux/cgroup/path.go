package cgroup

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// maxPath is PATH_MAX: the kernel cannot open a longer path.
const maxPath = 4096

// CheckPath returns nil if p can name a group: a clean path relative to the hierarchies' roots. The root itself is ""
// only. The error is ErrBadPath and explains what is allowed.
func CheckPath(p string) error {
	why := ""
	switch {
	case p == "":
		return nil
	case strings.HasPrefix(p, "/"):
		why = "must be relative to the hierarchy's root, without a leading slash"
	case len(p) >= maxPath:
		why = fmt.Sprintf("must be shorter than %d bytes", maxPath)
	case !utf8.ValidString(p):
		why = "must be UTF-8" // journal, metrics and status carry it
	case strings.ContainsAny(p, "\n\x00"):
		why = "must not contain a newline or a NUL"
	case p == ".." || strings.HasPrefix(p, "../") || strings.HasSuffix(p, "/..") || strings.Contains(p, "/../"):
		why = `must not contain ".."`
	case p == "." || path.Clean(p) != p:
		why = fmt.Sprintf("must be a clean path, like %q", path.Clean(p))
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w %q: %s", ErrBadPath, p, why)
}

// ancestors returns the paths above p, from its parent up, without the root.
func ancestors(p string) []string {
	var up []string
	for {
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return up
		}
		p = p[:i]
		up = append(up, p)
	}
}
