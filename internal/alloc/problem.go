package alloc

// problem is one exact search: the best n CPUs of those that may be given out.
type problem struct {
	n     int
	free  mask // every free CPU
	whole bool // each core is taken wholly or not at all
	one   bool // at most one CPU of a core
	clean bool // only wholly free cores
	bind  Bind
	least Strategy
	// prefer holds node indices; picky says that there are any.
	prefer mask
	picky  bool
	// single and across are the nodes that an answer of one node, and of
	// several, may use. home: also CPUs that are in no node.
	single, across mask
	home           bool
	// only is the L3 that everything must be in, none for any.
	only int
	// most is the greatest number of nodes allowed.
	most  int
	chain int // whole: the threads of a core, which others must divide
}
