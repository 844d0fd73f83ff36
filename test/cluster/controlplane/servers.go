package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/test/patience"
)

const (
	// The port is in this range, below the range of outgoing connections (32768 and up).
	firstPort = 20000
	lastPort  = 32000
	// tries is how many ports freePort tries.
	tries = 100
	// startLimit is how long the API server may take until it is ready, in time during which the machine gave it CPU.
	startLimit = 2 * time.Minute
	// pollEvery is the time between two readiness checks.
	pollEvery = 50 * time.Millisecond
	// rate is the client-side limit of requests per second that Config sets.
	rate = 5000
	// issuer names the API server in the tokens of service accounts.
	issuer = "https://kubernetes.default.svc"
)

// The default addresses of a site.
const (
	loopback = "127.0.0.1"
	services = "10.0.0.0/24"
)

// freePort returns a port of an address that no process listens on.
func freePort(ctx context.Context, host string) (int, error) {
	var last error
	for range tries {
		port := firstPort + mathrand.IntN(lastPort-firstPort)
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		return port, listener.Close() // Closing a fresh listener does not fail.
	}
	return 0, fmt.Errorf("no free port of %s in %d..%d: %w", host, firstPort, lastPort, last)
}

func (c *ControlPlane) address() string {
	return net.JoinHostPort(c.site.Address, strconv.Itoa(c.port))
}

// writeKeys makes the authority and writes what the API server reads, into DIR/pki.
func (c *ControlPlane) writeKeys() error {
	var err error
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	server, err := c.authority.server("kube-apiserver", c.names()...)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("key of the service accounts: %w", err)
	}
	accounts, err := encodeKey(key)
	if err != nil {
		return err
	}
	kubelets, err := c.authority.client("kube-apiserver-kubelet-client", []string{"system:masters"})
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": c.authority.pem, "server.crt": server.cert, "server.key": server.key, "accounts.key": accounts,
		"kubelet-client.crt": kubelets.cert, "kubelet-client.key": kubelets.key,
	}
	for name, content := range files {
		if err := os.WriteFile(c.pki(name), content, 0o600); err != nil {
			return fmt.Errorf("write key: %w", err)
		}
	}
	c.admin, err = c.As("berth-admin", "system:masters")
	return err
}

// names are the names of the API server, in addition to its address.
func (c *ControlPlane) names() []string {
	names := []string{loopback, c.site.Address, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if prefix, err := netip.ParsePrefix(c.site.Services); err == nil {
		names = append(names, prefix.Masked().Addr().Next().String())
	}
	return append(names, c.site.Names...)
}

func (c *ControlPlane) pki(name string) string { return filepath.Join(c.dir, "pki", name) }

func (c *ControlPlane) socket(name string) string {
	return "unix://" + filepath.Join(c.sockets, name)
}

func (c *ControlPlane) etcdCommand() []string {
	// etcd requires announced addresses with host and port, although nothing uses them here.
	const unused = "http://127.0.0.1:1"
	return []string{
		c.programs.Etcd,
		"--name=berth", "--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + c.socket("client"), "--advertise-client-urls=" + unused,
		"--listen-peer-urls=" + c.socket("peer"), "--initial-advertise-peer-urls=" + unused,
		"--initial-cluster=berth=" + unused,
		"--unsafe-no-fsync", "--quota-backend-bytes=8589934592",
		"--logger=zap", "--log-level=warn",
	}
}

func (c *ControlPlane) apiServerCommand() []string {
	argv := []string{
		c.programs.APIServer,
		"--etcd-servers=" + c.socket("client"),
		"--bind-address=" + c.site.Address, "--secure-port=" + strconv.Itoa(c.port),
		"--advertise-address=" + c.site.Address,
		"--service-cluster-ip-range=" + c.site.Services,
		"--tls-cert-file=" + c.pki("server.crt"), "--tls-private-key-file=" + c.pki("server.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + c.pki("accounts.key"),
		"--service-account-signing-key-file=" + c.pki("accounts.key"),
	}
	return append(append(argv, c.siteFlags()...), c.flags...)
}

func (c *ControlPlane) siteFlags() []string {
	if c.site.Nodes {
		return []string{
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			// The API server requests logs from the kubelets as an administrator.
			"--kubelet-client-certificate=" + c.pki("kubelet-client.crt"),
			"--kubelet-client-key=" + c.pki("kubelet-client.key"),
			"--kubelet-certificate-authority=" + c.pki("ca.crt"),
			"--kubelet-preferred-address-types=InternalIP",
		}
	}
	return []string{
		"--endpoint-reconciler-type=none",
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		// The server must not limit the client under test.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
	}
}

// waitReady polls /readyz until the server is ready or has ended, or the time is up.
func (c *ControlPlane) waitReady(ctx context.Context, child *Child) error {
	ctx, _, cancel := patience.WithLimit(ctx, startLimit)
	defer cancel()
	config := c.Config()
	config.Timeout = time.Second
	client, err := rest.UnversionedRESTClientFor(unversioned(config))
	if err != nil {
		return fmt.Errorf("client for /readyz: %w", err)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := client.Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		select {
		case <-child.Done():
			return child.Alive()
		case <-c.etcd.Done():
			return c.etcd.Alive()
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver %w: %w: last answer of /readyz: %w\n%s", ErrNotReady, ctx.Err(), err, child.tail())
		case <-tick.C:
		}
	}
}
