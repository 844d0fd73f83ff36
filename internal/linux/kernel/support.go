package kernel

import (
	"errors"
	"fmt"
)

// ErrNotSupported means that a probe was carried out and the kernel lacks the feature. The message that wraps it names
// the missing feature.
var ErrNotSupported = errors.New("not supported by this kernel")

// Support is the result of a feature probe.
type Support int

// The three outcomes of a probe.
const (
	// Unknown means that the probe could not be carried out.
	Unknown Support = iota
	// Supported means that the feature is there.
	Supported
	// Unsupported means that the feature is permanently missing.
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

// MarshalText returns the name, for JSON and YAML.
func (s Support) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a name that MarshalText returned; any other text becomes Unknown.
func (s *Support) UnmarshalText(text []byte) error {
	*s = Unknown
	for _, known := range []Support{Supported, Unsupported} {
		if string(text) == known.String() {
			*s = known
		}
	}
	return nil
}
