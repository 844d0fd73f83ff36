package local

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestPinnable reads the condition from the answers of an API server.
func TestPinnable(t *testing.T) {
	answers := map[string]string{
		"n":     `{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"Pinnable","status":"True","reason":"Pinning","message":"all is well"}]}}`,
		"quiet": `{"status":{}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dir, node := path.Split(r.URL.Path)
		text, found := answers[node]
		if !found || dir != "/apis/berth.dev/v1alpha1/nodetopologies/" {
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must(t, err)
	for node, want := range map[string]string{"n": "True Pinning: all is well", "quiet": "", "unknown": ""} {
		if got, err := Pinnable(t.Context(), client, node); got != want || err != nil {
			t.Errorf("Pinnable(%s) = %q, %v, want %q", node, got, err, want)
		}
	}
	server.Close()
	if got, err := Pinnable(t.Context(), client, "n"); err == nil {
		t.Errorf("without a server Pinnable() = %q", got)
	}
}
