package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/test/cluster/vmnode"
)

// look is a shell script that finds a process of a pod by its control group, and prints the CPUs, memory nodes and
// quota that the kernel permits it, and cpu.idle of the pod's group. It runs outside the container, because most images
// have no shell. %s is the pod's UID as both cgroup drivers write it. The script starts few programs: an emulated machine has some hundred processes,
// and one program per process would take ten seconds.
const look = `for f in $(grep -l '%s' /proc/[0-9]*/cgroup 2>/dev/null); do
  p=${f%%/cgroup}
  read -r name 2>/dev/null <$p/comm || continue
  [ "$name" = pause ] && continue
  grep -h '^[CM][a-z]*_allowed_list' $p/status
  group=$(sed -n 's/^0:://p; s/^[0-9]*:[a-z,]*\bcpu\b[a-z,]*://p' $p/cgroup | head -1)
  for file in /sys/fs/cgroup${group%%/*}/cpu.idle /sys/fs/cgroup/cpu${group%%/*}/cpu.idle; do
    { read -r idle <$file && printf 'cpu.idle:\t%%s\n' "$idle"; } 2>/dev/null
  done
  cat /sys/fs/cgroup$group/cpu.max 2>/dev/null ||
    echo $(cat /sys/fs/cgroup/cpu$group/cpu.cfs_quota_us) $(cat /sys/fs/cgroup/cpu$group/cpu.cfs_period_us)
  exit 0
done
exit 3`

// seen is the kernel's view of a pod's process, and of the pod's group.
type seen struct {
	CPUs, Mems, Quota string
	// Idle is cpu.idle of the group, "" if the kernel does not have that file.
	Idle string
}

func (s seen) String() string {
	if s.CPUs == "" {
		return "-"
	}
	return fmt.Sprintf("cpus %s mems %s quota %s", s.CPUs, s.Mems, s.Quota)
}

// kernel reads the kernel of the pod's node, on this host or in its virtual machine.
func (t *tour) kernel(ctx context.Context, p *v1.Pod) seen {
	if p.Status.Phase != v1.PodRunning {
		return seen{}
	}
	uid := string(p.UID)
	out, _ := t.on(ctx, p.Spec.NodeName, fmt.Sprintf(look, uid+`\|`+strings.ReplaceAll(uid, "-", "_"))) // A pod that ended has no process.
	return parse(out)
}

// on runs a shell script on a node, on this host or in the node's virtual machine, and returns what it printed.
func (t *tour) on(ctx context.Context, node, script string) (string, error) {
	if machine, err := vmnode.Open(t.cluster.Dir(node)); err == nil {
		return machine.Run(ctx, script)
	}
	said, err := exec.CommandContext(ctx, "/bin/sh", "-c", script).Output()
	if err != nil {
		return string(said), fmt.Errorf("script on %s: %w", node, err)
	}
	return string(said), nil
}

// parse parses the output of look.
func parse(out string) seen {
	var s seen
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		name, value, found := strings.Cut(line, ":\t")
		switch {
		case found && name == "Cpus_allowed_list":
			s.CPUs = value
		case found && name == "Mems_allowed_list":
			s.Mems = value
		case found && name == "cpu.idle":
			s.Idle = value
		case !found && line != "":
			// A kernel that gets too little CPU doubles period and quota, which is the same rate.
			s.Quota = string(cgroup.ScaleTo(cgroup.Value(line), bench.Period))
		}
	}
	return s
}
