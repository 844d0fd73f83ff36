package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/patience"
)

// staring is a shell script that reads the CPU sets of all groups of containers again and again, until the file %[2]s
// exists or the program that started it ends. After its first look it makes the file %[3]s. When the sets change, it
// prints the number of looks at the same sets, and each set as GROUP=CPUS. %[1]s is the group of this cluster. It looks
// again at once after a change, and otherwise %[4]s seconds later. That starts a program, which lets others run: an
// emulated machine is slow.
const staring = `for root in /sys/fs/cgroup /sys/fs/cgroup/cpuset; do
  for pods in kubepods.slice %[1]s/kubepods; do
    [ -e $root/$pods/cpuset.cpus ] && cd $root/$pods && break 2
  done
done
before= looks=0
while [ ! -e %[2]s ] && [ -d /proc/$PPID ]; do
  now=
  for file in */*/cpuset.cpus */*/*/cpuset.cpus; do
    cpus=
    { read -r cpus <$file; } 2>/dev/null
    [ -n "$cpus" ] && now="$now ${file%%/cpuset.cpus}=$cpus"
  done
  if [ "$now" != "$before" ]; then
    [ $looks -gt 0 ] && echo "$looks$before"
    before=$now looks=0
  else
    sleep %[4]s
  fi
  looks=$((looks + 1))
  [ -e %[3]s ] || : >%[3]s
done
echo "$looks$before"
rm -f %[2]s %[3]s`

// sight is what a witness saw at so many looks in succession: the CPU sets of containers by their IDs. A container
// without an own CPU set is missing.
type sight struct {
	looks int
	cpus  map[string]cpuset.Set
}

// watching is a witness at work.
type watching struct {
	tour       *tour
	node, stop string
	running    errgroup.Group
	said       string
	cancel     context.CancelFunc
}

// The seconds between two looks of a witness: as few as the machine can, or so many that the witness itself uses little
// CPU time, where the use of the machine decides what happens.
const (
	closely  = "0.01"
	sparsely = "1"
)

// witness starts a witness on a node and waits for its first look. The file stop ends it.
func (t *tour) witness(ctx context.Context, node, stop, between string) (*watching, error) {
	looked := stop + "-looked"
	// The witness itself does not remove an old file: it may start late, and would remove the file that is to end it.
	if _, err := t.on(ctx, node, "rm -f "+stop+" "+looked); err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watching{tour: t, node: node, stop: stop, cancel: cancel}
	w.running.Go(func() (err error) {
		defer cancel() // A witness that ended never looks.
		w.said, err = t.on(ctx, node, fmt.Sprintf(staring, local.Group, stop, looked, between))
		return err
	})
	if err := patience.Until(ctx, settled/4, func() string {
		if _, err := t.on(ctx, node, "[ -e "+looked+" ]"); err != nil {
			return "the witness has not looked: " + err.Error()
		}
		return ""
	}); err != nil {
		cancel()
		return nil, errors.Join(err, w.running.Wait())
	}
	return w, nil
}

// end ends the witness and returns what it saw.
func (w *watching) end() ([]sight, error) {
	defer w.cancel()
	if _, err := w.tour.on(context.Background(), w.node, "touch "+w.stop); err != nil {
		w.cancel()
		return nil, errors.Join(err, w.running.Wait())
	}
	if err := w.running.Wait(); err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	return parseSights(w.said)
}

// parseSights reads what the script of a witness printed.
func parseSights(text string) (all []sight, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		s := sight{cpus: map[string]cpuset.Set{}}
		if s.looks, err = strconv.Atoi(fields[0]); err != nil {
			return nil, fmt.Errorf("the witness printed %q: %w", line, err)
		}
		for _, field := range fields[1:] {
			group, list, _ := strings.Cut(field, "=")
			cpus, err := cpuset.Parse(list)
			if err != nil {
				return nil, fmt.Errorf("the witness printed %q: %w", field, err)
			}
			s.cpus[strings.TrimSuffix(strings.TrimPrefix(path.Base(group), "cri-containerd-"), ".scope")] = cpus
		}
		all = append(all, s)
	}
	return all, nil
}
