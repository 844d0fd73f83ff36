// Package top shows one host live in a terminal: the holder and the load of each CPU, and the credit, the throttling
// and the reasons of each workload. All data comes from views, which the caller provides as they change. It
// writes nothing.
//
// It has two halves. A screen turns a view and the user's selection into a frame and depends on nothing else. The model
// turns keys and views into a screen. Cores are laid out as in package picture. A holder has a letter, and its color
// only repeats the letter. Texts of a workload or its user are shown without control characters.
//
// A cluster is a list of nodes from a view.Cluster; each opened node is shown like a host.
//
// Without a terminal, Plain or PlainCluster writes one frame of ASCII at full length.
package top
