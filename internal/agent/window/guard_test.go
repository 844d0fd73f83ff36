package window

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestGuard checks that requests which a browser sends for another site, or to another name, are refused, and that
// requests of this host's programs are answered.
func TestGuard(t *testing.T) {
	for name, test := range map[string]struct {
		method, host, header, value string
		code                        int
	}{
		"loopback":            {http.MethodGet, "127.0.0.1:9316", "", "", http.StatusOK},
		"loopback of IPv6":    {http.MethodGet, "[::1]:9316", "", "", http.StatusOK},
		"localhost":           {http.MethodHead, "LocalHost:9316", "", "", http.StatusOK},
		"bound address":       {http.MethodGet, "192.0.2.7:9316", "", "", http.StatusOK},
		"a name of web.hosts": {http.MethodGet, "Node-1.example.com:9316", "", "", http.StatusOK},
		"name of listen":      {http.MethodGet, "shown.example.com:9316", "", "", http.StatusOK},
		"another address":     {http.MethodGet, "192.0.2.8:9316", "", "", http.StatusMisdirectedRequest},
		"rebound name":        {http.MethodGet, "evil.example.com:9316", "", "", http.StatusMisdirectedRequest},
		"name that begins so": {http.MethodGet, "localhost.evil.example.com", "", "", http.StatusMisdirectedRequest},
		"no name":             {http.MethodGet, "", "", "", http.StatusMisdirectedRequest},
		"writing":             {http.MethodPost, "localhost", "", "", http.StatusMethodNotAllowed},
		"preflight":           {http.MethodOptions, "localhost", "", "", http.StatusMethodNotAllowed},
		"another site":        {http.MethodGet, "localhost", "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		"another port":        {http.MethodGet, "localhost", "Sec-Fetch-Site", "same-site", http.StatusForbidden},
		"typed":               {http.MethodGet, "localhost", "Sec-Fetch-Site", "none", http.StatusOK},
		"its own page":        {http.MethodGet, "localhost:9316", "Origin", "http://localhost:9316", http.StatusOK},
		"another origin":      {http.MethodGet, "localhost:9316", "Origin", "http://evil.example.com", http.StatusForbidden},
		"no origin":           {http.MethodGet, "localhost:9316", "Origin", "null", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			local := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 9316})
			w := &Window{opts: Options{Address: "shown.example.com:9316", Hosts: []string{"node-1.example.com"}, Log: quiet()}}
			open, _ := w.handlers((&agent{}).answers())
			request := httptest.NewRequestWithContext(local, test.method, "/healthz", http.NoBody)
			request.Host = test.host
			if test.header != "" {
				request.Header.Set(test.header, test.value)
			}
			answer := httptest.NewRecorder()
			open.ServeHTTP(answer, request)
			if answer.Code != test.code {
				t.Errorf("%d %s, want %d", answer.Code, answer.Body, test.code)
			}
			if h := answer.Header(); !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none';") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("headers %v", h)
			}
		})
	}
}
