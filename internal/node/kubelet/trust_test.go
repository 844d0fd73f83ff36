package kubelet

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

// authority signs serving certificates like the signer of a cluster.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.cert, a.key = a.make(template, template, nil)
	return a
}

// make signs a certificate, with its own key if no other is given.
func (a authority) make(template, parent *x509.Certificate, by ed25519.PrivateKey) (*x509.Certificate, ed25519.PrivateKey) {
	a.t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// serves starts a kubelet with a certificate for these names.
func (a authority) serves(handler http.HandlerFunc, ip, name string, usage x509.ExtKeyUsage) (Options, *httptest.Server) {
	a.t.Helper()
	cert, key := a.make(&x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, IPAddresses: []net.IP{net.ParseIP(ip)},
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.cert, a.key)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
	server.StartTLS()
	a.t.Cleanup(server.Close)
	dir := a.t.TempDir()
	o := Options{Address: server.Listener.Addr().String(), TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")}
	write(a.t, o.TokenFile, token)
	write(a.t, o.CAFile, block("CERTIFICATE", a.cert.Raw))
	return o, server
}

// TestAuthority checks that a kubelet is identified by the authority that signed its node's name or address.
func TestAuthority(t *testing.T) {
	asked := 0
	answer := func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w, `{"kind":"PodList"}`)
	}
	for _, c := range []struct {
		name  string
		names []string
		usage x509.ExtKeyUsage
		by    bool // another authority
		good  bool
	}{
		{"its name", []string{"node-7"}, x509.ExtKeyUsageServerAuth, false, true},
		{"its address", []string{"other", "10.0.0.7"}, x509.ExtKeyUsageServerAuth, false, true},
		{"another node's", []string{"node-8", "10.0.0.8"}, x509.ExtKeyUsageServerAuth, false, false},
		{"the address it is asked at", nil, x509.ExtKeyUsageServerAuth, false, false},
		{"a client's certificate", []string{"node-7"}, x509.ExtKeyUsageClientAuth, false, false},
		{"another authority", []string{"node-7"}, x509.ExtKeyUsageServerAuth, true, false},
	} {
		asked = 0
		o, _ := newAuthority(t).serves(answer, "10.0.0.7", "node-7", c.usage)
		o.ServerNames = c.names
		if c.by {
			write(t, o.CAFile, block("CERTIFICATE", newAuthority(t).cert.Raw))
		}
		_, err := client(t, o).Pods(t.Context())
		if c.good != (err == nil) || c.good != (asked == 1) || !c.good && !errors.Is(err, ErrUntrusted) {
			t.Errorf("%s: asked %d times, %v", c.name, asked, err)
		}
	}
}

// TestCertificateComesLater checks a kubelet that serves with a self-signed certificate until the cluster has signed
// another one. The client must accept both.
func TestCertificateComesLater(t *testing.T) {
	o, server := kubelet(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"kind":"PodList"}`) })
	current := filepath.Join(t.TempDir(), "kubelet-server-current.pem")
	made := o.CertFiles[0]
	o.CertFiles = []string{current, made}
	c := client(t, o)
	ask := func() error {
		server.CloseClientConnections()
		_, err := c.Pods(t.Context())
		return err
	}
	if err := ask(); err != nil {
		t.Errorf("with the one it made: %v", err)
	}
	write(t, current, block("CERTIFICATE", certificate(t).Raw))
	if err := ask(); err != nil {
		t.Errorf("while it serves with the one it made: %v", err)
	}
	write(t, made, block("CERTIFICATE", certificate(t).Raw))
	if err := ask(); !errors.Is(err, ErrUntrusted) {
		t.Errorf("with neither: %v", err)
	}
	write(t, current, block("CERTIFICATE", server.Certificate().Raw))
	if err := ask(); err != nil {
		t.Errorf("with the signed one: %v", err)
	}
}
