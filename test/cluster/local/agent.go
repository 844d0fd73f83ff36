package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// AgentMetrics returns the metrics of the node's agent from its socket, where root needs no token.
func AgentMetrics(ctx context.Context) ([]byte, error) {
	socket := NodePath("/var/lib/berth/agent.sock")
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/metrics", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("metrics of the agent: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metrics of the agent: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: %s", ErrFailed, answer.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("metrics of the agent at %s: %w", socket, err)
	}
	return text, nil
}
