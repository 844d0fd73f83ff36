package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/internal/agent/window"
)

// viewers send requests to an agent at its address.
type viewers struct {
	address string
	// viewer has the role and stranger does not; both tokens are valid.
	viewer, stranger string
	// asked is the time of the last review of the viewer's token.
	asked time.Time
}

// show serves the page of an agent whose API server is s.
func (a *agentSide) show(t *testing.T) *viewers {
	t.Helper()
	v := &viewers{address: "127.0.0.1:" + freePort(t)}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := window.Open(t.Context(), window.Options{StateDir: t.TempDir(), Address: v.address, File: "agent.yaml", Log: log})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- w.Serve(ctx, window.Answers{
			Healthy: func() error { return nil }, Ready: func() (string, error) { return "", nil }, Listens: func(error) {},
			Views: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case window.PastPath:
					_, _ = io.WriteString(w, strings.Repeat("large", 1<<18))
					return
				case window.ViewPath:
					w.Header().Set("Connection", "close") // the next request needs another connection
				}
				_, _ = io.WriteString(w, "page")
			}),
			Metrics: prometheus.NewRegistry(),
			Review: func(ctx context.Context, token, path string) (window.Verdict, error) {
				r, err := a.Review(ctx, token, path)
				return window.Verdict(r), err
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		must(t, <-served)
	})
	a.s.apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: stranger}\n")
	v.viewer, v.stranger = a.s.token(t, "berth-system", "berth-viewer"), a.s.token(t, "default", "stranger")
	return v
}

// token returns a token of a service account.
func (s *stand) token(t *testing.T, namespace, name string) string {
	t.Helper()
	config, err := s.AsServiceAccount(t.Context(), namespace, name)
	must(t, err)
	return config.BearerToken
}

// ask requests a path with a token, by GET or by the given method.
func (v *viewers) ask(t *testing.T, path, token string, method ...string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), append(method, http.MethodGet)[0], "http://"+v.address+path, http.NoBody)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	must(t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(content)
}

// ended returns a token that the API server signed and that has expired.
func (s *stand) ended(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	must(t, err)
	claims := map[string]any{}
	must(t, json.Unmarshal(body, &claims))
	now := time.Now()
	claims["iat"], claims["nbf"], claims["exp"] = now.Add(-2*time.Hour).Unix(), now.Add(-2*time.Hour).Unix(), now.Add(-time.Hour).Unix()
	body, err = json.Marshal(claims)
	must(t, err)
	_, file := s.Keys()
	content, err := os.ReadFile(file)
	must(t, err)
	block, _ := pem.Decode(content)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	must(t, err)
	text := parts[0] + "." + base64.RawURLEncoding.EncodeToString(body)
	digest := sha256.Sum256([]byte(text))
	first, second, err := ecdsa.Sign(rand.Reader, key, digest[:])
	must(t, err)
	signature := append(first.FillBytes(make([]byte, 32)), second.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// areKnown sends requests with tokens of all kinds, under the shipped rights.
func (v *viewers) areKnown(a *agentSide) func(t *testing.T) {
	return func(t *testing.T) {
		within(t, func() string { // The server learns of the rights a moment later.
			if r, err := a.Review(t.Context(), v.viewer, "/berth/view"); err != nil || !r.Allowed {
				return "the viewer may not look"
			}
			return ""
		})
		if r, err := a.Review(t.Context(), v.viewer, "/berth/view"); err != nil || r.User != "system:serviceaccount:berth-system:berth-viewer" || time.Until(r.Until) < time.Hour {
			t.Errorf("review %+v: %v", r, err)
		}
		v.asked = time.Now()
		for name, test := range map[string]struct {
			path, token string
			status      int
			says        string
		}{
			"health":                {"/healthz", "", http.StatusOK, "ok"},
			"readiness":             {"/readyz", "", http.StatusOK, "ok"},
			"viewer":                {"/", v.viewer, http.StatusOK, "page"},
			"viewer, metrics":       {"/metrics", v.viewer, http.StatusOK, ""},
			"no token":              {"/", "", http.StatusUnauthorized, "bearer token"},
			"no token, metrics":     {"/metrics", "", http.StatusUnauthorized, "bearer token"},
			"stranger":              {"/", v.stranger, http.StatusForbidden, "system:serviceaccount:default:stranger may not get /berth/view"},
			"stranger, metrics":     {"/metrics", v.stranger, http.StatusForbidden, "system:serviceaccount:default:stranger may not get /metrics"},
			"expired":               {"/", a.s.ended(t, v.viewer), http.StatusUnauthorized, "bearer token"},
			"forged":                {"/", v.viewer[:len(v.viewer)-8] + "AAAAAAAA", http.StatusUnauthorized, "bearer token"},
			"the agent's own, view": {"/api/v1/view", a.s.agentOn(t, "n").BearerToken, http.StatusForbidden, "berth-agent may not get /berth/view"},
			"opaque":                {"/api/v1/stream", "opaque", http.StatusUnauthorized, "bearer token"},
		} {
			if status, text := v.ask(t, test.path, test.token); status != test.status || !strings.Contains(text, test.says) {
				t.Errorf("%s: %d %q, want %d %q", name, status, text, test.status, test.says)
			}
		}
		if status, _ := v.ask(t, "/", v.viewer, http.MethodPost); status != http.StatusMethodNotAllowed {
			t.Errorf("POST: %d", status)
		}
	}
}

// areKept sends requests while the API server is down and its answers have expired. Permitted users must still have
// access, and no other user.
func (v *viewers) areKept(t *testing.T, a *agentSide) {
	t.Helper()
	sleep(t.Context(), time.Until(v.asked.Add(61*time.Second)))
	if _, err := a.Review(t.Context(), v.viewer, "/berth/view"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("review: %v", err)
	}
	for name, test := range map[string]struct {
		path, token string
		status      int
	}{
		"viewer":          {"/", v.viewer, http.StatusOK},
		"viewer, metrics": {"/metrics", v.viewer, http.StatusOK},
		"stranger":        {"/", v.stranger, http.StatusServiceUnavailable},
		"not asked yet":   {"/", "another", http.StatusServiceUnavailable},
		"no token":        {"/", "", http.StatusUnauthorized},
		"health":          {"/healthz", "", http.StatusOK},
	} {
		if status, text := v.ask(t, test.path, test.token); status != test.status {
			t.Errorf("away: %s: %d %q, want %d", name, status, text, test.status)
		}
	}
}
