package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// A port from here on, and below the range of outgoing connections (32768 and up).
	firstPort = 20000
	lastPort  = 32000
	// tries is how many ports are tried before giving up.
	tries = 100
	// startLimit is how long the API server may take until it is ready.
	startLimit = 2 * time.Minute
	// pollEvery is the time between two looks at its readiness.
	pollEvery = 50 * time.Millisecond
	// rate is the client-side limit of requests a second that Config sets.
	rate = 5000
	// issuer names the API server in the tokens of service accounts.
	issuer = "https://kubernetes.default.svc"
)

// freePort returns a loopback port that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	var last error
	for range tries {
		port := firstPort + mathrand.IntN(lastPort-firstPort)
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", address(port))
		if err != nil {
			last = err
			continue
		}
		return port, listener.Close() //nolint:wrapcheck // Closing a fresh listener does not fail.
	}
	return 0, fmt.Errorf("no free loopback port in %d..%d: %w", firstPort, lastPort, last)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// writeKeys makes the authority and writes what the API server reads, into DIR/pki.
func (c *ControlPlane) writeKeys() error {
	var err error
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	server, err := c.authority.server()
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
	files := map[string][]byte{"ca.crt": c.authority.pem, "server.crt": server.cert, "server.key": server.key, "accounts.key": accounts}
	for name, content := range files {
		if err := os.WriteFile(c.pki(name), content, 0o600); err != nil {
			return fmt.Errorf("write key: %w", err)
		}
	}
	c.admin, err = c.As("berth-admin", "system:masters")
	return err
}

func (c *ControlPlane) pki(name string) string { return filepath.Join(c.dir, "pki", name) }

func (c *ControlPlane) socket(name string) string {
	return "unix://" + filepath.Join(c.sockets, name)
}

func (c *ControlPlane) etcdCommand() []string {
	// etcd insists on addresses of host and port to tell others; there are no others.
	const nobody = "http://127.0.0.1:1"
	return []string{
		c.programs.Etcd,
		"--name=berth", "--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + c.socket("client"), "--advertise-client-urls=" + nobody,
		"--listen-peer-urls=" + c.socket("peer"), "--initial-advertise-peer-urls=" + nobody,
		"--initial-cluster=berth=" + nobody,
		"--unsafe-no-fsync", "--quota-backend-bytes=8589934592",
		"--logger=zap", "--log-level=warn",
	}
}

func (c *ControlPlane) apiServerCommand() []string {
	return append([]string{
		c.programs.APIServer,
		"--etcd-servers=" + c.socket("client"),
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + c.pki("server.crt"), "--tls-private-key-file=" + c.pki("server.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + c.pki("accounts.key"),
		"--service-account-signing-key-file=" + c.pki("accounts.key"),
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		// The client under test meets no limit of the server's.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
	}, c.flags...)
}

// waitReady polls /readyz until the server says yes, has ended, or time is up.
func (c *ControlPlane) waitReady(ctx context.Context, child *Child) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
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
