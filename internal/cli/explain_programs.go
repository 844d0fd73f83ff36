package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/program"
)

// programsAnswer bounds the time for reading the programs of a workload.
const programsAnswer = 2 * time.Second

var errNotRunning = errors.New("--root is no host that runs")

// programs returns the programs of a workload whose quota moves, nil for other workloads.
func (g *globals) programs(ctx context.Context, x explanation) *program.Found {
	moves := false
	for _, v := range x.views {
		moves = moves || v.Moves
	}
	if !moves {
		return nil
	}
	found, err := g.runningIn(ctx, x.Workload.Workload)
	if err != nil {
		return &program.Found{Answer: program.Unknown, Why: err.Error()}
	}
	return &found
}

func (g *globals) runningIn(ctx context.Context, w capability.Workload) (found program.Found, err error) {
	ctx, cancel := context.WithTimeout(ctx, programsAnswer)
	defer cancel()
	if g.Root != "/" {
		return found, errNotRunning
	}
	root, err := g.openRoot()
	if err != nil {
		return found, err
	}
	defer root.Close()
	host, err := cgroup.Open(root)
	if err != nil {
		return found, fmt.Errorf("programs: %w", err)
	}
	return program.Of(ctx, root, host, w.Group)
}

// programLines describe the result, one fact per line.
func programLines(found *program.Found) []string {
	if found == nil {
		return nil
	}
	var lines []string
	for _, p := range found.Processes {
		if p.Runtime == program.Go {
			lines = append(lines, fmt.Sprintf("%s (pid %d, %s) changes GOMAXPROCS as the quota moves, unless GOMAXPROCS or GODEBUG is set for it", p.Name, p.PID, p.Version))
		} else {
			lines = append(lines, fmt.Sprintf("%s (pid %d, Java) counts the quota of the moment as its processors, unless -XX:ActiveProcessorCount is set for it", p.Name, p.PID))
		}
	}
	if more := found.Following - len(found.Processes); more > 0 {
		lines = append(lines, fmt.Sprintf("%d more follow the quota", more))
	}
	switch {
	case found.Answer == program.None:
		return []string{fmt.Sprintf("none follows the quota while it runs; processes: %d", found.Looked)}
	case found.Answer == program.Unknown && found.Unseen == 0:
		return []string{"unknown whether any follows the quota: " + found.Why}
	case found.Answer == program.Unknown:
		return []string{fmt.Sprintf("unknown whether any follows the quota: %d not looked at: %s", found.Unseen, found.Why)}
	case found.Unseen > 0:
		lines = append(lines, fmt.Sprintf("%d not looked at: %s", found.Unseen, found.Why))
	}
	return lines
}
