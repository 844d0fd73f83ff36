// Package service installs and removes the systemd unit of the agent on a host without Kubernetes. The text is that of
// the packages with the paths of this host, so that there is only one unit text. The first line names the writer. A
// file without that line was written by hand, or by a package, and is neither replaced nor removed.
//
// Install writes the file to disk before it reloads systemd, and Remove deletes the file before it does. If a call
// fails in between, the same call again continues from there.
package service
