package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"
)

// Programs are the paths of the programs to run.
type Programs struct {
	Etcd      string // etcd 3.6.
	APIServer string // kube-apiserver 1.36.
}

// ControlPlane is a running etcd and API server. Its methods may be called from several
// goroutines.
type ControlPlane struct {
	site      Site
	dir       string
	sockets   string
	programs  Programs
	flags     []string
	port      int
	authority *Authority
	admin     *rest.Config

	mu        sync.Mutex // Guards the children.
	etcd      *Child
	apiServer *Child // nil while stopped.
}

// Site is the place and purpose of a control plane. The zero value is for tests without nodes.
type Site struct {
	// Address is the IPv4 address the API server listens on; empty means 127.0.0.1.
	Address string
	// Names are additional addresses and DNS names in the API server's certificate.
	Names []string
	// Services is the address range of services; empty means 10.0.0.0/24. The first address is the API server's own.
	Services string
	// Nodes reports that kubelets and kube-controller-manager will run. Then the Node authorizer authorizes nodes,
	// NodeRestriction limits them, no admission plug-in is off, the service "kubernetes" leads to Address, and the
	// server has its usual limits.
	Nodes bool
}

// Start starts both servers and returns when the API server is ready, about three seconds later on two CPUs. It creates
// dir if necessary, for certificates, data, etcd.log, kube-apiserver.log and the administrator's kubeconfig. Stop does
// not remove these files. Additional flags for kube-apiserver, such as an audit policy, come last and therefore take
// precedence. If ctx ends before the server is ready, Start stops everything.
func Start(ctx context.Context, dir string, p Programs, flags ...string) (*ControlPlane, error) {
	return StartAt(ctx, Site{}, dir, p, flags...)
}

// StartAt is Start for a given site.
func StartAt(ctx context.Context, site Site, dir string, p Programs, flags ...string) (*ControlPlane, error) {
	if site.Address == "" {
		site.Address = loopback
	}
	if site.Services == "" {
		site.Services = services
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of the control plane: %w", err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "pki")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("directory of the control plane: %w", err)
		}
	}
	c := &ControlPlane{site: site, dir: dir, programs: p, flags: flags}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	// The path of a socket may have 107 bytes, and a test's directory may be longer.
	sockets, err := os.MkdirTemp("", "berth-etcd-")
	if err != nil {
		return fmt.Errorf("directory of etcd's sockets: %w", err)
	}
	c.sockets = sockets
	if c.port, err = freePort(ctx, c.site.Address); err != nil {
		return err
	}
	if err := c.writeKeys(); err != nil {
		return err
	}
	if err := WriteKubeconfig(c.admin, c.Kubeconfig()); err != nil {
		return err
	}
	if c.etcd, err = StartChild(c.dir, "etcd", c.etcdCommand()...); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// Config returns a new client configuration of an administrator (group system:masters), with a client-side limit of
// 5,000 requests per second.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Etcd returns the address of etcd, for a client that needs the history of the store rather than the current state that
// the API shows. A watch there survives a restart of the API server.
func (c *ControlPlane) Etcd() string { return c.socket("client") }

// Dir returns the absolute path of the directory with the logs.
func (c *ControlPlane) Dir() string { return c.dir }

// StartAPIServer starts the API server that StopAPIServer stopped, with the same port and data, and returns when it is
// ready. It returns ErrState if the server runs.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	child, err := c.launchAPIServer()
	if err != nil {
		return err
	}
	return c.waitReady(ctx, child)
}

func (c *ControlPlane) launchAPIServer() (*Child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer != nil {
		return nil, fmt.Errorf("start kube-apiserver: it runs: %w", ErrState)
	}
	child, err := StartChild(c.dir, "kube-apiserver", c.apiServerCommand()...)
	if err != nil {
		return nil, err
	}
	c.apiServer = child
	return child, nil
}

// StopAPIServer kills the API server like a crash: it aborts requests in progress. Stopping a stopped server does
// nothing.
func (c *ControlPlane) StopAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer == nil {
		return nil
	}
	err := c.apiServer.Kill()
	c.apiServer = nil
	return err
}

// PauseAPIServer freezes the API server. Until ResumeAPIServer, connections stay open and get no answers. It returns
// ErrState if the server is stopped.
func (c *ControlPlane) PauseAPIServer() error {
	child, err := c.runningAPIServer()
	if err != nil {
		return err
	}
	return child.Freeze()
}

// ResumeAPIServer continues a frozen API server.
func (c *ControlPlane) ResumeAPIServer() error {
	child, err := c.runningAPIServer()
	if err != nil {
		return err
	}
	return child.Signal(syscall.SIGCONT)
}

func (c *ControlPlane) runningAPIServer() (*Child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer == nil {
		return nil, fmt.Errorf("kube-apiserver is stopped: %w", ErrState)
	}
	return c.apiServer, nil
}

// PIDs returns the process ids of both servers, also of an ended server; 0 for a stopped server.
func (c *ControlPlane) PIDs() (etcd, apiServer int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.etcd != nil {
		etcd = c.etcd.PID()
	}
	if c.apiServer != nil {
		apiServer = c.apiServer.PID()
	}
	return etcd, apiServer
}

// Alive returns nil if both servers run, and otherwise an error with the exit status and last output of the ended
// server. A stopped API server counts as ended.
func (c *ControlPlane) Alive() error {
	child, err := c.runningAPIServer()
	if err != nil {
		return err
	}
	return errors.Join(c.etcd.Alive(), child.Alive())
}

// Revive restarts the servers that have ended or were stopped, with the same data, and returns when the API server is
// ready. If both run, it does nothing.
func (c *ControlPlane) Revive(ctx context.Context) error {
	if err := c.reviveEtcd(); err != nil {
		return err
	}
	if child, err := c.runningAPIServer(); err == nil && child.Alive() == nil {
		return nil
	}
	return errors.Join(c.StopAPIServer(), c.StartAPIServer(ctx))
}

func (c *ControlPlane) reviveEtcd() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.etcd.Alive() == nil {
		return nil
	}
	child, err := StartChild(c.dir, "etcd", c.etcdCommand()...)
	if err != nil {
		return err
	}
	c.etcd = child
	return nil
}

// Stop kills both servers and waits for them. It does not remove files.
func (c *ControlPlane) Stop() error {
	err := c.StopAPIServer()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.etcd != nil {
		err = errors.Join(err, c.etcd.Kill())
	}
	if c.sockets != "" {
		err = errors.Join(err, os.RemoveAll(c.sockets))
	}
	return err
}
