package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/internal/node/apiclient"
)

// issuer is an API server that issues tokens. It has no connections, which would stop the clock of synctest.
type issuer struct {
	// asked is the number of requests. lasts is the validity of a token; 0 leaves it out of the answer.
	asked     int
	lasts     time.Duration
	forbidden bool
}

// RoundTrip implements http.RoundTripper.
func (s *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	status, answer := http.StatusCreated, fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","status":{"token":"token %d"`, s.asked)
	if s.lasts > 0 {
		answer += fmt.Sprintf(`,"expirationTimestamp":%q`, time.Now().Add(s.lasts).UTC().Format(time.RFC3339))
	}
	answer += "}}"
	if r.Method != http.MethodPost || r.URL.Path != tokenPath {
		status, answer = http.StatusNotFound, "{}"
	} else if s.forbidden {
		text, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: `cannot create resource "serviceaccounts/token"`,
		})
		if err != nil {
			return nil, err
		}
		status, answer = http.StatusForbidden, string(text)
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r,
	}, nil
}

// TestTokenIsRenewed checks that a token serves until shortly before its end, and that another token follows. A page
// that is open for hours needs several. A refused renewal is reported, and the next request tries again.
func TestTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &issuer{lasts: renewBefore + 2*time.Minute}
		client, err := apiclient.NewCore(&rest.Config{Host: "http://server.example", QPS: -1, Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		a := &access{client: client}
		gets := func(want string) {
			t.Helper()
			if got, err := a.bearer(t.Context()); got != want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
		gets("token 1")
		time.Sleep(2*time.Minute - time.Second)
		gets("token 1")
		time.Sleep(time.Minute)
		gets("token 2")
		time.Sleep(3 * time.Minute)
		s.forbidden = true
		if got, err := a.bearer(t.Context()); got != "" || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "token of the account berth-system/berth-viewer: ") {
			t.Errorf("refused: %q, %v", got, err)
		}
		s.forbidden, s.lasts = false, 0
		gets("token 4")
		time.Sleep(tokenFor - renewBefore - time.Second)
		gets("token 4")
		time.Sleep(time.Second)
		gets("token 5")
	})
}
