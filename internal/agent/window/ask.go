package window

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// View asks the live agent of stateDir, over its socket, for its present view.
func View(ctx context.Context, stateDir string) ([]byte, error) {
	return askSocket(ctx, stateDir, ViewPath)
}

// Past asks the live agent of stateDir, over its socket, for the history of a workload in the last seconds. A sample
// covers step seconds.
func Past(ctx context.Context, stateDir, workload string, seconds, step int) ([]byte, error) {
	return askSocket(ctx, stateDir, PastOf(workload, seconds, step))
}

// PastOf returns the path, with its query, of the history that Past asks for.
func PastOf(workload string, seconds, step int) string {
	q := url.Values{"workload": {workload}, "seconds": {strconv.Itoa(seconds)}, "step": {strconv.Itoa(step)}}
	return PastPath + "?" + q.Encode()
}

// CheckHealth asks the live agent of stateDir, over its socket, whether its loop runs.
func CheckHealth(ctx context.Context, stateDir string) error {
	_, err := askSocket(ctx, stateDir, healthPath)
	return err
}

// Stream asks the live agent of stateDir, over its socket, for a stream of its view until ctx ends: StreamPath, or
// PatchesPath, which an agent without patches serves as StreamPath. The caller closes the stream.
func Stream(ctx context.Context, stateDir, path string) (io.ReadCloser, error) {
	response, err := request(ctx, overSocket(stateDir), "agent", path)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// askSocket asks the agent of stateDir over its socket.
func askSocket(ctx context.Context, stateDir, path string) ([]byte, error) {
	return ask(ctx, overSocket(stateDir), "agent", path)
}

// overSocket returns a client of the agent of stateDir.
func overSocket(stateDir string) *http.Client {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(stateDir, socketFile))
		},
	}
	return &http.Client{Transport: transport}
}

// Ask asks the agent at an address, and returns its answer.
func Ask(ctx context.Context, address, path string) ([]byte, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	return ask(ctx, &http.Client{Transport: transport}, address, path)
}

// ask returns the answer to a request for a path.
func ask(ctx context.Context, client *http.Client, address, path string) ([]byte, error) {
	response, err := request(ctx, client, address, path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	return text, nil
}

// request returns an answer with status 200, whose body the caller closes.
func request(ctx context.Context, client *http.Client, address, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	return nil, fmt.Errorf("ask agent at %s for %s: %w: %s: %s", address, path, ErrAnswer, response.Status, strings.TrimSpace(string(text)))
}
