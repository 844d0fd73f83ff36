// Package profile says what a host profile means: which values its knobs shall have, which
// CPUs its sets are, and what is doubtful about it.
//
// A profile inherits from one other, which may inherit again: maps merge, where the nearer
// entry counts, and lists are replaced. Check looks at one document, and knows the catalogue
// of package knob. Bind joins a whole profile with a machine: the named sets become CPUs,
// and every value that names one becomes a CPU list. What a machine cannot fulfil, such as
// a CPU that it does not have, is an error there. Lint looks at what can be fulfilled and
// is most likely not meant.
//
// # Sets
//
// A set begins as all online CPUs, those of its numaNodes, or those that it lists. With
// coresPerNUMANode it keeps that many whole cores of each node, those with the lowest
// CPUs. Then the CPUs of the sets in without go. An empty set is an error.
//
// The built-in profiles are YAML texts of this package; a file in the directory of profiles
// hides the one of its name.
package profile
