// Package pages says on which NUMA node the pages of a process are, and moves them.
//
// A process is walked from mapping to mapping (maps.go). For a stretch of a mapping the
// kernel's pagemap says which pages are present, in swap, or mapped by other processes too,
// and move_pages without target nodes says on which node each of them is (look.go). The
// memory policy of a mapping and the size of its pages are in numa_maps, which is read one
// mapping at a time, and not at all where nothing has to move: the kernel counts every page
// of a mapping for a line of it, and holds the lock of the address space meanwhile
// (policy.go). move_pages with target nodes moves (move.go). None of these takes a pidfd, so
// a process is its id and its start time, compared before and after (process.go). All of them
// wait for the lock of its memory map, which a process may hold for good (within.go).
//
// The files are those of Documentation/filesystems/proc.rst, and
// Documentation/admin-guide/mm/pagemap.rst and hugetlbpage.rst; the call is
// mm/migrate.c:do_pages_move. All of them but the files of nodes (node.go) need the right
// to trace the process (ptrace_may_access, PTRACE_MODE_READ).
package pages
