package window

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
)

// Status asks the live agent of stateDir for its status of this moment: over its
// socket, and where that is not there at its address, unless that is empty.
func Status(ctx context.Context, stateDir, address string) ([]byte, error) {
	text, err := askSocket(ctx, stateDir, statusPath)
	if err != nil && address != "" {
		return ask(ctx, http.DefaultClient, address, statusPath)
	}
	return text, err
}

// CheckHealth asks the live agent of stateDir, over its socket, whether its loop turns.
func CheckHealth(ctx context.Context, stateDir string) error {
	_, err := askSocket(ctx, stateDir, healthPath)
	return err
}

// askSocket asks the agent of stateDir over its socket.
func askSocket(ctx context.Context, stateDir, path string) ([]byte, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(stateDir, socketFile))
		},
	}
	return ask(ctx, &http.Client{Transport: transport}, "agent", path)
}

// ask returns what is answered to a request for a path.
func ask(ctx context.Context, client *http.Client, address, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask agent at %s for %s: %w: %s: %s", address, path, ErrAnswer, response.Status, strings.TrimSpace(string(text)))
	}
	return text, nil
}
