package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
)

// certificateLimit is the largest file of certificates, in bytes.
const certificateLimit = 4 << 20

// trust knows the kubelet, by authority and name or by its certificate.
type trust struct {
	caFile, serverName, certFile string
}

// dial connects, and ends the connection before a byte of a request is sent
// when the server is not the kubelet.
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

func (t trust) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.serverName, NextProtos: []string{"http/1.1"}}
	if t.certFile != "" {
		own, err := certificateIn(t.certFile)
		if err != nil {
			return nil, err
		}
		config.InsecureSkipVerify = true // in favour of what is stricter
		config.VerifyConnection = func(state tls.ConnectionState) error { return isOwn(own, state) }
		return config, nil
	}
	content, err := readFile(t.caFile, certificateLimit)
	if err != nil {
		return nil, fmt.Errorf("authority of the kubelet: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("authority of the kubelet: %s: no certificate: %w", t.caFile, ErrMalformed)
	}
	return config, nil
}

// certificateIn returns the first certificate of a PEM file, which may hold a
// private key too.
func certificateIn(name string) ([]byte, error) {
	content, err := readFile(name, certificateLimit)
	if err != nil {
		return nil, fmt.Errorf("certificate of the kubelet: %w", err)
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return block.Bytes, nil
		}
	}
	return nil, fmt.Errorf("certificate of the kubelet: %s: no certificate: %w", name, ErrMalformed)
}

// isOwn checks that the server has shown, and has the key of, the certificate.
func isOwn(own []byte, state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, own) {
		return fmt.Errorf("%w: the server shows another one than the file has", ErrUntrusted)
	}
	return nil
}
