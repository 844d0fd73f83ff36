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

// Site says where a control plane is and for whom. The zero value is one for tests that have
// no nodes.
type Site struct {
	// Address is the IPv4 address the API server listens on; empty means 127.0.0.1.
	Address string
	// Names are more addresses and DNS names that the API server's certificate holds.
	Names []string
	// Services are the addresses of services; empty means 10.0.0.0/24. The first one is the
	// API server's own.
	Services string
	// Nodes says that kubelets and kube-controller-manager will run: nodes are authorized by
	// the Node authorizer and limited by NodeRestriction, no admission plug-in is off, the
	// service "kubernetes" leads to Address, and the server keeps its usual limits.
	Nodes bool
}

// Start starts both servers and returns when the API server is ready, about three seconds
// later on two CPUs. Files go into dir, which is made if need be: certificates, data,
// etcd.log, kube-apiserver.log and the administrator's kubeconfig. Stop leaves them there.
// More flags for kube-apiserver, like an audit policy, can be given; they come last and
// therefore win. When ctx ends before the server is ready, everything is stopped.
func Start(ctx context.Context, dir string, p Programs, flags ...string) (*ControlPlane, error) {
	return StartAt(ctx, Site{}, dir, p, flags...)
}

// StartAt is Start at a site.
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
	// The path of a socket may have 107 bytes; a test's directory may have more.
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

// Config returns a new client configuration of an administrator (group system:masters),
// with a client-side limit of 5,000 requests a second.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Etcd is the address of etcd, for a client that needs the history of the store rather than
// what the API shows of it: a watch there outlives the API server.
func (c *ControlPlane) Etcd() string { return c.socket("client") }

// Dir is the directory with the logs, as an absolute path.
func (c *ControlPlane) Dir() string { return c.dir }

// StartAPIServer starts the API server that StopAPIServer stopped, on the same port and the
// same data, and returns when it is ready. It is ErrState when it runs.
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

// StopAPIServer kills the API server, as a crash does: requests under way are cut off. Stopping
// a stopped one does nothing.
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

// PauseAPIServer freezes the API server: from its return until ResumeAPIServer connections
// stay open and nothing is answered. It is ErrState when it is stopped.
func (c *ControlPlane) PauseAPIServer() error {
	child, err := c.runningAPIServer()
	if err != nil {
		return err
	}
	return child.Freeze()
}

// ResumeAPIServer lets a frozen API server run on.
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

// PIDs are the process ids of both servers, also of one that has ended; 0 for one that is
// stopped.
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

// Alive says whether both servers run, and if not, which one ended and what it said last. A
// stopped API server counts as ended.
func (c *ControlPlane) Alive() error {
	child, err := c.runningAPIServer()
	if err != nil {
		return err
	}
	return errors.Join(c.etcd.Alive(), child.Alive())
}

// Revive starts again what has ended, on the same data, a stopped API server too, and returns
// when the API server is ready. Where both run it does nothing.
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

// Stop kills both servers and waits for them. The files stay.
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
