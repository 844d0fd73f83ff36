package offline

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/observed"
)

// probeEvery is how often to ask the kernel again: the first group with the cpu controller may come after the agent.
const probeEvery = time.Minute

// resizing is why a pod temporarily has no precedence: the kubelet writes a weight, which the kernel refuses for an
// idle group.
const resizing = "off while the kubelet resizes the pod"

// Precedence is one workload's precedence between groups that compete for a CPU.
type Precedence struct {
	// Group is the group with the precedence, Value "idle" or a Group Identity. Both are empty if nothing is set, or if
	// the kernel does not enforce the setting.
	Group string `json:"group,omitempty"`
	Value string `json:"value,omitempty"`
	// Source is where it is requested, Reason why it is not applied, and Undone the requests that Berth does not
	// support.
	Source string `json:"source,omitempty"`
	Reason string `json:"reason,omitempty"`
	Undone string `json:"undone,omitempty"`

	since time.Time // when the workload got a precedence
}

// precedences decides the precedence of all workloads of this node.
type precedences struct {
	host Prober
	root *hostfs.Root
	date func() time.Time

	// reported means that status has the support, asked that a container asks for something.
	reported, asked bool
	support         Support
	probeAt         time.Duration
	// containers, koordlet and means are the inputs of the last decision.
	containers []observed.Workload
	koordlet   string
	means      isolate.Means
	policy     string // how classes are separated
	// offline are the groups of offline work with cpuQOS enabled.
	offline []string
	// desired and rows, by container name, are the last decision; idle means that there are idle groups.
	desired []plan.Desired
	rows    map[string]Precedence
	idle    bool
	// yields means that some offline work should be idle, also while the kubelet resizes its pod.
	yields bool
	// reserve is what that work leaves free.
	reserve reserve
	// problems are the reported problems of each pod, or workload.
	problems map[string]string
}

// report returns the rows of the workloads that ask for a precedence. unenforced is why the kernel does not enforce the
// settings, "" if it does.
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
				Workload: capability.Workload{Name: c.Name, Group: c.Group, State: "Active", Since: row.since, Policy: string(v1alpha1.CPUBurstNone)},
				Section:  w,
			})
		}
	}
	return rows
}

// unheld says why the kernel does not enforce a precedence, "" if it does or none is set.
func (p *precedences) unheld(unenforced string) string {
	if unenforced == "" || len(p.desired) == 0 {
		return ""
	}
	return "precedence: " + unenforced
}

// decide returns the desired settings of a node's containers, also of a pod between two starts of its container. It
// asks the kernel if the settings or a report depend on that. It decides again only after a change.
func (p *precedences) decide(n *capability.Node, policy string) (d capability.Decision) {
	if p.look(n, policy) {
		return capability.Decision{Settings: p.desired}
	}
	before, rows := p.problems, p.rows
	p.problems, p.rows = map[string]string{}, map[string]Precedence{}
	p.desired, p.offline, p.idle, p.yields = nil, nil, false, false
	set := map[string]bool{}
	for i := range n.Containers {
		c := &n.Containers[i]
		row, problem := p.of(c)
		if problem.Text != "" && p.problems[c.PodUID] == "" { // once for all containers of a pod
			if p.problems[c.PodUID] = problem.Text; before[c.PodUID] != problem.Text {
				d.Events = append(d.Events, problem)
			}
		}
		if row != (Precedence{}) {
			row.since = cmp.Or(rows[c.Name].since, p.date())
			p.rows[c.Name] = row
		}
		p.idle = p.idle || row.Value == isolate.Idle
		if row.Value != "" && !set[row.Group] {
			set[row.Group] = true
			p.desired = append(p.desired, desire(c, row))
		}
	}
	d.Settings = p.desired
	return d
}

// asks reports whether a container, or its class, asks for anything that is reported.
func asks(c observed.Workload) bool {
	_, own := c.Annotations[v1alpha1.AnnotationCPUQOS]
	return own || c.QOS.CPUQOS != nil || c.QOS.ResctrlQOS != nil
}

// look stores the inputs of the decision, and reports whether they are unchanged. It asks the kernel if the answer is
// needed.
func (p *precedences) look(n *capability.Node, policy string) (same bool) {
	same = p.rows != nil && observed.SameList(p.containers, n.Containers) && p.policy == policy
	if !same {
		p.asked = policy == v1alpha1.CPUPolicyCoreSched || slices.ContainsFunc(n.Containers, asks)
	}
	if (p.asked || p.reported) && n.Now >= p.probeAt {
		p.support.probe(p.host, p.root)
		p.probeAt = n.Now + probeEvery
	}
	means := isolate.Means{Identity: p.support.GroupIdentity.Support == kernel.Supported, Idle: p.support.Idle.Support != kernel.Unsupported}
	same = same && p.koordlet == n.Koordlet && p.means == means
	p.containers, p.koordlet, p.means, p.policy = n.Containers, n.Koordlet, means, policy
	return same
}

// of returns what one container gets, and the event for its pod, if any.
func (p *precedences) of(c *observed.Workload) (row Precedence, problem capability.Event) {
	report := func(reason, text string) {
		problem = capability.Event{PodUID: c.PodUID, Reason: reason, Text: text, Warning: true}
	}
	q, refused, unknown := isolate.QOSOf(c.Annotations, c.Class, c.QOS.CPUQOS, c.QOSSource)
	if err := append(refused, unknown...).Err(); err != nil {
		report(v1alpha1.EventInvalidPolicy, err.Error())
	}
	if len(refused) > 0 {
		return Precedence{Source: q.Source, Reason: refused.Error()}, problem
	}
	if row.Undone = q.Undone(c.Class, p.policy, c.QOS.ResctrlQOS); row.Undone != "" || q.Enabled {
		row.Source = q.Source
	}
	if !q.Enabled {
		return row, problem
	}
	notOwn := p.count(c)
	value, refusal := q.Precedence(c.Class, p.means)
	p.note(value, notOwn)
	switch {
	case p.koordlet != "":
		row.Reason = "left to koordlet (pod " + p.koordlet + ")"
	case refusal != "":
		row.Reason = refusal
		if q.Own || c.Class.Offline() {
			report(v1alpha1.EventIsolationLimited, refusal)
		}
	case value == "":
	case c.Resizing:
		row.Reason = resizing
	case notOwn != "":
		row.Reason = notOwn
	default:
		row.Group, row.Value = c.Whole(), value
	}
	return row, problem
}

// note records that a container should be idle, whether or not its group is idle at this moment.
func (p *precedences) note(value, notOwn string) {
	p.yields = p.yields || value == isolate.Idle && notOwn == "" && p.koordlet == ""
}

// count adds the group of a container to the groups of offline work, or returns why the container has no group of its
// own.
func (p *precedences) count(c *observed.Workload) (notOwn string) {
	uid := c.PodUID
	if c.Pod == "" { // a workload of a host without Kubernetes
		uid = ""
	}
	notOwn = isolate.NotOwn(c.Whole(), uid)
	if notOwn == "" && c.Class.Offline() && !slices.Contains(p.offline, c.Whole()) {
		p.offline = append(p.offline, c.Whole())
	}
	return notOwn
}

// desire returns the setting of a row. A program that gives an idle group a weight owns that weight: the kubelet for a
// pod, or an administrator for a unit.
func desire(c *observed.Workload, row Precedence) plan.Desired {
	knob := cgroup.KnobPrecedence
	if row.Value != isolate.Idle {
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
