// Package pages reports on which NUMA node the pages of a process are, and moves them.
//
// The package reads a process mapping by mapping (maps.go). For a part of a mapping, the kernel's pagemap shows which
// pages are present, in swap, or also mapped by other processes. move_pages without target nodes returns the node of
// each page (look.go), or of a sample if the caller knows the node. move_pages with target nodes moves pages (move.go).
//
// numa_maps has the memory policy of a mapping and the size of its pages (policy.go), and shows whether all of them are
// present and unshared: pagemap then has nothing to add. The package reads numa_maps one mapping at a time, and only if
// pages have to move. For each line, the kernel counts every page of the mapping and
// holds the lock of the address space in the meantime.
//
// None of these interfaces accepts a pidfd. A process is therefore identified by its id and its start time, which the
// package compares before and after (process.go). All of them wait for the lock of the process's memory map, which the
// process may hold indefinitely (within.go).
//
// The files are documented in Documentation/filesystems/proc.rst, and Documentation/admin-guide/mm/pagemap.rst and
// hugetlbpage.rst; the system call is mm/migrate.c:do_pages_move. All of them except the files of nodes (node.go) need
// the right to trace the process (ptrace_may_access, PTRACE_MODE_READ).
package pages
