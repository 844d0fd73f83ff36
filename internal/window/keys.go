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

// keys are a certificate and its key, as their files say now.
type keys struct {
	certFile, keyFile string
	log               *slog.Logger

	mu    sync.Mutex
	seen  [2]stamp
	value *tls.Certificate
}

// stamp is by what a changed file is known.
type stamp struct {
	written time.Time
	size    int64
}

// readKeys reads the files of TLS; nil where the address has none.
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

// over has TLS spoken at a listener, which without keys stays as it is.
func (k *keys) over(l net.Listener) net.Listener {
	if k == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{GetCertificate: k.now, MinVersion: tls.VersionTLS12})
}

// now returns the certificate. Files that cannot be used any more leave the last good one.
func (k *keys) now(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(); err != nil {
		k.log.Warn("files of web.tls are not read, the last good ones stay in force", "error", err)
	}
	return k.value, nil
}

// read reads the files where they changed since the last time. The mutex is held, or k is no
// one else's yet.
func (k *keys) read() error {
	var now [2]stamp
	for i, name := range []string{k.certFile, k.keyFile} {
		if info, err := os.Stat(name); err == nil { // a file that is gone is another one, and named below
			now[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	if k.value != nil && now == k.seen {
		return nil
	}
	k.seen = now // also of files that cannot be used: the next change counts
	value, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return fmt.Errorf("certificate of the address: %w", err)
	}
	k.value = &value
	return nil
}
