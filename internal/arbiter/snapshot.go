package arbiter

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
)

// Snapshot is what people are shown.
type Snapshot struct {
	// Exclusive are the CPUs that pods have for themselves, with the siblings
	// that stay empty. Shared are those of all other containers.
	Exclusive, Shared cpuset.Set
	// Free are the CPUs that a pod could still get, efficiency cores not counted.
	Free cpuset.Set
	// Nodes is by the NUMA nodes of the topology.
	Nodes         []NodeFree
	Fragmentation placement.Fragmentation
	// Overcommitted says that the shared pool is; Text is the sentence, empty
	// where it is not.
	Overcommitted     bool
	OvercommittedText string
	// Rows are all containers that are known, by pod and name.
	Rows []Row
}

// NodeFree says what is free in a NUMA node.
type NodeFree struct {
	ID                  int
	FreeCPUs, FreeCores int
}

// Row is one container for people.
type Row struct {
	ContainerID, PodUID, Pod, Container string
	Phase                               Phase
	// Has is what it was last seen with, Wants what it should have; empty where
	// that is not known, or what it had before Berth.
	Has, Wants cpuset.Set
	Mems       cpuset.Set
	Pinned     bool
	// Why is one sentence.
	Why string
}
