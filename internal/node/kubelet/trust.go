package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
)

// certificateLimit is the largest file of certificates, in bytes.
const certificateLimit = 4 << 20

// trust identifies the kubelet, by authority and names or by its certificates.
type trust struct {
	caFile      string
	serverNames []string
	certFiles   []string
}

// dial connects. If the server is not the kubelet, dial closes the connection before it sends a byte of a request.
func (t trust) dial(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn, nil
}

// config returns the TLS configuration for the present content of the files.
func (t trust) config() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: t.serverNames[0], NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // VerifyConnection is as strict, or stricter
	}
	if t.caFile == "" {
		own, err := certificatesIn(t.certFiles)
		if err != nil {
			return nil, err
		}
		config.VerifyConnection = func(state tls.ConnectionState) error { return isOwn(own, state) }
		return config, nil
	}
	content, err := readFile(t.caFile, certificateLimit)
	if err != nil {
		return nil, fmt.Errorf("authority of the kubelet: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("authority of the kubelet: %s: no certificate: %w", t.caFile, ErrMalformed)
	}
	config.VerifyConnection = func(state tls.ConnectionState) error { return t.isSigned(roots, state) }
	return config, nil
}

// certificatesIn returns the first certificate of each existing PEM file, which may also contain a private key.
func certificatesIn(names []string) ([][]byte, error) {
	var own [][]byte
	var missing error
	for _, name := range names {
		content, err := readFile(name, certificateLimit)
		if errors.Is(err, fs.ErrNotExist) {
			missing = err
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("certificate of the kubelet: %w", err)
		}
		if one := firstCertificate(content); one != nil {
			own = append(own, one)
		} else {
			missing = fmt.Errorf("%s: no certificate: %w", name, ErrMalformed)
		}
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("certificate of the kubelet: %w", missing)
	}
	return own, nil
}

func firstCertificate(content []byte) []byte {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return block.Bytes
		}
	}
	return nil
}

// isOwn checks that the server presented, and has the key of, one of the certificates.
func isOwn(own [][]byte, state tls.ConnectionState) error {
	for _, one := range own {
		if len(state.PeerCertificates) > 0 && bytes.Equal(state.PeerCertificates[0].Raw, one) {
			return nil
		}
	}
	return fmt.Errorf("%w: the server shows another one than the file has", ErrUntrusted)
}

// isSigned checks, as crypto/tls does, that the server's certificate leads to one of the authorities, and is valid for
// one of the names.
func (t trust) isSigned(roots *x509.CertPool, state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return fmt.Errorf("%w: the server shows none", ErrUntrusted)
	}
	leaf, between := state.PeerCertificates[0], x509.NewCertPool()
	for _, one := range state.PeerCertificates[1:] {
		between.AddCert(one)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	var err error
	for _, name := range t.serverNames {
		if err = leaf.VerifyHostname(name); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %w", ErrUntrusted, err)
}
