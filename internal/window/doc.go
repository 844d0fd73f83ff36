// Package window is where a running agent can be asked: over HTTP, at a socket in its state
// directory, which only root may use, and at an address of the host. Queries of the history have
// another address, where they are to be answered. It answers whether
// the agent is alive (/healthz) and ready (/readyz) and its metrics (/metrics), each with a
// function of the agent's, and leaves all other paths, which name workloads, to a handler. It
// asks the same as a client.
//
// Any client on the node's network may ask as often as it likes. Metrics and readiness
// are made anew a few times a second at most, only while a client asks, and given to all
// who ask meanwhile; /healthz takes no lock at all.
//
// At the address requests are guarded, since a browser on the same host can be made to send
// them: only GET and HEAD, only to a name of this host, and none of another origin. Where the
// agent has a Review, all but health is for those with a bearer token that it allows. What a
// Review said counts for a minute; while there is no answer, a token that was allowed stays so
// for an hour at most. A token has one review at a time, which no client ends. The address speaks
// TLS where it is given the files.
package window
