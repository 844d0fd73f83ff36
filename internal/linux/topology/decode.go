package topology

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Decode reads the JSON form of a topology: a user's description, where Discover reads the kernel's. It reads the file
// of "berth place --topology", and accepts the output of "berth topology -o json".
//
// Only cores are required. By default, the online CPUs are the CPUs of the cores, and without numaNodes there is one
// node, 0, with all of them. The default for a core's socket, numa and l3 is the entry that lists the core's CPUs.
// Unknown fields and contradictions (a CPU in two cores or two nodes, an id that does not exist, a core partly inside)
// are ErrInvalid; the message names the field.
func Decode(data []byte) (*Topology, error) {
	var doc document
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, ofField(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: text after the document, at byte %d", ErrInvalid, decoder.InputOffset())
	}
	t, err := doc.topology()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return t, nil
}

// ofField adds the allowed kind to an error about a value whose kind does not fit its field.
func ofField(err error) error {
	var kind *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &kind):
		return err
	case kind.Field == "":
		return fmt.Errorf("%w, not a value of kind %s", errNoObject, kind.Value)
	}
	return fmt.Errorf("%s: %w %s: allowed: %s", kind.Field, errKind, kind.Value, kindOf(kind.Type))
}

// kindOf describes the JSON value that a type requires.
func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[cpuset.Set]() {
		return `a CPU list in quotes, such as "0-3"`
	}
	switch t.Kind() {
	case reflect.String:
		return "a string (put it in quotes)"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object of fields"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

var (
	errNoObject = errors.New("allowed: an object with the field cores")
	errKind     = errors.New("a value of kind")
)

var errNoCores = errors.New("cores: missing: allowed: at least one core")

// document is a Topology whose cores may omit fields.
type document struct {
	Topology
	Cores []coreDocument `json:"cores"`
}

// coreDocument is a Core in which an absent or null id differs from 0.
type coreDocument struct {
	ID     *CoreID    `json:"id"`
	CPUs   cpuset.Set `json:"cpus"`
	Socket *SocketID  `json:"socket"`
	Node   *NodeID    `json:"numa"`
	L3     *L3ID      `json:"l3"`
	Kind   Kind       `json:"kind"`
}

func (d *document) topology() (*Topology, error) {
	t := d.Topology
	var inCores cpuset.Set
	for i, core := range d.Cores {
		if core.CPUs.IsEmpty() || core.CPUs.Intersects(inCores) {
			return nil, fmt.Errorf("cores[%d].cpus %q: allowed: CPUs that are in no other core, at least one", i, core.CPUs)
		}
		inCores = inCores.Union(core.CPUs)
	}
	if inCores.IsEmpty() {
		return nil, errNoCores
	}
	if t.Online.IsEmpty() {
		t.Online = inCores
	}
	if t.Online != inCores {
		return nil, fmt.Errorf("online %q: allowed: the CPUs of all cores, %q", t.Online, inCores)
	}
	if t.Offline.Intersects(t.Online) {
		return nil, fmt.Errorf("offline %q: allowed: no online CPU", t.Offline)
	}
	d.fill(&t)
	if err := t.check(d.Cores); err != nil {
		return nil, err
	}
	for i, doc := range d.Cores {
		core, err := doc.core(&t)
		if err != nil {
			return nil, fmt.Errorf("cores[%d].%w", i, err)
		}
		t.Cores = append(t.Cores, core)
	}
	slices.SortFunc(t.Cores, func(a, b Core) int { return cmp.Compare(a.ID, b.ID) })
	return &t, uniqueCores(t.Cores)
}

// fill replaces absent lists by empty lists, and adds a node if there is none.
func (d *document) fill(t *Topology) {
	t.Cores = make([]Core, 0, len(d.Cores))
	t.Sockets = append([]Socket{}, t.Sockets...)
	t.Dies = append([]Die{}, t.Dies...)
	t.Nodes = append([]Node{}, t.Nodes...)
	t.L3 = append([]L3{}, t.L3...)
	t.Caches = append([]Cache{}, t.Caches...)
	t.Warnings = append([]string{}, t.Warnings...)
	if len(t.Nodes) == 0 {
		t.Nodes = []Node{{CPUs: t.Online}}
	}
	for i := range t.Nodes {
		if t.Nodes[i].Distances == nil {
			t.Nodes[i].Distances = slices.Repeat([]int{remoteDistance}, len(t.Nodes))
			t.Nodes[i].Distances[i] = localDistance
		}
	}
}

// check verifies that the groups of CPUs are as Topology promises.
func (t *Topology) check(cores []coreDocument) error {
	groups := []*group{
		newGroup("sockets", t.Sockets, func(s Socket) (int, cpuset.Set) { return int(s.ID), s.CPUs }),
		newGroup("numaNodes", t.Nodes, func(n Node) (int, cpuset.Set) { return int(n.ID), n.CPUs }),
		newGroup("l3", t.L3, func(d L3) (int, cpuset.Set) { return int(d.ID), d.CPUs }),
		newGroup("dies", t.Dies, func(d Die) (int, cpuset.Set) { return int(d.ID), d.CPUs }),
	}
	groups[1].split = true    // a node may have part of a core, after a warning
	groups[3].repeated = true // die ids are unique only within their socket
	for _, g := range groups {
		if err := g.check(t.Online, cores); err != nil {
			return err
		}
	}
	for i, node := range t.Nodes {
		if len(node.Distances) != len(t.Nodes) {
			return fmt.Errorf("numaNodes[%d].distances: %d of them: allowed: one for each of the %d nodes", i, len(node.Distances), len(t.Nodes))
		}
		if node.MemoryBytes < 0 {
			return fmt.Errorf("numaNodes[%d].memoryBytes %d: allowed: 0 or more", i, node.MemoryBytes)
		}
		if node.HugePageBytes < 0 || node.HugePageBytes > node.MemoryBytes {
			return fmt.Errorf("numaNodes[%d].hugePageBytes %d: allowed: 0 to %d, its memoryBytes", i, node.HugePageBytes, node.MemoryBytes)
		}
		if err := checkPools(&node); err != nil {
			return fmt.Errorf("numaNodes[%d].hugePages%w", i, err)
		}
	}
	return t.checkDevices()
}

// checkDevices verifies that devices match the NUMA nodes.
func (t *Topology) checkDevices() error {
	for i, device := range t.Devices {
		if len(device.Nodes) != len(t.Nodes) {
			return fmt.Errorf("devices[%d].perNUMANode: %d of them: allowed: one for each of the %d nodes", i, len(device.Nodes), len(t.Nodes))
		}
		for j, count := range device.Nodes {
			if count < 0 || count > maxDevices {
				return fmt.Errorf("devices[%d].perNUMANode[%d] %d: allowed: 0 to %d", i, j, count, maxDevices)
			}
		}
	}
	return nil
}

// checkPools verifies the order of a node's pools, and that they fit into its hugePageBytes.
func checkPools(n *Node) error {
	last, left := int64(0), n.HugePageBytes
	for i, pool := range n.HugePages {
		if pool.PageKiB <= last {
			return fmt.Errorf("[%d].pageKiB %d: allowed: more than %d, in ascending order", i, pool.PageKiB, last)
		}
		if most := left / kibibyte / pool.PageKiB; pool.Pages < 1 || pool.Pages > most {
			return fmt.Errorf("[%d].pages %d: allowed: 1 to %d, what is left of hugePageBytes", i, pool.Pages, most)
		}
		last, left = pool.PageKiB, left-pool.Bytes()
	}
	return nil
}

// group is one list of disjoint CPU sets with ids.
type group struct {
	field    string
	split    bool // a core may be partly inside
	repeated bool // ids may repeat
	ids      []int
	cpus     []cpuset.Set
}

func newGroup[T any](field string, items []T, parts func(T) (int, cpuset.Set)) *group {
	g := &group{field: field}
	for _, item := range items {
		id, cpus := parts(item)
		g.ids, g.cpus = append(g.ids, id), append(g.cpus, cpus)
	}
	return g
}

func (g *group) check(online cpuset.Set, cores []coreDocument) error {
	var taken cpuset.Set
	for i, cpus := range g.cpus {
		if g.ids[i] < 0 || !g.repeated && slices.Contains(g.ids[:i], g.ids[i]) {
			return fmt.Errorf("%s[%d].id %d: allowed: 0 or more, each once", g.field, i, g.ids[i])
		}
		if !cpus.IsSubsetOf(online.Difference(taken)) {
			return fmt.Errorf("%s[%d].cpus %q: allowed: online CPUs that are in no other one", g.field, i, cpus)
		}
		for _, core := range cores {
			if !g.split && core.CPUs.Intersects(cpus) && !core.CPUs.IsSubsetOf(cpus) {
				return fmt.Errorf("%s[%d].cpus %q: allowed: whole cores, not a part of %q", g.field, i, cpus, core.CPUs)
			}
		}
		taken = taken.Union(cpus)
	}
	return nil
}

// find returns the id of the member that contains the CPU, None if there is none.
func (g *group) find(cpu int) int {
	for i, cpus := range g.cpus {
		if cpus.Contains(cpu) {
			return g.ids[i]
		}
	}
	return None
}

// core completes one core from the groups, and checks the ids that the document has for it.
func (d *coreDocument) core(t *Topology) (Core, error) {
	lowest, _ := d.CPUs.Min()
	core := Core{ID: CoreID(lowest), CPUs: d.CPUs, Kind: d.Kind}
	if d.ID != nil {
		core.ID = *d.ID
	}
	if !slices.Contains([]Kind{KindSame, KindPerformance, KindEfficiency}, d.Kind) {
		return Core{}, fmt.Errorf("kind %q: allowed: %q, %q or %q", d.Kind, KindSame, KindPerformance, KindEfficiency)
	}
	core.Socket = SocketID(newGroup("", t.Sockets, func(s Socket) (int, cpuset.Set) { return int(s.ID), s.CPUs }).find(lowest))
	core.Node = NodeID(newGroup("", t.Nodes, func(n Node) (int, cpuset.Set) { return int(n.ID), n.CPUs }).find(lowest))
	core.L3 = L3ID(newGroup("", t.L3, func(d L3) (int, cpuset.Set) { return int(d.ID), d.CPUs }).find(lowest))
	if err := agree("socket", d.Socket, core.Socket); err != nil {
		return Core{}, err
	}
	if err := agree("numa", d.Node, core.Node); err != nil {
		return Core{}, err
	}
	return core, agree("l3", d.L3, core.L3)
}

// agree refuses an id in a core that differs from the lists.
func agree[T ~int](field string, said *T, listed T) error {
	if said != nil && *said != listed {
		return fmt.Errorf("%s %d: allowed: %d, which lists its lowest CPU (-1: none does)", field, *said, listed)
	}
	return nil
}

func uniqueCores(cores []Core) error {
	for i := 1; i < len(cores); i++ {
		if cores[i].ID == cores[i-1].ID {
			return fmt.Errorf("cores: id %d twice: allowed: each once", cores[i].ID)
		}
	}
	if len(cores) > 0 && cores[0].ID < 0 {
		return fmt.Errorf("cores: id %d: allowed: 0 or more", cores[0].ID)
	}
	return nil
}
