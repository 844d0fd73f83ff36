// Package smoke holds the tests of the test machine itself: two sockets, two NUMA nodes,
// sibling threads, the cgroup layout that was asked for, and a scheduler that throttles. If
// one of them fails, no other result from that machine means anything.
package smoke
