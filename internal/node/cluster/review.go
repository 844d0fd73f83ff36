package cluster

import (
	"context"
	"fmt"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Review is the API server's review of a bearer token.
type Review struct {
	// User is the owner of the token, empty if the API server does not know the token or knows that it ended.
	User string
	// Allowed reports whether the user may get the path.
	Allowed bool
	// Until is when the token expires by its own claims, zero for never.
	Until time.Time
}

// Review asks the API server who owns a token, and whether that user may get a non-resource path. It returns an error
// if the API server is away, refuses the question, or has an authorizer that fails. It waits for the answers, and does
// not need Run.
func (c *Client) Review(ctx context.Context, token, path string) (Review, error) {
	return c.reviews.review(ctx, token, path)
}

// asks creates a review, which the API server answers in its status.
type asks[O any] interface {
	Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error)
}

// reviewer asks the API server about users.
type reviewer struct {
	tokens   asks[*authentication.TokenReview]
	accesses asks[*authorization.SubjectAccessReview]
}

func (r reviewer) review(ctx context.Context, token, path string) (Review, error) {
	asked := &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}
	owner, err := r.tokens.Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return Review{}, fmt.Errorf("review a token: %w", err)
	}
	if !owner.Status.Authenticated {
		// Status.Error is set for an unknown, expired or revoked token and also for a failed authenticator. Only its
		// text differs, so the token is refused in all cases.
		return Review{}, nil
	}
	user := owner.Status.User
	access := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorization.ExtraValue{},
		NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: "get"},
	}}
	for name, values := range user.Extra {
		access.Spec.Extra[name] = authorization.ExtraValue(values)
	}
	answer, err := r.accesses.Create(ctx, access, metav1.CreateOptions{})
	if err != nil {
		return Review{}, fmt.Errorf("review whether %s may get %s: %w", user.Username, path, err)
	}
	if s := answer.Status; !s.Allowed && !s.Denied && s.EvaluationError != "" {
		return Review{}, fmt.Errorf("review whether %s may get %s: %w: %s", user.Username, path, errUndecided, s.EvaluationError)
	}
	said := Review{User: user.Username, Allowed: answer.Status.Allowed}
	// The API server accepted the token. If its claims cannot be read, it is of another kind.
	if claims, err := claimsOf(token); err == nil && claims.Expires > 0 {
		said.Until = time.Unix(int64(claims.Expires), 0)
	}
	return said, nil
}
