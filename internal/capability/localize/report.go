package localize

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/node/observed"
)

// Keys of localize in the checkpoint and in the JSON of status.
const (
	name      = "localize"
	keyNode   = "memoryLocality"
	keyPasses = "memoryPasses"
	keyPods   = "memoryPods"
)

// States of a workload, with burst's names.
const (
	stateActive  capability.State = "Active"
	statePending capability.State = "Pending"
)

// state is what outlives the agent: the passes by container, and the pods by UID.
type state struct {
	Passes map[string]locality.Past
	Pods   map[string]podState
}

// Node is the state of the node as a whole.
type Node struct {
	// Off is why no page is moved on this node, empty if pages are moved.
	Off string `json:"off,omitempty"`
	// Balancing says that the kernel moves pages as well.
	Balancing bool `json:"numaBalancing,omitempty"`
}

// Memory is where the memory of a workload is, and how its last pass ended.
type Memory struct {
	LocalNodes string `json:"localNodes"`
	Ratio      int    `json:"ratio"`
	// RemotePages and Left are in base pages, all other amounts in bytes.
	RemotePages int64                   `json:"remotePages"`
	BytesByNode map[string]int64        `json:"bytesByNode"`
	FileByNode  map[string]int64        `json:"fileBytesByNode,omitempty"`
	Phase       string                  `json:"phase"`
	Policy      string                  `json:"policySource"`
	Left        map[locality.Left]int64 `json:"left,omitempty"`
	Moved       []mover.Moved           `json:"moved,omitempty"`
	Rate        float64                 `json:"bytesPerSecond,omitempty"`
	Pauses      int                     `json:"pauses,omitempty"`
	Longest     float64                 `json:"longestCallSeconds,omitempty"`
	Reason      string                  `json:"reason,omitempty"`
	Warnings    []string                `json:"warnings,omitempty"`
	// Wide says that its memory nodes are not narrowed to the local ones yet.
	Wide       bool                           `json:"wide,omitempty"`
	LastResult *v1alpha1.MemoryLocalityResult `json:"lastResult,omitempty"`
}

// Describe implements capability.Capability.
func (*Groups) Describe() capability.Info {
	of := capability.WorkloadLabels()
	return capability.Info{
		Name:    name,
		Summary: "memory of workloads moves to the NUMA nodes of their CPUs",
		Page:    "docs/memory.md",
		Keys:    []string{v1alpha1.AnnotationMemoryLocality},
		Metrics: []capability.Metric{
			{Name: "memory_local_ratio", Help: "Share of anonymous, shared and huge pages on local NUMA nodes; 0 to 1, rounded down to a hundredth.", Labels: of},
			{Name: "memory_node_bytes", Help: "Anonymous, shared and huge pages by NUMA node.", Labels: append(capability.WorkloadLabels(), "node")},
			{Name: "memory_left_pages", Help: "Base pages that the last pass left elsewhere, by reason. A page that several processes of the group have mapped counts once for each of them.", Labels: append(capability.WorkloadLabels(), "reason")},
			{Name: "memory_moved_bytes_total", Help: "Bytes moved, by NUMA nodes and size of the pages.", Counter: true, Labels: []string{"from", "to", "size"}},
			{Name: "memory_move_bytes_per_second", Help: "Rate of the current passes."},
			{Name: "memory_move_pauses_total", Help: "Pauses of passes, to spare other work.", Counter: true},
			{Name: "memory_move_longest_call_seconds", Help: "Longest call that moved pages."},
		},
		Config: fmt.Sprintf(configText, v1alpha1.DefaultMaxBandwidthMiBps),
		Reader: reader{},
	}
}

const configText = `# What workloads of a class get without the annotation koordinator.sh/memoryLocality, for
# example {lsClass: {memoryLocality: {policy: bestEffort}}}.
resource-qos-config:
  clusterStrategy: {}

locality:
  # false: no page is ever moved.
  enabled: true
  # How many MiB move in a second, of all workloads together, 0 to 65536; 0 is no limit.
  maxBandwidthMiBps: %d

`

// Outcome implements capability.Capability.
func (s *Groups) Outcome(time.Time) capability.Outcome {
	out := capability.Outcome{Node: capability.Sections{}}
	if len(s.pods) > 0 {
		out.Node[keyNode] = Node{Off: s.off, Balancing: balancing(s.opts.Root)}
	}
	for _, g := range s.order {
		row := capability.Row{Workload: capability.Workload{
			Name: g.c.Name, Group: g.c.Group, State: stateActive, Since: g.pod.since, Policy: string(v1alpha1.CPUBurstNone),
		}}
		if g.problem != nil {
			row.State, row.Reason = statePending, g.problem.Error()
		}
		row.Section = g.section()
		out.Rows = append(out.Rows, row)
	}
	return out
}

// section returns the report about a group.
func (g *group) section() Memory {
	m := Memory{
		LocalNodes: g.local.String(), Ratio: locality.Full, BytesByNode: byNode(g.at.Movable), FileByNode: byNode(g.at.File),
		Phase: string(g.pod.Phase), Policy: g.policy.Source, LastResult: g.pod.LastResult, Wide: g.wide,
		Left: g.last.Left, Moved: g.last.Moved, Rate: g.last.Rate, Pauses: g.last.Pauses, Longest: g.last.Longest.Seconds(),
		Reason: g.last.Reason, Warnings: g.last.Warnings,
	}
	if !g.local.IsEmpty() {
		m.Ratio, m.RemotePages = g.ratio(), g.at.Remote(g.local)/int64(os.Getpagesize())
	}
	return m
}

func byNode(b observed.Bytes) map[string]int64 {
	all := map[string]int64{}
	for node, n := range b {
		if n > 0 {
			all[strconv.Itoa(node)] = n
		}
	}
	return all
}

// keepFor is how long the state of pods without a running container is kept. It is also how long the state is kept that
// an earlier agent saved of pods that were not reported yet.
const keepFor = 10 * time.Minute

// State implements capability.Rememberer.
func (s *Groups) State() capability.Sections {
	if s.now-s.began > keepFor {
		s.saved = state{}
	}
	passes, pods := map[string]locality.Past{}, map[string]podState{}
	maps.Copy(passes, s.saved.Passes)
	maps.Copy(pods, s.saved.Pods)
	for _, g := range s.order {
		if g.past.Text != "" {
			passes[g.key] = g.past
		}
	}
	for uid, p := range s.pods {
		if p.Phase != "" {
			pods[uid] = p.podState
		}
	}
	out := capability.Sections{}
	if len(passes) > 0 {
		out[keyPasses] = passes
	}
	if len(pods) > 0 {
		out[keyPods] = pods
	}
	return out
}

// Recall implements capability.Capability.
func (s *Groups) Recall(saved capability.Sections) error {
	var was state
	err := errors.Join(saved.Decode(keyPasses, &was.Passes), saved.Decode(keyPods, &was.Pods))
	if err == nil {
		s.saved = was
	}
	return err
}

// way has the labels of a counter of moved bytes.
type way struct {
	from, to int
	size     string
}

// totals are the sums over all passes that ended.
type totals struct {
	bytes   map[way]int64
	pauses  int
	longest time.Duration
}

// add adds what a pass moved.
func (t *totals) add(r mover.Report) {
	for _, m := range r.Moved {
		t.bytes[way{m.From, m.To, "base"}] += m.Base
		t.bytes[way{m.From, m.To, "huge"}] += m.Huge
		t.bytes[way{m.From, m.To, "hugetlb"}] += m.HugeTLB
	}
	t.pauses += r.Pauses
	t.longest = max(t.longest, r.Longest)
}

// Measure implements capability.Measured.
func (s *Groups) Measure(add func(capability.Sample)) {
	now := totals{bytes: maps.Clone(s.moved.bytes), pauses: s.moved.pauses, longest: s.moved.longest}
	rate := 0.0
	for _, g := range s.order {
		sample := func(metric string, value float64, more ...string) {
			add(capability.Sample{Metric: metric, Value: value, Labels: append(capability.LabelsOf(g.c.Name), more...)})
		}
		if g.measured && !g.local.IsEmpty() {
			sample("memory_local_ratio", float64(g.ratio())/locality.Full)
		}
		for node, n := range g.at.Movable {
			sample("memory_node_bytes", float64(n), strconv.Itoa(node))
		}
		for reason, n := range g.last.Left {
			sample("memory_left_pages", float64(n), string(reason))
		}
	}
	for _, r := range s.under {
		now.add(r)
		rate += r.Rate
	}
	for w, n := range now.bytes {
		add(capability.Sample{Metric: "memory_moved_bytes_total", Value: float64(n), Labels: []string{strconv.Itoa(w.from), strconv.Itoa(w.to), w.size}})
	}
	add(capability.Sample{Metric: "memory_move_bytes_per_second", Value: rate})
	add(capability.Sample{Metric: "memory_move_pauses_total", Value: float64(now.pauses)})
	add(capability.Sample{Metric: "memory_move_longest_call_seconds", Value: now.longest.Seconds()})
}
