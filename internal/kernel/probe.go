package kernel

import (
	"errors"
	"fmt"
	"sync"
)

// ErrNotSupported says that a probe was carried out and the kernel lacks the
// feature. The message around it names what is missing.
var ErrNotSupported = errors.New("not supported by this kernel")

// Support is what is known about a feature.
type Support int

// The three outcomes of a probe.
const (
	// Unknown means that the probe could not be carried out.
	Unknown Support = iota
	// Supported means that the feature is there.
	Supported
	// Unsupported means that the feature is missing for good.
	Unsupported
)

// String returns "unknown", "supported" or "unsupported".
func (s Support) String() string {
	switch s {
	case Supported:
		return "supported"
	case Unsupported:
		return "unsupported"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("Support(%d)", int(s))
}

// Probe asks the kernel for one feature and remembers a conclusive answer.
// Make one with NewProbe. It is safe for concurrent use.
type Probe struct {
	ask func() error

	mu      sync.Mutex
	support Support
	err     error
}

// NewProbe returns a probe that asks by calling ask. ask returns nil when the
// feature is there, an error that is ErrNotSupported when it is not, and any
// other error when it could not find out.
func NewProbe(ask func() error) *Probe { return &Probe{ask: ask} }

// Result returns what is known, asking the kernel unless an earlier answer
// was conclusive. The error tells what is missing (Unsupported) or what kept
// the probe from finding out (Unknown); it is nil for Supported.
func (p *Probe) Result() (Support, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.support != Unknown {
		return p.support, p.err
	}
	err := p.ask()
	switch {
	case err == nil:
		p.support = Supported
	case errors.Is(err, ErrNotSupported):
		p.support, p.err = Unsupported, err
	default:
		return Unknown, err
	}
	return p.support, p.err
}
