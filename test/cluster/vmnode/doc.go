// Package vmnode is a Kubernetes node in a virtual machine: two sockets, two NUMA nodes,
// sibling threads, cgroup v2 and the systemd driver on whatever host there is, joined to an
// API server of this host.
//
// # What it is made of
//
// The machine and the emulation come from test/kernel, and so does the kernel, [kernel.Own].
// The root file system is a minimal Debian with systemd, made once by debootstrap and cached
// by what made it (release, packages, the files in rootfs); each node has a copy of its own,
// which lives through power cuts. What differs from node to node is on a second disk that
// Start makes: programs, credentials, configuration, images. The guest mounts it read-only at
// /opt/berth, runs its script setup, and starts containerd, kubelet and kube-proxy as systemd
// services.
//
// # Addresses
//
// QEMU's user network needs no bridge and no rights: whatever the guest connects to, QEMU
// connects to from the host, and 10.0.2.2 is the host's loopback. In the other direction
// QEMU listens on the node's address on the host and forwards the kubelet's port. The guest
// has that address too, on its loopback device. So the node's address is the same on both
// sides, and logs, exec and port-forward work. The guest has routes to the API server, the
// registry and the services, and no others: nothing else is reached from inside.
//
// # Talking to the guest
//
// A program of ours (package guest) runs commands for the host, each over a connection of
// its own that QEMU forwards; [Node.Exec] is the host's side. The kernel's console and the
// journal of all services are files in the node's directory, readable also when the guest
// is dead.
//
// Processors are emulated (TCG). An emulated node proves mechanisms and measures nothing.
package vmnode
