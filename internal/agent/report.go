package agent

import (
	"maps"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
)

// reported has the reported problems, by subject.
type reported map[string]string

// isNew reports whether a problem differs from the last one of the same subject. A nil err ends the problem.
func (r reported) isNew(what string, err error) bool {
	if err == nil {
		delete(r, what)
		return false
	}
	text, before := err.Error(), r[what]
	r[what] = text
	return before != text
}

// forget forgets the problems of one kind that are gone: a problem that comes back is reported again.
func (r reported) forget(about string, now map[string]bool) {
	maps.DeleteFunc(r, func(what, _ string) bool { return strings.HasPrefix(what, about) && !now[what] })
}

// report reports on a pod, or with an empty uid on the node: in the log, and in a cluster as an event.
func (c *controller) report(uid, reason, text string, warning bool) {
	c.counts.work.Reported(reason)
	log := map[bool]func(string, ...any){false: c.opts.Log.Info, true: c.opts.Log.Warn}[warning]
	pod := c.inventory.Pods.NameOf(uid)
	c.counts.events.Add(view.Event{At: c.counts.now(), About: pod, Reason: reason, Text: text, Warning: warning})
	log(reason, "pod", pod, "text", text)
	e := cluster.Event{Reason: reason, Text: text, Warning: warning}
	if c.cluster.connected.tell(c.inventory.Pods.Pod(uid), e); uid == "" && c.cluster.connected != nil {
		c.cluster.connected.client.Event(e)
	}
}

// limited returns a function that reports why a workload is back at its limit. The cause may come and go within
// seconds: there is one event for each workload, and one for each cause on its pod.
func limited(c *controller) func(w *workload.Workload, cause, text string) {
	const reason = v1alpha1.EventCPUBurstLimited
	return func(w *workload.Workload, cause, text string) {
		c.counts.work.Reported(reason)
		c.counts.events.Renew(view.Event{At: c.counts.now(), About: w.Name, Reason: reason, Text: text})
		c.opts.Log.Info(reason, "workload", w.Name, "reason", text)
		c.cluster.connected.tell(c.inventory.Pods.Pod(w.Pod.UID), cluster.Event{Reason: reason, Text: w.Name + ": " + text, Topic: w.Name + " " + cause})
	}
}

// tell sends an event of a pod, if there is a cluster and the pod has an object in it.
func (s *connections) tell(p *cluster.Pod, e cluster.Event) {
	if s != nil && p != nil && p.Object.UID != "" {
		e.On = p.Object
		s.client.Event(e)
	}
}

// reportOnce reports a problem of a policy or configuration when it is new, and not again while it lasts.
func (c *controller) reportOnce(what, uid string, err error) {
	if c.reported.isNew(what, err) {
		c.report(uid, v1alpha1.EventInvalidPolicy, err.Error(), true)
	}
}

// Prefixes of the keys in controller.reported, by subject.
const (
	aboutBurst     = "burst of "
	aboutConfigMap = "ConfigMap "
	aboutPool      = "sharedPool "
)

// publish writes the NodeTopology of this node. While the machine was never read, publish only sets the conditions of
// the NodeTopology of an earlier agent: its condition Pinnable would otherwise stay true.
func (c *controller) publish() {
	if c.cluster.connected == nil {
		return
	}
	s := c.assignment.Snapshot()
	spec, status, known := c.hardware.Topology(s, c.inventory.Pods.Unplaced)
	status.AgentVersion = c.opts.Version
	switch {
	case c.hardware.Unread != nil:
		status.SetCondition(v1alpha1.ConditionReady, false, "Topology", c.hardware.Unread.Error())
	case c.documents.manifestProblem != nil:
		status.SetCondition(v1alpha1.ConditionReady, false, "Files", c.documents.manifestProblem.Error())
	case c.windows.unheard != nil:
		status.SetCondition(v1alpha1.ConditionReady, false, "Listen", c.windows.unheard.Error())
	default:
		status.SetCondition(v1alpha1.ConditionReady, true, "Working", "")
	}
	each(c, func(a conditioner) { a.AddConditions(&status) })
	if !known {
		c.cluster.connected.client.Publish(nil, &status)
		return
	}
	c.cluster.connected.client.Publish(&spec, &status)
}
