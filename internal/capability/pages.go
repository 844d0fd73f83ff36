package capability

import (
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Slack is how much memory may be elsewhere when memory nodes are narrowed: on cgroup v2 the write moves all of it at
// once.
const Slack = 64 << 20

// Pages are the pages of a group that localize moves.
type Pages struct {
	// Moving is true while a pass moves them.
	Moving bool
	// Home are the memory nodes to which a pass moved all that it could, as the kernel writes the list, "" for none.
	Home string
	// Measured is true once PerNode is known: the bytes that can move, by memory node.
	Measured bool
	PerNode  observed.Bytes
}

// Stay reports whether the pages must move before the group's memory nodes become these: otherwise the write moves too
// many of them at once. What a finished pass left elsewhere holds nothing back.
func (p *Pages) Stay(to cpuset.Set) bool {
	switch {
	case p.Moving:
		return true
	case p.Home != "" && p.Home == to.String():
		return false
	case !p.Measured:
		return true
	}
	return p.PerNode.Outside(to) > Slack
}
