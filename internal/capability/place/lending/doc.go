// Package lending has the rules of borrowed CPUs: how many CPUs a container with static-burst may use, and which cores
// it borrows. It is pure. Package place knows which cores are free and gives them out; package pin measures the
// borrowers.
//
// # Width
//
// A pod with static-burst has its limit, rounded up, reserved and keeps its quotas. It also borrows: up to twice the
// limit, but no more CPUs than it has threads, and nothing while the quota throttles it (Borrowing).
//
// # Cores
//
// The pod borrows from its domain: the L3 domain with the reserved CPUs, or else the NUMA node. It borrows from cores
// without any reserved CPU, which several borrowers may share. A Loan uses one thread of every core before a second
// thread of any core, and the least used cores first. The borrowers' own use does not count. The kernel reports use
// only per group, so it is assumed to be spread evenly. A borrower keeps a core until another core is idler by a
// quarter of a CPU.
package lending
