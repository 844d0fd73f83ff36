// Package kernel runs Berth's live tests on real kernels in virtual machines. A host has only one kernel, one cgroup
// layout and one topology, and its owner may not be root.
//
// # How it works
//
// Own builds a small kernel from the distribution's linux-source package and kernel.config (eight minutes, once; cached
// by source version and options). Distro extracts the stock cloud kernel from its package without installing it. A
// guest is such a kernel, an initramfs with one static program (package guest) and the test binaries, and a machine
// that exists only as QEMU arguments: two sockets, two NUMA nodes, sibling threads. The guest mounts the cgroup layout
// that the kernel command line names, runs its jobs one by one and powers off. It reports on the second serial port in
// the lines of package job, so that kernel messages on the first cannot interrupt them.
//
// TestVM boots every cell of the matrix (kernel × cgroup layout) with the same test binaries. It judges each test by
// name: a test that fails, is missing, or skips itself fails the cell.
//
// An emulated processor needs a fifth of a second to start a test that is then killed at one of two hundred steps. So
// the one cell of `make test` makes one of seven such steps (job.Stride). The host, where it runs as root, and the
// cells of `make verify-kernels` make all of them.
//
// TestBootArguments boots once more with arguments that no cell has: a locked down kernel, isolated CPUs.
//
// TestGRUB boots from a disk with its own GRUB (GRUB, from its packages), by the BIOS and by UEFI firmware, and takes
// it through trial boots. TestBLS does the same with the entries and the configuration of Red Hat's GRUB,
// TestSystemdBoot with UEFI firmware and systemd-boot. With UEFI the kernel is the distribution's, because Berth's own
// kernel does not support such firmware. In these tests Berth's rooms change the files between the boots, and the guest
// only prints its arguments.
//
// TestUpdateGRUB boots a disk of Debian (Debian, from its packages) that keeps what the system writes. The shipped
// program runs there, and Debian's own update-grub writes GRUB's menu, also from the hooks of the kernels' packages.
// The second part of TestBLS does the same with the configuration of Red Hat's GRUB (BLS): kernels come, and the power
// fails.
//
// Each of these tests boots nine to seventeen times, and prints what booted. They, TestBootArguments and the whole
// matrix are `make verify-kernels`.
//
// TestARM64 boots nothing. It runs the shipped program of arm64 in an emulator of single programs, and compares its
// output for all recorded machines with that of the amd64 program.
//
// # Adding things
//
//   - A case: a Test function in a file named live_test.go or *_live_test.go anywhere under internal/. It runs natively
//     where it can (root, real groups) and in every cell here, together with the testdata beside it. It needs no
//     registration.
//   - A kernel or a layout: a line in Matrix, and for a kernel of another origin a function like Distro. A new layout
//     also needs its mounts in guest/mounts.go.
//   - A kernel option: a line with its reason in kernel.config, which is also the kernel of the Kubernetes nodes of
//     test/cluster/vmnode.
//   - A machine: a line in Machines. `go run ./test/kernel/vm record` then records it into testdata/machines with
//     `berth topology --capture`, and `go generate ./internal/linux/topology` writes the topology that Berth must read from
//     it.
//
// # Running
//
//	go run ./test/kernel/vm deps all             # names the Debian packages that are missing
//	go run ./test/kernel/vm build all            # fills the cache, with progress
//	go test -count=1 ./test/kernel               # the one cell
//	BERTH_VM_MATRIX=all go test -count=1 ./test/kernel
//	BERTH_VM_MATRIX=all go test -count=1 ./test/kernel -run VM/6.12-v2
//	BERTH_VM_MATRIX=all go test -count=1 ./test/kernel -run 'GRUB|BLS|SystemdBoot'
//	go run ./test/kernel/vm run -cpus 2 version  # berth on our own kernel; with -counted its clock counts instructions
//	go run ./test/kernel/vm mems -bytes 1GiB     # the memory nodes of a running group, as a table
//	go run ./test/kernel/vm pull -hz 1000        # how waiting threads get a CPU, as a table
//
// Without the packages TestVM skips, except where CI or BERTH_VM=require is set: there a machine without kernels must
// not look tested. The go command caches results and does not know what the VMs ran, hence -count=1.
//
// Processors are emulated (TCG), which works on every host, also inside another VM. An emulated topology proves
// mechanisms; it measures nothing.
package kernel
