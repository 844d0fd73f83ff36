// Package window is where a running agent can be asked: over HTTP, at a socket in its state
// directory, which only root may use, and at an address of the host. It answers whether
// the agent is alive (/healthz) and ready (/readyz), its metrics (/metrics) and its status
// (/api/v1/status), each with a function of the agent's, and asks the same as a client.
//
// Any client on the node's network may ask as often as it likes. Metrics, readiness and
// status are made anew a few times a second at most, and given to all who ask meanwhile;
// /healthz takes no lock at all.
package window
