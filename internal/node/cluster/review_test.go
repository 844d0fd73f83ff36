package cluster

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var errAway = errors.New("away")

// TestReview checks that a review asks whose token it is, and whether that user, with all its attributes, has access.
func TestReview(t *testing.T) {
	ends := "h." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1900000000}`)) + ".s"
	viewer := authentication.TokenReviewStatus{Authenticated: true, User: authentication.UserInfo{
		Username: "viewer", UID: "u", Groups: []string{"g"}, Extra: map[string]authentication.ExtraValue{"k": {"v"}},
	}}
	type status = authorization.SubjectAccessReviewStatus
	const failed = "Post https://webhook: connection refused"
	for name, test := range map[string]struct {
		token  string
		owner  authentication.TokenReviewStatus
		access status
		want   Review
		err    error
	}{
		"allowed":         {"opaque", viewer, status{Allowed: true}, Review{User: "viewer", Allowed: true}, nil},
		"not allowed":     {"opaque", viewer, status{Reason: "RBAC: role not found"}, Review{User: "viewer"}, nil},
		"token that ends": {ends, viewer, status{Allowed: true}, Review{User: "viewer", Allowed: true, Until: time.Unix(1900000000, 0)}, nil},
		"other kind":      {"a.b.c", viewer, status{Allowed: true}, Review{User: "viewer", Allowed: true}, nil},
		"unknown":         {ends, authentication.TokenReviewStatus{Error: "expired"}, status{Allowed: true}, Review{}, nil},
		// An API server answers in the same way, with another text, for an unknown token.
		"authenticator failed": {"opaque", authentication.TokenReviewStatus{Error: failed}, status{Allowed: true}, Review{}, nil},

		"authorizer failed":          {"opaque", viewer, status{EvaluationError: failed}, Review{}, errUndecided},
		"one failed, another allows": {"opaque", viewer, status{Allowed: true, EvaluationError: failed}, Review{User: "viewer", Allowed: true}, nil},
		"failed, and so denies":      {"opaque", viewer, status{Denied: true, EvaluationError: failed}, Review{User: "viewer"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset()
			asked := reviewer{api.AuthenticationV1().TokenReviews(), api.AuthorizationV1().SubjectAccessReviews()}
			api.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtimeObject, error) {
				r := a.(clienttesting.CreateAction).GetObject().(*authentication.TokenReview)
				if r.Spec.Token != test.token || len(r.Spec.Audiences) > 0 {
					t.Errorf("review of %+v", r.Spec)
				}
				r.Status = test.owner
				return true, r, nil
			})
			api.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtimeObject, error) {
				r := a.(clienttesting.CreateAction).GetObject().(*authorization.SubjectAccessReview)
				want := authorization.SubjectAccessReviewSpec{
					User: "viewer", UID: "u", Groups: []string{"g"}, Extra: map[string]authorization.ExtraValue{"k": {"v"}},
					NonResourceAttributes: &authorization.NonResourceAttributes{Path: "/berth/view", Verb: "get"},
				}
				if diff := cmp.Diff(want, r.Spec); diff != "" {
					t.Errorf("asked for (-want +got):\n%s", diff)
				}
				r.Status = test.access
				return true, r, nil
			})
			if got, err := asked.review(t.Context(), test.token, "/berth/view"); got != test.want || !errors.Is(err, test.err) {
				t.Errorf("%+v, %v, want %+v, %v", got, err, test.want, test.err)
			}
			failing(api, "create", "tokenreviews", func() error { return errAway })
			if _, err := asked.review(t.Context(), test.token, "/berth/view"); !errors.Is(err, errAway) || strings.Contains(err.Error(), test.token) {
				t.Errorf("away: %v", err)
			}
		})
	}
}
