// Package profile interprets a host profile: the desired values of its knobs, the CPUs of its sets, and what is
// doubtful about it.
//
// A profile inherits from one parent, which may inherit again. Maps merge, and the entry of the nearer profile wins.
// Lists are replaced as a whole. Check checks one document, and knows the catalogue of package knob. Bind binds a whole
// profile to a machine: the named sets become CPUs, and every value that names a set becomes a CPU list. A demand that
// the machine cannot meet, such as a CPU that it does not have, is an error of Bind. Lint finds what the machine can do
// but the author most likely did not intend.
//
// # Sets
//
// A set begins as all online CPUs, as the CPUs of its numaNodes, or as its list. With coresPerNUMANode it retains that
// many whole cores of each node, those with the lowest CPUs. Then the CPUs of the sets in without are removed. An empty
// set is an error.
//
// The built-in profiles are YAML texts of this package. A file in the directory of profiles hides the built-in profile
// of the same name.
package profile
