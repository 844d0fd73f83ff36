// Package smoke tests the test machine itself: two sockets, two NUMA nodes, sibling threads, the requested cgroup
// layout, and a scheduler that throttles. If one of these tests fails, no other result from that machine is meaningful.
package smoke
