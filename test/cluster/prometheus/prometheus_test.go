package prometheus

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestUnanswered checks that a query without a sample, and a query that Prometheus refuses, count as unanswered.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"some":  `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0"]}]}}`,
		"none":  `{"status":"success","data":{"resultType":"vector","result":[]}}`,
		"wrong": `{"status":"error","errorType":"bad_data","error":"parse error"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(answers[r.URL.Query().Get("query")]))
	}))
	defer server.Close()
	s := Server{server.Listener.Addr().String()}
	left, said := s.Unanswered(t.Context(), []Query{{"a", "some"}, {"b", "none"}, {"c", "wrong"}})
	if len(left) != 2 || left[0].Data != "none" || left[1].Data != "wrong" || !strings.Contains(said, "c: wrong\nparse error") {
		t.Errorf("unanswered are %v: %s", left, said)
	}
}
