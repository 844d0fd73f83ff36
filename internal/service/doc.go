// Package service installs and removes the unit by which systemd runs the agent of a host without
// Kubernetes. The text is that of the packages with the paths of this host, so that there is one
// unit and not two. The first line says who wrote the file: one without it is by hand, or of a
// package, and is neither replaced nor removed.
//
// The file is on the disk before systemd hears of it, and gone before it hears of that. Whatever
// fails in between, the same call again goes on from there.
package service
