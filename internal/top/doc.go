// Package top shows one host live in a terminal: which workload has which CPU and how busy each
// is, credit and throttling of each workload, and why. All that it shows is a view.View, which
// it asks for once a second; it writes nothing.
//
// Two halves: a screen turns a view, and what is selected, into a frame, and depends on nothing
// else; the model turns keys and views into a screen. Cores are laid out as in the pictures of
// package picture, a holder has a letter, and its colour only repeats what the letter says.
// Texts that a workload or its user wrote are shown without control characters.
//
// A cluster is a list of nodes made of a view.Cluster, and each node that is opened is a host.
//
// Without a terminal Plain, or PlainCluster, is the same as one frame of ASCII, as long as it has to
// be.
package top
