// Package lending is the law of borrowed CPUs: how wide a container with static-burst is, and
// which cores it borrows. It is pure. Package place knows which cores are free and gives them
// out, package pin measures the borrowers.
//
// # Width
//
// A pod with static-burst has its limit reserved, rounded up, and keeps its quotas. Beside that it
// borrows: up to twice the limit, as far as there are threads, and nothing while the quota
// throttles it (Borrowing).
//
// # Cores
//
// It borrows of its domain, the L3 domain that holds what is reserved or else the NUMA node: of
// the cores that nothing is reserved of. Another borrower may have them, too. A Loan takes one
// thread of every core before a second of any, of the cores that are least used first. What a CPU
// is used by the borrowers themselves does not count: the kernel says only what a group used, which
// is taken to be spread evenly. A core that a borrower has already stays until another one is
// idler by a quarter of a CPU.
package lending
