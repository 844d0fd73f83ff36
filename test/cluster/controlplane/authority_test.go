package controlplane

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
)

// TestAuthorityGoesOn checks that the servers of an authority accept certificates that a decoded copy signed in another
// process.
func TestAuthorityGoesOn(t *testing.T) {
	first, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	text, err := first.Encode()
	if err != nil {
		t.Fatal(err)
	}
	second, err := DecodeAuthority(text)
	if err != nil {
		t.Fatal(err)
	}
	signed, _, err := second.Serving("kubelet", "node", "192.0.2.7")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(signed)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(first.cert)
	for _, name := range []string{"node", "192.0.2.7"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("certificate for %s: %v", name, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "another"}); err == nil {
		t.Error("the certificate holds a name that no caller asked for")
	}
	for _, bad := range [][]byte{nil, []byte("x"), first.pem, append(first.pem, first.pem...)} {
		if _, err := DecodeAuthority(bad); !errors.Is(err, ErrAuthority) {
			t.Errorf("DecodeAuthority(%.20q) = %v, want %v", bad, err, ErrAuthority)
		}
	}
}
