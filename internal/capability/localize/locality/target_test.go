package locality

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// four returns two sockets of two nodes each.
func four(t *testing.T) Nodes {
	t.Helper()
	return Nodes{
		{ID: 0, CPUs: set(t, "0-3"), Distances: []int{10, 12, 20, 22}, Bytes: 1},
		{ID: 1, CPUs: set(t, "4-7"), Distances: []int{12, 10, 22, 20}, Bytes: 1},
		{ID: 2, CPUs: set(t, "8-11"), Distances: []int{20, 22, 10, 12}, Bytes: 1},
		{ID: 3, CPUs: set(t, "12-15"), Distances: []int{22, 20, 12, 10}, Bytes: 1},
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(Nodes) Nodes
		cpus   string
		want   string
	}{
		"one node of four":        {nil, "0-3", "0"},
		"two nodes":               {nil, "2-5", "0-1"},
		"CPUs on all":             {nil, "0,4,8,12", ""},
		"no CPUs":                 {nil, "", ""},
		"one node":                {func(ns Nodes) Nodes { return ns[:1] }, "0", ""},
		"no node":                 {func(Nodes) Nodes { return nil }, "0", ""},
		"no memory: the nearest":  {func(ns Nodes) Nodes { ns[2].Bytes = 0; return ns }, "8", "3"},
		"no memory beside memory": {func(ns Nodes) Nodes { ns[2].Bytes = 0; return ns }, "3,8", "0,3"},
		"no memory, no distances": {func(ns Nodes) Nodes { ns[2].Bytes, ns[2].Distances = 0, nil; return ns }, "8", "0"},
		"memory of another tier": {func(ns Nodes) Nodes {
			ns[3].CPUs, ns[3].Tier = cpuset.Set{}, 1
			return ns
		}, "0-11", ""},
		"memory without CPUs": {func(ns Nodes) Nodes { ns[3].CPUs = cpuset.Set{}; return ns }, "0-11", "0-2"},
		"memory on one node only": {func(ns Nodes) Nodes {
			ns[0].Bytes, ns[2].Bytes, ns[3].Bytes = 0, 0, 0
			return ns
		}, "0", ""},
		"node ids with a gap": {func(ns Nodes) Nodes { return append(ns[:1:1], ns[3]) }, "12", "3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := four(t)
			if tt.change != nil {
				nodes = tt.change(nodes)
			}
			got, err := nodes.Local(set(t, tt.cpus))
			if got.String() != tt.want || errors.Is(err, ErrNoTarget) != (tt.want == "") {
				t.Errorf("%s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(Nodes)
		local  string
		room   [4]int64
		want   map[int][]int
	}{
		"nearest first":                  {nil, "0-1", [4]int64{}, map[int][]int{2: {0, 1}, 3: {1, 0}}},
		"room does not outweigh":         {nil, "0-1", [4]int64{0, 9}, map[int][]int{2: {0, 1}, 3: {1, 0}}},
		"then most room":                 {func(ns Nodes) { ns[2].Distances = nil }, "0-1", [4]int64{1, 9}, map[int][]int{2: {1, 0}, 3: {1, 0}}},
		"as far, as much room: in order": {func(ns Nodes) { ns[2].Distances = nil }, "0-1", [4]int64{}, map[int][]int{2: {0, 1}, 3: {1, 0}}},
		"never across tiers":             {func(ns Nodes) { ns[3].Tier = 1 }, "0-1", [4]int64{}, map[int][]int{2: {0, 1}}},
		"never from without memory":      {func(ns Nodes) { ns[3].Bytes = 0 }, "0", [4]int64{}, map[int][]int{1: {0}, 2: {0}}},
		"never to without memory":        {func(ns Nodes) { ns[0].Bytes = 0 }, "0-1", [4]int64{}, map[int][]int{2: {1}, 3: {1}}},
		"no local node":                  {nil, "", [4]int64{}, map[int][]int{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := four(t)
			if tt.change != nil {
				tt.change(nodes)
			}
			got := nodes.Targets(set(t, tt.local), func(n int) int64 { return tt.room[n] })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTargetsStayLocal checks that pages move only from remote nodes to local nodes, in their tier, and never to a node
// without memory.
func TestTargetsStayLocal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var nodes Nodes
		for id := range rapid.IntRange(0, 8).Draw(t, "nodes") {
			nodes = append(nodes, Node{
				ID: id, CPUs: set(t, "").Add(id), Bytes: rapid.Int64Range(0, 1).Draw(t, "bytes"), Tier: rapid.IntRange(0, 1).Draw(t, "tier"),
				Distances: rapid.SliceOfN(rapid.IntRange(10, 12), 0, 8).Draw(t, "distances"),
			})
		}
		local, err := nodes.Local(rapid.Custom(func(t *rapid.T) cpuset.Set {
			return cpuset.OfWords([16]uint64{rapid.Uint64Range(0, 255).Draw(t, "cpus")})
		}).Draw(t, "set"))
		if (err != nil) != local.IsEmpty() {
			t.Fatalf("%s, %v", local, err)
		}
		for from, all := range nodes.Targets(local, func(int) int64 { return 0 }) {
			for _, to := range all {
				if local.Contains(from) || !local.Contains(to) || nodes[to].Bytes == 0 || nodes[to].Tier != nodes[from].Tier {
					t.Fatalf("%d to %d with %s local of %+v", from, to, local, nodes)
				}
			}
		}
	})
}
