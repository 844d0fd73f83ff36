package place

// SnapshotAnew returns a Snapshot that is made now.
func SnapshotAnew(n *Node) *Snapshot {
	n.settle()
	return snapshotOf(n)
}
