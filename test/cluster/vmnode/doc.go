// Package vmnode is a Kubernetes node in a virtual machine: two sockets, two NUMA nodes, sibling threads, cgroup v2 and
// the systemd driver on any host, joined to an API server of this host.
//
// # Parts
//
// The machine, the emulation and the kernel [kernel.Own] come from test/kernel. The root file system is a minimal
// Debian with systemd. debootstrap makes it once, and the cache identifies it by its inputs (release, packages, the
// files in rootfs). Each node has its own copy, which survives power cuts. Start makes a second disk with everything
// that differs between nodes: programs, credentials, configuration, images. The guest mounts it read-only at
// /opt/berth, runs its script setup, and starts containerd, kubelet and kube-proxy as systemd services.
//
// # Addresses
//
// QEMU's user network needs no bridge and no rights. QEMU makes the guest's connections from the host, and 10.0.2.2 is
// the host's loopback. In the other direction QEMU listens on the node's address on the host and forwards the kubelet's
// port. The guest also has that address, on its loopback device. So the node's address is the same on both sides, and
// logs, exec and port-forward work. The guest has routes only to the API server, the registry and the services; it can
// reach nothing else.
//
// # Talking to the guest
//
// The program guest runs commands for the host, each over a separate connection that QEMU forwards; [Node.Exec] is the
// host's side. The kernel's console and the journal of all services are files in the node's directory, readable also
// when the guest is dead.
//
// Processors are emulated (TCG). An emulated node proves mechanisms; it measures nothing.
package vmnode
