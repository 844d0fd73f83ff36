package vmnode

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/vmnode/wire"
	"github.com/berth-project/berth/test/kernel"
)

// machineID returns an id for systemd that depends only on the name.
func machineID(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:32] }

// runDisk makes the second disk.
func (o Options) runDisk(ctx context.Context, token, image string) error {
	files, err := o.files(token)
	if err != nil {
		return err
	}
	stage := image + ".stage"
	if err := os.RemoveAll(stage); err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	for name, content := range files {
		file := filepath.Join(stage, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	for name, from := range o.programs() {
		if err := place(ctx, from, filepath.Join(stage, name)); err != nil {
			return err
		}
	}
	if err := guestProgram(ctx, filepath.Join(stage, "bin/guest")); err != nil {
		return err
	}
	megabytes, err := size(stage)
	if err != nil {
		return err
	}
	const own = 64 // the journal of format, and the file system's own metadata
	return disk(ctx, stage, image, fmt.Sprintf("%dM", megabytes+megabytes/8+own))
}

// programs maps paths on the second disk to paths on the host.
func (o Options) programs() map[string]string {
	all := map[string]string{
		"bin/containerd": o.Programs.Containerd, "bin/containerd-shim-runc-v2": o.Programs.Shim,
		"bin/runc": o.Programs.Runc, "bin/kubelet": o.Programs.Kubelet, "bin/kube-proxy": o.Programs.KubeProxy,
		"bin/ctr": o.Programs.Ctr, "bin/berth": o.Programs.Berth,
	}
	for _, plugin := range []string{"bridge", "host-local"} {
		if o.Programs.CNI != "" {
			all["cni/"+plugin] = filepath.Join(o.Programs.CNI, plugin)
		}
	}
	for i, image := range o.Images {
		all[fmt.Sprintf("images/%d-%s", i, filepath.Base(image))] = image
	}
	for _, file := range o.Files {
		all["files/"+filepath.Base(file)] = file
	}
	for name, from := range all {
		if from == "" {
			delete(all, name)
		}
	}
	return all
}

// place puts a file of the host at another path, as a hard link where possible.
func place(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if file, err := filepath.EvalSymlinks(from); err == nil && os.Link(file, to) == nil {
		return nil
	}
	return run(ctx, "cp", "-L", from, to)
}

// guestProgram builds the program that runs commands inside.
func guestProgram(ctx context.Context, to string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if err := kernel.Compile(ctx, filepath.Join(root, "test", "cluster", "vmnode"), to, "build", "./guest"); err != nil {
		return fmt.Errorf("build the guest's program: %w", err)
	}
	return nil
}

// size returns the total size of a tree in MiB.
func size(dir string) (int64, error) {
	var bytes int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes >> 20, err
}

// command builds the QEMU command line.
func (s state) command() []string {
	var forward strings.Builder
	for _, port := range []int{kubeletPort, wire.Port} {
		fmt.Fprintf(&forward, ",hostfwd=tcp:%s:%d-%s:%d", s.IP, port, guestAddress, port)
	}
	in := func(name string) string { return filepath.Join(s.Dir, name) }
	return append(append([]string{kernel.QEMU}, s.Machine.Arguments()...),
		"-name", "berth-"+s.Name,
		// The page cache of the host survives QEMU. After a power cut, exactly the guest's completed writes are there.
		"-drive", "if=none,id=root,format=raw,cache=unsafe,discard=unmap,file="+in(rootImage),
		"-device", "virtio-blk-pci,drive=root",
		"-drive", "if=none,id=run,format=raw,readonly=on,file="+in(runImage),
		"-device", "virtio-blk-pci,drive=run",
		"-netdev", "user,id=net,ipv6=off"+forward.String(),
		"-device", "virtio-net-pci,netdev=net,romfile=",
		"-device", "virtio-serial-pci",
		"-chardev", "file,id=journal,append=on,path="+in(JournalFile),
		"-device", "virtserialport,chardev=journal,nr=1",
		"-chardev", "file,id=console,append=on,path="+in(ConsoleFile),
		"-serial", "chardev:console",
		"-kernel", s.Kernel,
		"-append", kernel.CommandLine(append([]string{
			"root=/dev/vda", "rw", "rootfstype=ext4",
			"ip=" + guestAddress + ":::255.255.255.0:" + s.Name + ":eth0:off", "net.ifnames=0",
			// Otherwise sixteen emulated processors, which share two, would compete for the same locks at every tick.
			"skew_tick=1",
			// NUMA balancing would make every page of a program fault now and then, to see which node uses it.
			"numa_balancing=disable",
			"systemd.machine_id=" + machineID(s.Name), "systemd.hostname=" + s.Name, "systemd.show_status=0",
		}, s.Arguments...)...))
}

// start starts QEMU, and returns a channel with its exit state. QEMU holds the lock on the lock file for as long as it
// lives, so that any process can see whether the machine is on.
func (s state) start(lockFile *os.File) (pid int, ended <-chan *os.ProcessState, err error) {
	said, err := os.OpenFile(filepath.Join(s.Dir, "qemu.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, nil, err
	}
	defer said.Close()
	argv := s.command()
	cmd := exec.Command(argv[0], argv[1:]...) // Not CommandContext: the machine outlives the call.
	cmd.Stdout, cmd.Stderr = said, said
	cmd.ExtraFiles = []*os.File{lockFile}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !s.Detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started, end := make(chan error), make(chan *os.ProcessState, 1)
	go func() {
		// The kernel sends the death signal when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // The lock shows whether it has ended.
			end <- cmd.ProcessState
		}
	}()
	if err := <-started; err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", kernel.QEMU, err)
	}
	return cmd.Process.Pid, end, nil
}

// tryLock locks a file, or returns an error if another process holds the lock.
func tryLock(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), file.Close())
	}
	return file, nil
}
