package offline

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/isolate"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
)

// probeEvery is how often the kernel is asked again: the first group with the cpu controller
// may come after the agent.
const probeEvery = time.Minute

// resizing is why a pod has no precedence for a while: the kubelet writes a weight, which the
// kernel refuses of an idle group.
const resizing = "off while the kubelet resizes the pod"

// Precedence is who goes first on a CPU that two groups want, for one workload.
type Precedence struct {
	// Group is the one that has it, Value "idle" or a Group Identity; both are empty where
	// nothing is set, or where the kernel does not do what is.
	Group string `json:"group,omitempty"`
	Value string `json:"value,omitempty"`
	// Source is where it is asked for, Reason why it is not done, and Undone what else is
	// asked for that Berth does not do.
	Source string `json:"source,omitempty"`
	Reason string `json:"reason,omitempty"`
	Undone string `json:"undone,omitempty"`
}

// precedences decides them for all workloads of this node.
type precedences struct {
	host Prober
	root *hostfs.Root
	date func() time.Time

	// reported says that status has the support, asked that a container asks for something.
	reported, asked bool
	support         Support
	probed          bool
	probeAt         time.Duration
	// containers, koordlet and means are what was decided by last.
	containers []capability.Container
	koordlet   string
	means      isolate.Means
	policy     string // how classes are kept apart
	// offline are the groups of offline work for which cpuQOS is enabled.
	offline []string
	// desired and rows, by the name of the container, are what was decided, and since says
	// when a container first had a row.
	desired []plan.Desired
	rows    map[string]Precedence
	since   map[string]time.Time
	// problems are what was reported of each pod, or workload.
	problems map[string]string
}

// idle says that groups are.
func (p *precedences) idle() bool {
	for _, row := range p.rows {
		if row.Value == string(cgroup.Idle) {
			return true
		}
	}
	return false
}

// report returns the rows of the workloads that ask for a precedence. unenforced is why the kernel
// does not do what is set, "" where it does.
func (p *precedences) report(cookie func(group string) string, unenforced string) []capability.Row {
	var rows []capability.Row
	for i := range p.containers {
		c := &p.containers[i]
		if row, has := p.rows[c.Name]; has {
			if unenforced != "" && row.Value != "" {
				row.Group, row.Value, row.Reason = "", "", unenforced
			}
			w := Workload{Precedence: &row}
			if slices.Contains(p.offline, c.Whole()) {
				w.CoreScheduling = cookie(c.Whole())
			}
			rows = append(rows, capability.Row{
				Workload: capability.Workload{Name: c.Name, Group: c.Group, State: stateActive, Since: p.since[c.Name], Policy: string(v1alpha1.CPUBurstNone)},
				Section:  w,
			})
		}
	}
	return rows
}

// decide says what is desired of the containers of a node, also of a pod between two starts of
// its container. The kernel is asked where that or a report depends on it. Nothing is read, and nothing decided anew, until something
// changed.
func (p *precedences) decide(n *capability.Node, policy string) capability.Decision {
	means, known := p.look(n, policy)
	if known {
		return capability.Decision{Settings: p.desired}
	}
	p.containers, p.koordlet, p.means, p.policy = n.Containers, n.Koordlet, means, policy
	p.desired, p.rows, p.offline = nil, map[string]Precedence{}, nil
	before, since := p.problems, p.since
	p.problems, p.since = map[string]string{}, map[string]time.Time{}
	var d capability.Decision
	set := map[string]bool{}
	for i := range n.Containers {
		c := &n.Containers[i]
		row, problem := p.of(c)
		if problem.Text != "" && p.problems[c.PodUID] == "" { // once for all containers of a pod
			if p.problems[c.PodUID] = problem.Text; before[c.PodUID] != problem.Text {
				d.Events = append(d.Events, problem)
			}
		}
		p.note(c.Name, row, since)
		if row.Value != "" && !set[row.Group] {
			set[row.Group] = true
			p.desired = append(p.desired, desire(c, row))
		}
	}
	d.Settings = p.desired
	return d
}

// asks says whether a container, or its class, asks for anything that is reported of it.
func asks(c capability.Container) bool {
	_, own := c.Annotations[v1alpha1.AnnotationCPUQOS]
	return own || c.QOS.CPUQOS != nil || c.QOS.ResctrlQOS != nil
}

// look asks the kernel where somebody asks for its answer, and says whether all is as it was when it
// decided last.
func (p *precedences) look(n *capability.Node, policy string) (means isolate.Means, known bool) {
	known = p.rows != nil && same(p.containers, n.Containers) && p.policy == policy
	if !known {
		p.asked = policy == v1alpha1.CPUPolicyCoreSched || slices.ContainsFunc(n.Containers, asks)
	}
	if (p.asked || p.reported) && (!p.probed || n.Now >= p.probeAt) {
		p.support, p.probed, p.probeAt = probe(p.host, p.root), true, n.Now+probeEvery
	}
	means = isolate.Means{Identity: p.support.GroupIdentity.Support == kernel.Supported, Idle: p.support.Idle.Support != kernel.Unsupported}
	return means, known && p.koordlet == n.Koordlet && p.means == means
}

// note keeps what a container gets, and since when.
func (p *precedences) note(name string, row Precedence, since map[string]time.Time) {
	if row == (Precedence{}) {
		return
	}
	p.rows[name], p.since[name] = row, since[name]
	if _, was := since[name]; !was {
		p.since[name] = p.date()
	}
}

// same says whether two lists are the same one: it is made anew when something changed.
func same(a, b []capability.Container) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// of returns what one container gets, and what its pod is to hear of it, if anything.
func (p *precedences) of(c *capability.Container) (row Precedence, problem capability.Event) {
	report := func(reason string, err error) {
		problem = capability.Event{PodUID: c.PodUID, Reason: reason, Text: err.Error(), Warning: true}
	}
	q, refused, unknown := isolate.QOSOf(c.Annotations, c.Class, c.QOS.CPUQOS, c.QOSSource)
	if err := append(refused, unknown...).Err(); err != nil {
		report(v1alpha1.EventInvalidPolicy, err)
	}
	if len(refused) > 0 {
		return Precedence{Source: q.Source, Reason: refused.Err().Error()}, problem
	}
	if row.Undone = p.undone(q, c); row.Undone != "" || q.Enabled {
		row.Source = q.Source
	}
	if !q.Enabled {
		return row, problem
	}
	p.count(c)
	want, err := q.Precedence(c.Class, p.means)
	switch {
	case p.koordlet != "":
		row.Reason = "left to koordlet (pod " + p.koordlet + ")"
	case err != nil:
		row.Reason = err.Error()
		if q.Own || c.Class.Offline() {
			report(v1alpha1.EventIsolationLimited, err)
		}
	default:
		row.set(c, valueOf(want))
	}
	return row, problem
}

// count counts the group of a container among those of offline work, unless it is not its own.
func (p *precedences) count(c *capability.Container) {
	if c.Class.Offline() && ownGroup(c) == nil && !slices.Contains(p.offline, c.Whole()) {
		p.offline = append(p.offline, c.Whole())
	}
}

// undone says what is asked for beside precedence that Berth does not do, "" for nothing.
func (p *precedences) undone(q isolate.QOS, c *capability.Container) string {
	var all []string
	if q.Enabled && q.Expel && c.Class.Offline() && p.policy != v1alpha1.CPUPolicyCoreSched {
		all = append(all, "coreExpeller: it needs cpuPolicy coreSched")
	}
	if enabled, _ := c.QOS.ResctrlQOS["enable"].(bool); enabled {
		all = append(all, "resctrlQOS: Berth sets no cache and no memory bandwidth")
	}
	return strings.Join(all, "; ")
}

// set says which group has the value, or why none has it.
func (p *Precedence) set(c *capability.Container, value string) {
	err := ownGroup(c)
	switch {
	case value == "":
	case c.Resizing:
		p.Reason = resizing
	case err != nil:
		p.Reason = err.Error()
	default:
		p.Group, p.Value = c.Whole(), value
	}
}

// ownGroup says why what is decided of a container cannot be done to a group: it has none for
// itself.
func ownGroup(c *capability.Container) error {
	uid := c.PodUID
	if c.Pod == "" { // a workload of a host without Kubernetes
		uid = ""
	}
	return isolate.OwnGroup(c.Whole(), uid)
}

func valueOf(p isolate.Precedence) string {
	switch {
	case p.Idle:
		return string(cgroup.Idle)
	case p.Identity != nil:
		return strconv.FormatInt(*p.Identity, 10)
	}
	return ""
}

// desire is the setting of a row. Whoever gives an idle group a weight owns that weight: the
// kubelet's of a pod, or an administrator's of a unit.
func desire(c *capability.Container, row Precedence) plan.Desired {
	knob := cgroup.KnobPrecedence
	if row.Value != string(cgroup.Idle) {
		knob = cgroup.KnobIdentity
	}
	return plan.Desired{
		Setting: plan.Setting{
			Target: cgroupfile.Target(row.Group, knob), Value: plan.Value(row.Value), Owner: plan.OwnerIsolate,
			Workload: cmp.Or(c.Pod, c.Name), Why: "who goes first on a CPU, by " + row.Source,
		},
		Writers: plan.Writers{Owned: knob == cgroup.KnobPrecedence},
	}
}
