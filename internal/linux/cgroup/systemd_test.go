package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/cgroup"
)

func TestUnitPath(t *testing.T) {
	host, _ := recorded(t, "systemd")
	for unit, want := range map[string]string{
		"web.service":         "system.slice/web.service", // it made a group with its own name
		"both.service":        "system.slice/both.service",
		"cpu.service":         "system.slice/_cpu.service",
		"pg@16-main.service":  "system.slice/system-pg.slice/pg@16-main.service",
		"a-b@1.service":       `system.slice/system-a\x2db.slice/a-b@1.service`,
		"db.service":          "shop.slice/db.service", // a service and a user have groups with that name
		"front.service":       "shop.slice/shop-front.slice/shop-front-eu.slice/front.service",
		"mem.service":         "_memory.slice/memory-x.slice/mem.service",
		"init.scope":          "init.scope",
		"session-2.scope":     "user.slice/user-1000.slice/session-2.scope",
		"user@1000.service":   "user.slice/user-1000.slice/user@1000.service",
		"system.slice":        "system.slice",
		"memory.slice":        "_memory.slice",
		"memory-x.slice":      "_memory.slice/memory-x.slice",
		"user-1000.slice":     "user.slice/user-1000.slice",
		"shop-front-eu.slice": "shop.slice/shop-front.slice/shop-front-eu.slice",
	} {
		if got, err := host.UnitPath(unit); err != nil || got != want {
			t.Errorf("UnitPath(%q) = %q, %v, want %q", unit, got, err, want)
		}
	}
	for unit, want := range map[string]error{
		"stray.service":            cgroup.ErrAmbiguous,
		"only.service":             cgroup.ErrNoGroup, // in a delegated subtree
		"agent.service":            cgroup.ErrNoGroup, // of a user and of a container
		"hidden.service":           cgroup.ErrNoGroup,
		"app.slice":                cgroup.ErrNoGroup,
		"other-front.slice":        cgroup.ErrNoGroup,
		"nobody.service":           cgroup.ErrNoGroup,
		"@.service":                cgroup.ErrNoGroup,
		"cpu.stat":                 cgroup.ErrNoGroup, // a file
		"-.slice":                  cgroup.ErrNoGroup,
		".slice":                   cgroup.ErrNoGroup,
		"":                         cgroup.ErrBadPath,
		".":                        cgroup.ErrBadPath,
		"..":                       cgroup.ErrBadPath,
		"redis":                    cgroup.ErrBadPath,
		"a\n.service":              cgroup.ErrBadPath,
		"/web.service":             cgroup.ErrBadPath,
		"system.slice/web.service": cgroup.ErrBadPath,
	} {
		if got, err := host.UnitPath(unit); !errors.Is(err, want) || got != "" {
			t.Errorf("UnitPath(%q) = %q, %v, want %v", unit, got, err, want)
		}
	}
	if _, err := host.UnitPath("agent.service"); err == nil || !strings.Contains(err.Error(), "cgroup path") {
		t.Errorf("%v does not say what helps", err)
	}
}

// TestUnitPathFollowsNoLink checks groups with cyclic links, which no kernel has, and a name of which only one stray
// copy is left.
func TestUnitPathFollowsNoLink(t *testing.T) {
	host, dir := recorded(t, "systemd")
	top := filepath.Join(dir, "sys/fs/cgroup")
	for _, name := range []string{"system.slice/web.service", "docker", "shop.slice"} {
		if err := os.RemoveAll(filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"loop.slice", "loop.service"} {
		if err := os.Symlink(".", filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := host.UnitPath("stray.service"); err != nil || got != "more.slice/stray.service" {
		t.Errorf("%q, %v", got, err)
	}
}
