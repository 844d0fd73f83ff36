package strategy

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
)

// Facts are the inputs to the strategies, beside the ConfigMaps.
type Facts struct {
	// NodeLabels are the labels of the node.
	NodeLabels map[string]string
	// Koordlet is true if koordlet runs on the node; see the function Koordlet.
	Koordlet bool
	// Admin is the agent's file. Its strategy applies where no ConfigMap has KeyBurst; its switch and its cap always
	// apply.
	Admin workload.Administrator
}

// Strategies are the combined policies of all ConfigMaps for one node. They are immutable. The zero value has no
// policy.
type Strategies struct {
	admin      workload.Administrator
	burst      kept[v1alpha1.BurstStrategies]
	qos        kept[v1alpha1.ResourceQOSStrategies]
	threshold  kept[v1alpha1.ResourceThresholdStrategies]
	namespaces kept[v1alpha1.NamespaceSwitch]
	selected   kept[selection]
	// restores is true if the agent restores everything that it changed.
	restores kept[bool]
	// node is the index of the node strategy of burst that matches this node, -1 for none.
	node    int
	qosNode int // like node, for qos
	// thresholdNode is like node, for threshold.
	thresholdNode int
	ignored       []Ignored
	// bestEffortOffline is true if unlabeled BestEffort pods are treated as BE here.
	bestEffortOffline bool
}

// kept is a value and the ConfigMap that it comes from.
type kept[T any] struct {
	value T
	// from is empty where no ConfigMap has a value.
	from Name
	// stale is true if a newer value could not be read.
	stale bool
}

// source describes the origin of the value; what is its place inside the ConfigMap.
func (k kept[T]) source(what string) string {
	text := "ConfigMap " + string(k.from) + ", " + what
	if k.stale {
		text += " (last good value)"
	}
	return text
}

// Parse reads the ConfigMaps. last is the previous result, nil at the start. Every call returns every problem; the
// caller reports each problem only once.
func Parse(all Maps, facts Facts, last *Strategies) (*Strategies, []Problem) {
	if last == nil {
		last = &Strategies{}
	}
	peers := facts.Admin.Peers
	maps := heeded(all, peers)
	cluster := []Name{BerthConfig, ACKConfig}
	if !facts.Koordlet {
		cluster = append(cluster, KoordinatorConfig)
	}
	var r reader
	s := &Strategies{
		admin:      facts.Admin,
		burst:      read(&r, maps, source[v1alpha1.BurstStrategies]{cluster, KeyBurst, v1alpha1.DecodeBurstStrategies}, last.burst.heeded(peers)),
		qos:        read(&r, maps, source[v1alpha1.ResourceQOSStrategies]{cluster, KeyQOS, v1alpha1.DecodeResourceQOS}, last.qos.heeded(peers)),
		threshold:  read(&r, maps, source[v1alpha1.ResourceThresholdStrategies]{cluster, KeyThreshold, v1alpha1.DecodeResourceThreshold}, last.threshold.heeded(peers)),
		namespaces: read(&r, maps, source[v1alpha1.NamespaceSwitch]{[]Name{NamespaceConfig}, KeyNamespaces, v1alpha1.DecodeNamespaceSwitch}, last.namespaces.heeded(peers)),
		selected:   r.selection(maps, last.selected.heeded(peers)),
		restores:   r.restores(maps, last.restores),
	}
	s.ignored = ignored(all, peers)
	s.node = matching(s.burst.value.NodeStrategies, facts.NodeLabels)
	s.qosNode = matching(s.qos.value.NodeStrategies, facts.NodeLabels)
	s.thresholdNode = matching(s.threshold.value.NodeStrategies, facts.NodeLabels)
	s.bestEffortOffline = s.offersOffline()
	r.capped(s)
	r.contradictions(s.namespaces)
	return s, r.problems
}

// Ignored is a ConfigMap that exists but has no effect, because readPeerConfig of the agent's file does not list its
// peer.
type Ignored struct {
	ConfigMap Name
	Peer      v1alpha1.PeerConfig
}

// Ignored returns the ConfigMaps that have no effect, in the order of Names.
func (s *Strategies) Ignored() []Ignored { return s.ignored }

func ignored(all Maps, peers []v1alpha1.PeerConfig) []Ignored {
	var found []Ignored
	for _, name := range Names() {
		if _, exists := all[name]; exists && !name.heeded(peers) {
			found = append(found, Ignored{name, name.peer()})
		}
	}
	return found
}

// heeded returns the ConfigMaps that take effect if the agent's file lists these peers.
func heeded(all Maps, peers []v1alpha1.PeerConfig) Maps {
	some := Maps{}
	for name, data := range all {
		if name.heeded(peers) {
			some[name] = data
		}
	}
	return some
}

// heeded returns k, or the zero value if its peer is not listed.
func (k kept[T]) heeded(peers []v1alpha1.PeerConfig) kept[T] {
	if k.from.heeded(peers) {
		return k
	}
	return kept[T]{}
}

// source is a key, its ConfigMaps in order of precedence, and its decoder.
type source[T any] struct {
	names  []Name
	key    string
	decode func(string) (T, v1alpha1.FieldErrors, v1alpha1.FieldErrors)
}

type reader struct{ problems []Problem }

func (r *reader) add(from Name, key, inForce string, problems v1alpha1.FieldErrors) {
	for _, problem := range problems {
		r.problems = append(r.problems, Problem{FieldError: problem, ConfigMap: from, Key: key, InForce: inForce})
	}
}

// read reads one key from the first ConfigMap that has it.
func read[T any](r *reader, maps Maps, s source[T], last kept[T]) kept[T] {
	for _, name := range s.names {
		text, found := maps[name][s.key]
		if !found {
			continue
		}
		value, refused, unknown := s.decode(text)
		if name == BerthConfig {
			// An unknown field is a typing mistake here. Peers' ConfigMaps may have fields of later versions.
			refused, unknown = append(refused, unknown...), nil
		}
		if len(refused) > 0 {
			r.add(name, s.key, last.inForce(), refused)
			last.stale = last.from != ""
			return last
		}
		r.add(name, s.key, "", unknown)
		return kept[T]{value: value, from: name}
	}
	return kept[T]{}
}

// inForce names the value that stays in force when a newer value cannot be read.
func (k kept[T]) inForce() string {
	if k.from == "" {
		return "nothing, there is no earlier value"
	}
	return "the last good value, of ConfigMap " + string(k.from)
}

// selecting is a strategy for some nodes.
type selecting interface{ Selector() *metav1.LabelSelector }

// matching returns the index of the first strategy that is for a node with these labels, or -1.
func matching[T selecting](strategies []T, node map[string]string) int {
	for i, strategy := range strategies {
		// A selector that was decoded without problems is valid.
		if selector, err := metav1.LabelSelectorAsSelector(strategy.Selector()); err == nil && selector.Matches(labels.Set(node)) {
			return i
		}
	}
	return -1
}

// capped reports ceilings above the administrator's cap, once for all pods.
func (r *reader) capped(s *Strategies) {
	check := func(from Name, field string, percent *int64) {
		if most := s.admin.MaxPercent; percent != nil && most > 0 && *percent > most {
			r.add(from, KeyBurst, "", v1alpha1.FieldErrors{s.admin.Above(field, *percent)})
		}
	}
	check(s.burst.from, "clusterStrategy.cfsQuotaBurstPercent", s.burst.value.ClusterStrategy.CFSQuotaBurstPercent)
	if node := s.nodeStrategy(); node != nil {
		check(s.burst.from, s.nodeName()+".cfsQuotaBurstPercent", node.CFSQuotaBurstPercent)
	}
	check(s.selected.from, "cfsQuotaBurstPercent", s.selected.value.policy.CFSQuotaBurstPercent)
}

func (s *Strategies) nodeStrategy() *v1alpha1.NodeBurstStrategy {
	if s.burst.from == "" || s.node < 0 {
		return nil
	}
	return &s.burst.value.NodeStrategies[s.node]
}

// SharePoolThresholdPercent returns the utilization of the shared pool, 0 to 100 percent, above which the headroom is
// divided. The bool reports whether a ConfigMap sets it.
func (s *Strategies) SharePoolThresholdPercent() (int64, bool) {
	percent := s.burst.value.ClusterStrategy.SharePoolThresholdPercent
	if node := s.nodeStrategy(); node != nil {
		percent = cmp.Or(node.SharePoolThresholdPercent, percent)
	}
	if percent == nil {
		return v1alpha1.DefaultSharePoolThresholdPercent, false
	}
	return *percent, true
}
