package window

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certify writes a certificate with a serial number, and its key.
func certify(t *testing.T, o Options, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{o.CertFile: {Type: "CERTIFICATE", Bytes: cert}, o.KeyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		text := append(pem.EncodeToMemory(block), strings.Repeat("\n", int(serial))...) // another size, as the time may be equal
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serial returns the serial number of an address's certificate.
func serial(t *testing.T, address string) int64 {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestKeysAreReadAgain checks that an address with TLS files accepts only TLS and uses the current content of the
// files. If that content is invalid, it uses the previous content.
func TestKeysAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	o := Options{
		StateDir: dir, Address: "127.0.0.1:0", File: "agent.yaml", Log: quiet(),
		CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), `agent.yaml: field web.tls: value "`+o.CertFile) {
		t.Errorf("without files: %v", err)
	}
	certify(t, o, 1)
	w, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := &agent{listens: make(chan error, 1)}
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx, a.answers()) }()
	address := w.address.Addr().String()
	if err := answers(t, address); err == nil {
		t.Error("it answers without TLS")
	}
	if got := serial(t, address); got != 1 {
		t.Errorf("certificate %d, want 1", got)
	}
	certify(t, o, 2)
	if got := serial(t, address); got != 2 {
		t.Errorf("certificate %d, want 2", got)
	}
	if err := os.WriteFile(o.CertFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(o.KeyFile); err != nil {
		t.Fatal(err)
	}
	if got := serial(t, address); got != 2 {
		t.Errorf("certificate %d, want the last good one, 2", got)
	}
	certify(t, o, 3)
	if got := serial(t, address); got != 3 {
		t.Errorf("certificate %d, want 3", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
