package window

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// keys are a certificate and its key, reloaded when their files change.
type keys struct {
	certFile, keyFile string
	log               *slog.Logger

	mu    sync.Mutex
	seen  [2]stamp
	value *tls.Certificate
}

// stamp detects a changed file.
type stamp struct {
	written time.Time
	size    int64
}

// readKeys reads the files of TLS. It returns nil if the address has none.
func readKeys(o Options) (*keys, error) {
	if o.CertFile == "" {
		return nil, nil // an address without TLS has no keys
	}
	k := &keys{certFile: o.CertFile, keyFile: o.KeyFile, log: o.Log}
	if err := k.read(); err != nil {
		return nil, fmt.Errorf("%s: field web.tls: value %q, %q: allowed: a certificate and its key in PEM: %w", o.File, o.CertFile, o.KeyFile, err)
	}
	return k, nil
}

// over wraps a listener in TLS. Without keys it returns the listener unchanged.
func (k *keys) over(l net.Listener) net.Listener {
	if k == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{GetCertificate: k.now, MinVersion: tls.VersionTLS12})
}

// now returns the certificate. If the files become unusable, it returns the last good one.
func (k *keys) now(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(); err != nil {
		k.log.Warn("files of web.tls are not read, the last good ones stay in force", "error", err)
	}
	return k.value, nil
}

// read reads the files if they have changed. The caller holds the mutex, or k is not shared yet.
func (k *keys) read() error {
	var now [2]stamp
	for i, name := range []string{k.certFile, k.keyFile} {
		if info, err := os.Stat(name); err == nil { // a missing file has the zero stamp, and is named below
			now[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	if k.value != nil && now == k.seen {
		return nil
	}
	k.seen = now // also of unusable files: they are read again only after a change
	value, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return fmt.Errorf("certificate of the address: %w", err)
	}
	k.value = &value
	return nil
}
