package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/reconcile"
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

// tell reports on a pod, or with an empty uid on the node: in the log,
// and in a cluster as an event.
func (c *controller) tell(uid, reason, text string, warning bool) {
	log := c.opts.Log.Info
	if warning {
		log = c.opts.Log.Warn
	}
	log(reason, "pod", c.inventory.NameOf(uid), "text", text)
	if c.around == nil {
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
	c.around.client.Event(e)
}

// drifted reports that another writer has a value now.
func (c *controller) drifted(e reconcile.Event) {
	c.drifts++
	c.opts.Log.Warn(e.Reason, "workload", e.Workload, "group", e.Group, "reason", e.Text)
}

// tellOnce reports a problem when it is new, and not again while it lasts.
func (c *controller) tellOnce(what, reason, uid string, err error) {
	if c.reported.isNew(what, err) {
		c.tell(uid, reason, err.Error(), true)
	}
}

// What problems are about: how their keys in controller.reported begin.
const (
	aboutBurst     = "burst of "
	aboutConfigMap = "ConfigMap "
)

// placeEvents returns what place reports, and writes its placements to their pods.
func (c *controller) placeEvents() []capability.Event {
	var all []capability.Event
	for _, n := range c.inventory.Events() {
		if n.Reason != "" {
			all = append(all, capability.Event{PodUID: n.PodUID, Reason: n.Reason, Text: n.Text, Warning: n.Warning})
		}
		if n.Annotation != nil || n.Unplaced {
			c.annotate(n)
		}
	}
	return all
}

// annotate writes a placement that was decided here to its pod, or removes one that
// the pod has nothing of.
func (c *controller) annotate(n place.Event) {
	p := c.inventory.Pod(n.PodUID)
	if c.around == nil || p == nil || p.Object.UID == "" {
		return
	}
	if n.Annotation == nil {
		c.around.client.Annotate(p.Object, v1alpha1.AnnotationPlacement, nil)
		return
	}
	value := n.Annotation.Encode()
	c.around.client.Annotate(p.Object, v1alpha1.AnnotationPlacement, &value)
}

// publish writes the NodeTopology of this node.
func (c *controller) publish() {
	if c.around == nil || c.machine.Topology == nil {
		return
	}
	s := c.inventory.Snapshot()
	spec, status := c.machine.Report(s)
	status.AgentVersion, status.KubeletCPUManagerPolicy = c.opts.Version, c.machine.kubelet.Config.CPUManagerPolicy
	c.addConditions(&status, s)
	c.around.client.Publish(&spec, &status)
}

func (c *controller) addConditions(status *v1alpha1.NodeTopologyStatus, s place.Snapshot) {
	switch {
	case c.manifestProblem != nil:
		status.SetCondition(v1alpha1.ConditionReady, false, "Files", c.manifestProblem.Error())
	case c.unheard != nil:
		status.SetCondition(v1alpha1.ConditionReady, false, "Listen", c.unheard.Error())
	default:
		status.SetCondition(v1alpha1.ConditionReady, true, "Working", "")
	}
	if o := c.inventory.Obstacle(); o.Reason == "" {
		status.SetCondition(v1alpha1.ConditionPinnable, true, "Working", c.limits())
	} else {
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, o.Message)
	}
	reason := "Enough"
	if s.Overcommitted {
		reason = "TooMuchRequested"
	}
	status.SetCondition(v1alpha1.ConditionSharedPoolOvercommitted, s.Overcommitted, reason, s.OvercommittedText)
}

// limits says what Berth leaves alone on this node although it sets CPUs: memory nodes
// that the kubelet owns, and masks of threads that this kernel forgets.
func (c *controller) limits() string {
	said := slices.DeleteFunc([]string{c.machine.kubelet.MemsOwner(), c.reconciler.Limits()}, func(s string) bool { return s == "" })
	return strings.Join(said, "; ")
}
