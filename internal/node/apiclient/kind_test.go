package apiclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/internal/node/apiclient"
)

// asked is what a server got.
type asked struct {
	Method, URL, Accept, ContentType, Body string
}

// call makes one request by Berth's client, and the same by client-go's.
type call struct {
	name         string
	berth, other func(context.Context) error
}

func calls(t *testing.T, config *rest.Config) []call {
	t.Helper()
	core, first := apiclient.NewCore(config)
	events, second := apiclient.NewEvents(config)
	leases, third := apiclient.NewLeases(config, "berth-system")
	tokens, fourth := apiclient.NewTokenReviews(config)
	accesses, fifth := apiclient.NewAccessReviews(config)
	set, sixth := kubernetes.NewForConfig(config)
	if err := errors.Join(first, second, third, fourth, fifth, sixth); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	event := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "shop"}, Reason: "CPUPinned"}
	seconds := int64(300)
	some := metav1.ListOptions{FieldSelector: "spec.nodeName=n", TimeoutSeconds: &seconds, AllowWatchBookmarks: true}
	err := func(_ any, err error) error { return err }
	return []call{
		{"list pods", func(ctx context.Context) error { return err(core.Pods("").List(ctx, some)) }, func(ctx context.Context) error { return err(set.CoreV1().Pods("").List(ctx, some)) }},
		{"watch pods", func(ctx context.Context) error { return err(core.Pods("").Watch(ctx, some)) }, func(ctx context.Context) error { return err(set.CoreV1().Pods("").Watch(ctx, some)) }},
		{"list nodes", func(ctx context.Context) error { return err(core.Nodes().List(ctx, metav1.ListOptions{})) }, func(ctx context.Context) error { return err(set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})) }},
		{"watch ConfigMaps", func(ctx context.Context) error { return err(core.ConfigMaps("a").Watch(ctx, some)) }, func(ctx context.Context) error { return err(set.CoreV1().ConfigMaps("a").Watch(ctx, some)) }},
		{"patch the status of a pod", func(ctx context.Context) error {
			return err(core.Pods("shop").Patch(ctx, "web", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status"))
		}, func(ctx context.Context) error {
			return err(set.CoreV1().Pods("shop").Patch(ctx, "web", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status"))
		}},
		{"create an event", func(ctx context.Context) error {
			return err(events.In("shop").Create(ctx, event, metav1.CreateOptions{}))
		}, func(ctx context.Context) error {
			return err(set.EventsV1().Events("shop").Create(ctx, event, metav1.CreateOptions{}))
		}},
		{"ask whose a token is", func(ctx context.Context) error {
			return err(tokens.Create(ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{}))
		}, func(ctx context.Context) error {
			return err(set.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{}))
		}},
		{"ask for a token", func(ctx context.Context) error {
			return err(core.Token(ctx, "shop", "viewer", &authenticationv1.TokenRequest{}))
		}, func(ctx context.Context) error {
			return err(set.CoreV1().ServiceAccounts("shop").CreateToken(ctx, "viewer", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
		}},
		{"ask what a user may do", func(ctx context.Context) error {
			return err(accesses.Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{}))
		}, func(ctx context.Context) error {
			return err(set.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{}))
		}},
		{"read a Lease", func(ctx context.Context) error {
			return err(leases.Get(ctx, "n", metav1.GetOptions{ResourceVersion: "0"}))
		}, func(ctx context.Context) error {
			return err(set.CoordinationV1().Leases("berth-system").Get(ctx, "n", metav1.GetOptions{ResourceVersion: "0"}))
		}},
		{"update a Lease", func(ctx context.Context) error { return err(leases.Update(ctx, lease, metav1.UpdateOptions{})) }, func(ctx context.Context) error {
			return err(set.CoordinationV1().Leases("berth-system").Update(ctx, lease, metav1.UpdateOptions{}))
		}},
	}
}

// Each request is the one that client-go's clientset would send, and so is the error.
func TestKindAsksLikeClientset(t *testing.T) {
	var got asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = asked{r.Method, r.URL.String(), r.Header.Get("Accept"), r.Header.Get("Content-Type"), string(body)}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}))
	defer server.Close()
	for _, c := range calls(t, &rest.Config{Host: server.URL}) {
		t.Run(c.name, func(t *testing.T) {
			err := c.berth(t.Context())
			ours := got
			if !apierrors.IsNotFound(err) {
				t.Errorf("%v, want not found", err)
			}
			if err := c.other(t.Context()); !apierrors.IsNotFound(err) {
				t.Errorf("client-go: %v", err)
			}
			if diff := cmp.Diff(got, ours); diff != "" {
				t.Errorf("client-go asks -, Berth asks +\n%s", diff)
			}
		})
	}
}

// What the server answers is decoded, in both forms.
func TestKindDecodes(t *testing.T) {
	list := v1.PodList{Items: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}}
	protobuf, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: protobuf}
	wrapped, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for form, answer := range map[string]string{
		runtime.ContentTypeJSON:     `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"web"}}]}`,
		runtime.ContentTypeProtobuf: "k8s\x00" + string(wrapped),
	} {
		t.Run(form, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", form)
				_, _ = io.WriteString(w, answer)
			}))
			defer server.Close()
			core, err := apiclient.NewCore(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			pods, err := core.Pods("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "web" {
				t.Errorf("%+v, %v", pods, err)
			}
		})
	}
}
