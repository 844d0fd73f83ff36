package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// Supervise is the supervisor. It starts the cluster, marks it as ready, and keeps it running until ctx ends or
// something cannot be started. Up runs it in a process with its own mount name space. It writes its progress line by
// line to out.
func Supervise(ctx context.Context, out io.Writer) error {
	lock, err := lockSupervisor(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := claim(lock); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &supervisor{out: out, start: time.Now()}
	defer s.wait.Wait()
	defer cancel()
	if err := s.run(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// supervisor starts servers and remembers which of them it waits for.
type supervisor struct {
	out      io.Writer
	start    time.Time
	programs cluster.Programs
	plane    *controlplane.ControlPlane
	wait     sync.WaitGroup
}

// say reports a finished step.
func (s *supervisor) say(format string, args ...any) {
	fmt.Fprintf(s.out, "%5.1fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

func (s *supervisor) run(ctx context.Context) error {
	for _, dir := range []string{"tmp", "logs", "pids", "hold", "config"} {
		if err := os.MkdirAll(file(dir), 0o755); err != nil {
			return err
		}
	}
	// Temporary files, such as etcd's sockets, belong in the cluster's directory.
	if err := os.Setenv("TMPDIR", file("tmp")); err != nil {
		return err
	}
	var err error
	if s.programs, err = cluster.Find(); err != nil {
		return err
	}
	// The shim searches this path for runc. sudo may omit the directories of root's programs.
	path := filepath.Dir(s.programs.Runc) + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin"
	if err := os.Setenv("PATH", path); err != nil {
		return err
	}
	if err := look(ctx); err != nil {
		return err
	}
	if err := errors.Join(makeGroups(), mountNode(), makeLink(ctx)); err != nil {
		return err
	}
	if err := s.startPlane(ctx); err != nil {
		return err
	}
	if err := s.startNode(ctx); err != nil {
		return err
	}
	agent, err := s.startBerth(ctx)
	if err != nil {
		return err
	}
	if err := s.waitReady(ctx, agent); err != nil {
		return err
	}
	return os.WriteFile(file("ready"), nil, 0o644)
}

// startPlane starts the control plane and writes the files by which clients find it.
func (s *supervisor) startPlane(ctx context.Context) error {
	// 10.0.2.2 is the address of this machine for a virtual machine with QEMU's user network.
	site := controlplane.Site{Address: Address, Names: []string{SecondAddress, "10.0.2.2"}, Services: ServiceCIDR, Nodes: true}
	plane, err := controlplane.StartAt(ctx, site, file("plane"), s.programs.Programs)
	if err != nil {
		return err
	}
	s.plane = plane
	s.wait.Go(func() {
		<-ctx.Done()
		_ = plane.Stop() // Its children die with this process in any case.
	})
	s.wait.Go(func() { keepPlane(ctx, plane) })
	if err := writeAuthority(plane); err != nil {
		return err
	}
	s.say("etcd and kube-apiserver")
	manager, err := controllerManager(s.programs, plane)
	if err != nil {
		return err
	}
	return s.keepAll(ctx, manager, images(s.programs))
}

// startNode starts the servers that make this machine a node.
func (s *supervisor) startNode(ctx context.Context) error {
	runtime, err := containerd(s.programs)
	if err != nil {
		return err
	}
	if err := s.keepAll(ctx, runtime); err != nil {
		return err
	}
	node, err := kubelet(s.programs, s.plane)
	if err != nil {
		return err
	}
	proxy, err := kubeProxy(s.programs, s.plane)
	if err != nil {
		return err
	}
	return s.keepAll(ctx, node, proxy)
}

// startBerth installs the shipped manifests and starts the scheduler. It also reports whether the agent is installed.
func (s *supervisor) startBerth(ctx context.Context) (agent bool, err error) {
	if err := waitImages(ctx); err != nil {
		return false, err
	}
	s.say("images at %s", Registry)
	agent, err = install(ctx, s.plane.Config())
	if err != nil {
		return false, err
	}
	s.say("manifests of deploy")
	program, err := scheduler(s.programs, s.plane)
	if err != nil {
		return false, err
	}
	return agent, s.keepAll(ctx, program)
}

// keepAll starts servers concurrently and keeps them running. It returns when each has started.
func (s *supervisor) keepAll(ctx context.Context, servers ...server) error {
	first := make(chan error)
	for _, server := range servers {
		s.wait.Go(func() {
			server.keep(ctx, func(err error) {
				if err == nil {
					s.say("%s", server.name)
				}
				first <- err
			})
		})
	}
	var err error
	for range servers {
		err = errors.Join(err, <-first)
	}
	return err
}
