// Package arbiter decides which containers of this node have which CPUs. It is
// pure: it holds what it was told about pods and containers, and what it
// decided, and reads no clock and no host.
package arbiter
