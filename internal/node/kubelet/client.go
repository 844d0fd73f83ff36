package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// requestLimit is the timeout of a request.
	requestLimit = 10 * time.Second
	// answerLimit is the largest answer, in bytes. Some hundred pods are a few MB. A user with pods of the largest size
	// that the API server allows must not exhaust the agent's memory.
	answerLimit = 16 << 20
	// errorLimit bounds the text of an error, in bytes.
	errorLimit = 512
	// tokenLimit is the largest token, in bytes.
	tokenLimit = 64 << 10
)

// Options describe how to reach and identify the kubelet. One of CAFile and CertFiles is required.
type Options struct {
	// Address is host:port of the kubelet's HTTPS API, for example 127.0.0.1:10250.
	Address string
	// TokenFile contains the bearer token; it is read for every request.
	TokenFile string
	// CAFile contains the authorities, in PEM, that may have signed the kubelet's serving certificate. The certificate
	// must be valid for one of ServerNames, names and addresses; the host of Address if empty.
	CAFile      string
	ServerNames []string
	// CertFiles contain the kubelet's own serving certificates, in PEM, first in each file. No other certificate is
	// accepted; names and age are not checked. Missing files are ignored: the kubelet's certificate may change while it
	// runs.
	CertFiles []string
}

// Client is a client of one kubelet. It is safe for concurrent use.
type Client struct {
	base  url.URL
	token string
	http  *http.Client
}

// New returns a Client and sends no request. The error is ErrOptions.
func New(o Options) (*Client, error) {
	host, _, err := net.SplitHostPort(o.Address)
	switch {
	case err != nil || host == "":
		return nil, fmt.Errorf("%w: address %q: must be host:port", ErrOptions, o.Address)
	case o.TokenFile == "":
		return nil, fmt.Errorf("%w: no token file", ErrOptions)
	case (o.CAFile == "") == (len(o.CertFiles) == 0):
		return nil, fmt.Errorf("%w: one of an authority's file and the kubelet's certificate file is needed", ErrOptions)
	}
	if len(o.ServerNames) == 0 {
		o.ServerNames = []string{host}
	}
	return &Client{
		base:  url.URL{Scheme: "https", Host: o.Address},
		token: o.TokenFile,
		http: &http.Client{
			Timeout: requestLimit,
			Transport: &http.Transport{ // no proxy: the token is for the kubelet alone
				DialTLSContext:        trust{o.CAFile, o.ServerNames, o.CertFiles}.dial,
				ResponseHeaderTimeout: requestLimit,
				IdleConnTimeout:       requestLimit,
				MaxIdleConns:          1,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Pods returns the pods that the kubelet runs or is about to run, including static pods, with the status that the
// kubelet last saw. The errors are ErrUntrusted, ErrUnauthorized, ErrForbidden, ErrAnswer, ErrTooLarge, ErrMalformed,
// and connection errors.
func (c *Client) Pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.get(ctx, "/pods", &list); err != nil {
		return nil, err
	}
	if list.Kind != "PodList" {
		return nil, fmt.Errorf("kubelet /pods: kind %q: %w", list.Kind, ErrMalformed)
	}
	return list.Items, nil
}

// Configz returns the configuration in effect, including flags and defaults. The errors are those of Pods.
func (c *Client) Configz(ctx context.Context) (Config, error) {
	var answer struct {
		Config *fields `json:"kubeletconfig"`
	}
	if err := c.get(ctx, "/configz", &answer); err != nil {
		return Config{}, err
	}
	if answer.Config == nil {
		return Config{}, fmt.Errorf("kubelet /configz: no kubeletconfig: %w", ErrMalformed)
	}
	config, err := answer.Config.config()
	if err != nil {
		return Config{}, fmt.Errorf("kubelet /configz: %w", err)
	}
	return config, nil
}

// get requests a path and decodes the JSON answer.
func (c *Client) get(ctx context.Context, path string, into any) error {
	token, err := readFile(c.token, tokenLimit)
	if err != nil {
		return fmt.Errorf("token for the kubelet: %w", err)
	}
	target := c.base
	target.Path = path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("kubelet %s: %w", path, err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("kubelet %s: %w", path, refusal(answer))
	}
	body, err := readAll(answer.Body, answerLimit)
	if err != nil {
		return fmt.Errorf("kubelet %s: %w", path, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("kubelet %s: %w: %w", path, ErrMalformed, err)
	}
	return nil
}

// refusal converts an answer's status to an error.
func refusal(answer *http.Response) error {
	class := ErrAnswer
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		class = ErrUnauthorized
	case http.StatusForbidden:
		class = ErrForbidden
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, errorLimit))
	if err != nil {
		text = nil
	}
	return fmt.Errorf("%w: %s: %q", class, answer.Status, strings.TrimSpace(string(text)))
}

// readFile reads a file of limited size.
func readFile(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // says the operation and the path
	}
	defer file.Close()
	content, err := readAll(file, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return content, nil
}

// readAll reads everything, but not more than limit bytes.
func readAll(from io.Reader, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what was read
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return content, nil
}
