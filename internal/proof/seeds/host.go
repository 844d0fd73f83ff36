package seeds

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// documentCPUs is the limit of the pods of the documents.
const documentCPUs = 4

// host measures the experiments on this host.
type host struct {
	Options

	machine *topology.Topology
}

// Opened is an experiment that is ready to run. It is for one goroutine.
type Opened interface {
	// Load describes the load, as a part of a sentence.
	Load() string
	// Run measures an arm of a repetition.
	Run(ctx context.Context, a Arm) (Values, error)
	// Close removes what Run and the opening left.
	Close() error
}

// Limit returns the limit in CPUs of what is measured on a machine with so many CPUs: that of the documents, or less so
// that as many CPUs are left.
func Limit(online int) int { return max(1, min(documentCPUs, online/2)) }

// cpus returns how many CPUs a measured group has.
func (h host) cpus() int { return Limit(h.machine.Online.Size()) }

// quotaOf is the quota of a limit.
func (h host) quotaOf(cpus int) unit.Micros { return unit.CPUs(cpus).Quota(bench.Period) }

// agent starts an agent on a stage with a limit. It never gives the reserved CPUs away.
func (h host) agent(stage *bench.Stage, cpus int, annotations map[string]string, reserved cpuset.Set) (*bench.Agent, error) {
	return bench.StartAgent(bench.AgentSetup{
		Threshold: h.Place.Threshold, Reserved: reserved,
		Workloads: []bench.AgentWorkload{{Name: "seed", Cgroup: stage.Path(), LimitCPUs: float64(cpus), Annotations: annotations}},
	})
}

// pin starts an agent that pins a stage, and waits until the stage has its CPUs. With a policy these may be more.
func (h host) pin(ctx context.Context, stage *bench.Stage, cpus int, policy string, reserved cpuset.Set) (*bench.Agent, error) {
	annotations := map[string]string{"cpuset-scheduler": "true"}
	if policy != "" {
		annotations["cpu-policy"] = policy
	}
	agent, err := h.agent(stage, cpus, annotations, reserved)
	if err != nil {
		return nil, err
	}
	var has cpuset.Set
	err = agent.React(ctx, stage.Path(), bench.ErrNotPinned, func() (bool, error) {
		writes, err := agent.Writes()
		if err != nil {
			return false, err
		}
		has, err = stage.Group().Handle().EffectiveCPUs()
		return has.Size() == cpus || policy != "" && writes > 0, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pin %s to %d CPUs (it has %s): %w", stage.Path(), cpus, has, err), agent.Remove())
	}
	return agent, nil
}

// scatter returns CPUs of as many L3 domains, then cores, as there are.
func (h host) scatter(from cpuset.Set, n int) cpuset.Set {
	var chosen cpuset.Set
	for chosen.Size() < n {
		best, least := -1, 0
		for cpu := range from.Difference(chosen).All() {
			if beside := h.beside(chosen, cpu); best < 0 || beside < least {
				best, least = cpu, beside
			}
		}
		if best < 0 {
			break
		}
		chosen = chosen.Add(best)
	}
	return chosen
}

// beside is larger the more of the chosen CPUs share an L3 cache, and above all a core, with a CPU.
func (h host) beside(chosen cpuset.Set, cpu int) int {
	n := 0
	for _, c := range h.machine.Cores {
		if c.CPUs.Contains(cpu) {
			n += 1000 * c.CPUs.Intersect(chosen).Size()
		}
	}
	for _, l3 := range h.machine.L3 {
		if l3.CPUs.Contains(cpu) {
			n += l3.CPUs.Intersect(chosen).Size()
		}
	}
	return n
}
