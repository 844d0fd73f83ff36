// Package window serves requests to a running agent, over HTTP: at a socket in its state directory, which only root may
// use, and at an address of the host. Queries of the history have another address, if they are enabled. Package window
// answers whether the agent is alive (/healthz) and ready (/readyz), and with its metrics (/metrics), each by a
// function of the agent. It leaves all other paths, which name workloads, to a handler. It is also the client for these
// requests.
//
// Any client on the node's network may ask as often as it likes. Metrics and readiness are made a few times a second at
// most, only while a client asks, and are shared by all clients in that time; /healthz takes no lock at all.
//
// Requests at the address are guarded, because a browser on the same host can be made to send them. Only GET and HEAD
// are allowed, only to a name of this host, and from no other origin. If the agent has a Review, all paths but health
// and readiness need a bearer token that it allows. A verdict is valid for a minute. While there is no answer, an
// allowed token stays allowed for an hour at most. A token has one review at a time, which no client can end. The
// address uses TLS if it has the files.
package window
