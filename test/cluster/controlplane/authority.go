package controlplane

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime is how long a certificate is valid. It is longer than any test and too short for permanent use.
const lifetime = 7 * 24 * time.Hour

// Authority is a certificate authority in memory.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

// newAuthority makes an authority. Its certificate is valid from an hour ago, for clocks that jump.
func newAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the authority: %w", err)
	}
	template := certificate(pkix.Name{CommonName: "berth-controlplane"})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	return &Authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// server signs a certificate for a server with the given addresses and names.
func (a *Authority) server(user string, names ...string) (pair, error) {
	template := certificate(pkix.Name{CommonName: user})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return a.sign(template)
}

// client signs a certificate that identifies a user and its groups to the API server.
func (a *Authority) client(user string, groups []string) (pair, error) {
	template := certificate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *Authority) sign(template *x509.Certificate) (pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("key of %s: %w", template.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: encode("CERTIFICATE", der), key: keyPEM}, nil
}

// Client returns the certificate and key of a user in groups, in PEM.
func (a *Authority) Client(user string, groups ...string) (cert, key []byte, err error) {
	p, err := a.client(user, groups)
	return p.cert, p.key, err
}

// Serving returns a certificate and its key, in PEM, for another server of the cluster, such as a kubelet, with the
// given addresses and names.
func (a *Authority) Serving(user string, names ...string) (cert, key []byte, err error) {
	p, err := a.server(user, names...)
	return p.cert, p.key, err
}

// Encode returns the authority's certificate and key in PEM, for DecodeAuthority in another process. A reader of this
// text can act as any user.
func (a *Authority) Encode() ([]byte, error) {
	key, err := encodeKey(a.key)
	return append(bytes.Clone(a.pem), key...), err
}

// DecodeAuthority parses the output of Encode.
func DecodeAuthority(text []byte) (*Authority, error) {
	first, rest := pem.Decode(text)
	second, _ := pem.Decode(rest)
	if first == nil || second == nil {
		return nil, fmt.Errorf("%w: want a certificate and a key", ErrAuthority)
	}
	cert, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	key, err := x509.ParseECPrivateKey(second.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	return &Authority{cert: cert, key: key, pem: pem.EncodeToMemory(first)}, nil
}

func certificate(name pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      name,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
	}
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
