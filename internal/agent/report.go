package agent

import (
	"maps"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cluster"
)

// reported has the problems that were reported, by what they are about.
type reported map[string]string

// isNew says whether a problem is another one than was reported of the same. None is new
// once it is over.
func (r reported) isNew(what string, err error) bool {
	if err == nil {
		delete(r, what)
		return false
	}
	text := err.Error()
	before := r[what]
	r[what] = text
	return before != text
}

// forget forgets the problems of one kind that are not there now: one that comes
// back is reported again.
func (r reported) forget(about string, now map[string]bool) {
	maps.DeleteFunc(r, func(what, _ string) bool { return strings.HasPrefix(what, about) && !now[what] })
}

// report reports on a pod, or with an empty uid on the node: in the log,
// and in a cluster as an event.
func (c *controller) report(uid, reason, text string, warning bool) {
	c.work.Reported(reason)
	log := c.opts.Log.Info
	if warning {
		log = c.opts.Log.Warn
	}
	log(reason, "pod", c.inventory.NameOf(uid), "text", text)
	if c.connected == nil {
		return
	}
	e := cluster.Event{Reason: reason, Text: text, Warning: warning}
	if uid != "" {
		p := c.inventory.Pod(uid)
		if p == nil || p.Object.UID == "" {
			return // the pod has no object for an event
		}
		e.On = p.Object
	}
	c.connected.client.Event(e)
}

// reportOnce reports a problem when it is new, and not again while it lasts.
func (c *controller) reportOnce(what, reason, uid string, err error) {
	if c.reported.isNew(what, err) {
		c.report(uid, reason, err.Error(), true)
	}
}

// What problems are about: how their keys in controller.reported begin.
const (
	aboutBurst     = "burst of "
	aboutConfigMap = "ConfigMap "
)

// publish writes the NodeTopology of this node.
func (c *controller) publish() {
	if c.connected == nil {
		return
	}
	s := c.inventory.Snapshot()
	spec, status, known := c.pins.Topology(s)
	if !known {
		return
	}
	status.AgentVersion = c.opts.Version
	switch {
	case c.manifestProblem != nil:
		status.SetCondition(v1alpha1.ConditionReady, false, "Files", c.manifestProblem.Error())
	case c.unheard != nil:
		status.SetCondition(v1alpha1.ConditionReady, false, "Listen", c.unheard.Error())
	default:
		status.SetCondition(v1alpha1.ConditionReady, true, "Working", "")
	}
	c.pins.AddConditions(&status, s, c.reconciler.Limits())
	c.offline.AddCondition(&status)
	c.connected.client.Publish(&spec, &status)
}
